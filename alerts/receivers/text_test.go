package receivers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestText reports what is wrong where it is written, and everything at once.
func TestText(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s"), []byte("https://x.example/hush"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "empty"), nil, 0o600))
	t.Setenv("RECEIVERS_HUSH", "ftp://hush")
	for _, x := range []struct {
		name, sections string
		want           []string
	}{
		{"unknown key", "receivers:\n  - name: a\n    slack_configs:\n      - api_url_file: s\n        chanel: x\n",
			[]string{`engine.yaml:5:9: slack_configs: unknown key "chanel"`}},
		{"unknown kind", "receivers: [{name: a, pigeon_configs: [{}]}]",
			[]string{`engine.yaml:1:23: pigeon_configs: unknown key "pigeon_configs"`}},
		{"sns", "receivers: [{name: a, sns_configs: [{}]}]",
			[]string{`engine.yaml:1:23: sns_configs: the engine does not support this kind of receiver`}},
		{"two at once",
			"receivers:\n  - name: a\n    webhook_configs: [{urll: x}]\n  - name: b\n    email_configs: [{to: x@y.example}]\n",
			[]string{
				`engine.yaml:3:24: webhook_configs: unknown key "urll"`,
				`engine.yaml:5:21: email_configs: no global SMTP smarthost set`,
			}},
		{"type", "receivers: [{name: a, webhook_configs: [{url: 'http://x', max_alerts: many}]}]",
			[]string{"engine.yaml:1:71: webhook_configs: cannot unmarshal !!str `many` into uint64"}},
		{"no name", "receivers: [{webhook_configs: []}]", []string{`.name: missing`}},
		{"twice", "receivers: [{name: a}, {name: a}]", []string{`notification config name "a" is not unique`}},
		{"none", "receivers: []", []string{`there are no receivers`}},
		{"not a list", "receivers: {name: a}", []string{`want a list, got a mapping`}},
		{"not a mapping", "receivers: [a]", []string{`want a mapping`}},
		{"global", "global: {smtp_port: 25}\nreceivers: [{name: a}]",
			[]string{`engine.yaml:1:10: global: unknown key "smtp_port"`}},
		{"literal secret", "receivers: [{name: a, slack_configs: [{api_url: 'https://hush', channel: c}]}]",
			[]string{`a secret must not be written in engine.yaml (write api_url_file or api_url_env instead)`}},
		{"literal password", "global: {smtp_auth_password: hush}\nreceivers: [{name: a}]",
			[]string{`engine.yaml:1:30: smtp_auth_password: a secret must not be written`}},
		{"no file", "receivers: [{name: a, slack_configs: [{api_url_file: nowhere, channel: c}]}]",
			[]string{`no such file or directory`}},
		{"empty file", "receivers: [{name: a, slack_configs: [{api_url_file: empty, channel: c}]}]",
			[]string{`empty is empty`}},
		{"no variable", "receivers: [{name: a, slack_configs: [{api_url_env: RECEIVERS_NOWHERE, channel: c}]}]",
			[]string{`api_url_env: the environment variable RECEIVERS_NOWHERE is empty (set it for the engine)`}},
		{"bad variable", "receivers: [{name: a, slack_configs: [{api_url_env: RECEIVERS_HUSH, channel: c}]}]",
			[]string{`slack_configs: unsupported scheme`}},
	} {
		t.Run(x.name, func(t *testing.T) {
			got, err := text(dir, x.sections)
			require.Error(t, err)
			require.Empty(t, got)
			for _, want := range x.want {
				require.ErrorContains(t, err, want)
			}
			require.Equal(t, len(x.want), strings.Count(err.Error(), "\n")+1, err)
			require.NotContains(t, err.Error(), "hush")
		})
	}
}

// TestCheckTemplates reads files, and says what is wrong with them.
func TestCheckTemplates(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.tmpl"), filepath.Join(dir, "bad.tmpl")
	require.NoError(t, os.WriteFile(good, []byte(`{{ define "slack.default.title" }}mine{{ end }}`), 0o600))
	require.NoError(t, os.WriteFile(bad, []byte(`{{ define "x" }}{{ nothing }}{{ end }}`), 0o600))
	require.NoError(t, CheckTemplates([]string{good, filepath.Join(dir, "none*")}))
	require.ErrorContains(t, CheckTemplates([]string{bad}), `function "nothing" not defined`)
	require.ErrorContains(t, CheckTemplates([]string{filepath.Join(dir, "gone")}), "no such file")
}
