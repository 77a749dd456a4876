package alertmanager

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo/yamldoc"
)

func TestReadReceivers(t *testing.T) {
	r := receivers(t)
	require.Len(t, r.Receivers, 4)
	require.Equal(t, "sla-warnings", r.Default)
	require.Equal(t, "mdm-pager", r.Services["mdm"][Critical])
	require.Equal(t, time.Minute, *r.Timing[Recovery].GroupWait)
	require.Len(t, r.Receivers[3].Webhook, 2)
	require.Equal(t, "error", r.Receivers[3].PagerDuty[0].Severity)
	require.True(t, r.onlyGoodNews("sla-recovery"))
	require.False(t, r.onlyGoodNews("sla-warnings"))
}

// TestReadErrors pins the place and the words of every kind of error.
func TestReadErrors(t *testing.T) {
	const head = "version: sloengine/receivers/v1\ndefault: a\n"
	const rcv = "receivers:\n  - name: a\n    slack: {api_url_file: /x, channel: c}\n"
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", "r.yaml:1:1: the file is empty"},
		{"syntax", "a: [", "r.yaml:1:1: not valid YAML: did not find expected node content"},
		{"no mapping", "- a", "r.yaml:1:1: want a mapping"},
		{"unknown key", head + rcv + "other: 1",
			`r.yaml:6:1: unknown key "other" (known keys: version, smtp, receivers, default, routes, services, watchdog,` +
				` timing)`},
		{"key twice", head + rcv + "default: a", `r.yaml:6:1: duplicate key "default"`},
		{"version", "version: v1\ndefault: a\n" + rcv, "r.yaml:1:10: version: want sloengine/receivers/v1"},
		{"two documents", head + rcv + "---\na: 1", "r.yaml:7:1: the file has a second YAML document"},
		{"inline secret", head + "receivers:\n  - name: a\n    slack: {api_url: 'https://x', channel: c}",
			`r.yaml:5:13: receivers[0].slack[0]: unknown key "api_url" (did you mean "api_url_file"?)`},
		{"secret in place of its file", head + "receivers:\n  - name: a\n    slack: {api_url_file: 'https://x', channel: c}",
			"r.yaml:5:27: receivers[0].slack[0].api_url_file: want the path of a file that holds the secret, not the secret"},
		{"password in a URL", head + "receivers:\n  - name: a\n    webhook: {url: 'https://u:p@x'}",
			"r.yaml:5:20: receivers[0].webhook[0].url: it contains a password (use username and password_file)"},
		{"two keys", head + "receivers:\n  - name: a\n    pagerduty: {routing_key_file: /a, service_key_file: /b}",
			"r.yaml:5:16: receivers[0].pagerduty[0]: want one of routing_key_file and service_key_file"},
		{"number for text", head + "receivers:\n  - name: 1\n    email: {to: a@b}\n",
			"r.yaml:4:11: receivers[0].name: want text"},
		{"unknown receiver", head + "routes: {critical: b}\n" + rcv, `r.yaml:3:20: routes.critical: unknown receiver "b"`},
		{"unknown class", head + "routes: {urgent: a}\n" + rcv,
			`r.yaml:3:18: routes.urgent: unknown class "urgent"; want critical, warning or recovery`},
		{"service", head + "services: {a.b: {warning: x}}\n" + rcv,
			`r.yaml:3:27: services.a.b.warning: unknown receiver "x"`},
		{"duration", head + "timing: {critical: {group_wait: 1x}}\n" + rcv,
			`r.yaml:3:33: timing.critical.group_wait: "1x": want a duration`},
		{"e-mail without server", head + "receivers:\n  - name: a\n    email: {to: a@b}\n",
			"r.yaml:5:12: receivers[0].email: email receivers require smtp"},
		{"smarthost", head + "smtp: {smarthost: mail, from: a@b}\n" + rcv,
			`r.yaml:3:19: smtp.smarthost: "mail": want host:port`},
		{"half a login", head + "smtp: {smarthost: 'm:25', from: a@b, username: x}\n" + rcv,
			"r.yaml:3:7: smtp: username and password_file must be set together"},
		{"truth", head + "smtp: {smarthost: 'm:25', from: a@b, tls: maybe}\n" + rcv,
			"r.yaml:3:43: smtp.tls: want true or false"},
		{"no channel", head + "receivers:\n  - name: a\n", "r.yaml:4:5: receivers[0]: it has no channel"},
		{"name twice", head + rcv + "  - name: a\n    slack: {api_url_file: /x, channel: c}\n",
			"r.yaml:6:11: receivers[1].name: duplicate receiver a"},
		{"no list", head + "receivers: {a: b}", "r.yaml:3:12: receivers: want a list"},
		{"no default", "version: sloengine/receivers/v1\n" + rcv,
			"r.yaml:1:1: default: name the receiver for alerts that match no route"},
		{"severity", head + "receivers:\n  - name: a\n    pagerduty: {routing_key_file: /a, severity: high}",
			`r.yaml:5:49: receivers[0].pagerduty[0].severity: "high": want critical, error, warning or info`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := ReadReceivers("r.yaml", []byte(c.in))
			require.Nil(t, r)
			var problem *yamldoc.Error
			require.ErrorAs(t, err, &problem)
			require.ErrorContains(t, err, c.want)
			for line := range strings.Lines(err.Error()) {
				require.Regexp(t, `^r\.yaml:\d+:\d+: .+`, line)
			}
		})
	}
	_, err := ReadReceivers("r.yaml", []byte(head+"routes: {urgent: a, critical: z}\n"+rcv+"x: 1\n"))
	require.Equal(t, 1, strings.Count(err.Error(), "r.yaml:"), "what is written wrongly comes first")
	_, err = ReadReceivers("r.yaml", []byte(head+"routes: {urgent: a, critical: z}\n"+rcv))
	require.Equal(t, 2, strings.Count(err.Error(), "r.yaml:"), "all at once, in order")
}

func FuzzReadReceivers(f *testing.F) {
	f.Add([]byte(
		"version: sloengine/receivers/v1\ndefault: a\nreceivers:\n  - name: a\n    slack: {api_url_file: /x, channel: c}\n"))
	f.Add([]byte("a: &x [*x]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ReadReceivers("f", data)
		require.True(t, (r == nil) != (err == nil))
	})
}
