package receivers

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/breaker"

	"github.com/prometheus/alertmanager/config"
)

// TestHostile sends to receivers that fail in every way, beside a good one that is not delayed.
func TestHostile(t *testing.T) {
	elsewhere := newHook(t, nil)
	for name, x := range map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request)
		brief  string
		gives  bool // up until the group is flushed again
	}{
		"hangs": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "no answer in time", false},
		"lies": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"ok":false,"error":"invalid_auth hush"}`)
		}, "error in an answer of 200", true},
		"redirects": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+"/x?token=hush", 302)
		}, "302 Found", true},
		"refuses": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "hush", 400) }, "400 Bad Request", true},
		"forbids": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "hush", 403) }, "403 Forbidden", true},
		"fails": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "hush", 503)
		}, "503 Service Unavailable", false},
		"closes": {func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }, "no connection", false},
		"never ends": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(500)
			for r.Context().Err() == nil {
				if _, err := w.Write(bytes.Repeat([]byte("x"), 1<<16)); err != nil {
					return
				}
			}
		}, "500 Internal Server Error", false},
	} {
		t.Run(name, func(t *testing.T) {
			good, bad := newHook(t, nil), newHook(t, x.answer)
			var log testkit.Buffer
			sections := fmt.Sprintf("receivers: [{name: r0, webhook_configs: [{url: %q}, {url: %q}]}]",
				bad.URL+"/?token=hush", good.URL)
			timeout := time.Minute
			if name == "hangs" {
				timeout = 2 * time.Second // the good one needs less on any machine
			}
			d, _ := run(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Settings: Settings{
				Text: mustText(t, sections), Timeout: timeout, Routing: routing(`
route: {receiver: r0, group_by: [service], group_wait: 0s, group_interval: 10m, repeat_interval: 1h}
receivers: [{name: r0}]
`)}})
			var a alarms
			d.Update(a.fire("A", "service=shop").now())
			testkit.Eventually(t, "the good one is notified", func() bool { return len(good.all()) == 1 })
			testkit.Eventually(t, "it fails", func() bool { return !status(t, d, "r0/webhook[0]").FailingSince.IsZero() })
			s := status(t, d, "r0/webhook[0]")
			require.Equal(t, x.brief, s.Brief)
			if x.gives {
				testkit.Eventually(t, "nothing waits", func() bool { return status(t, d, "r0/webhook[0]").Pending == 0 })
				require.Len(t, bad.all(), 1, "no retry before the next interval")
			} else {
				bad.set(nil)
				testkit.Eventually(t, "it is notified in the end", func() bool { return status(t, d, "r0/webhook[0]").Sent == 1 })
				require.True(t, status(t, d, "r0/webhook[0]").FailingSince.IsZero())
			}
			require.Len(t, good.all(), 1)
			require.Equal(t, 1, strings.Count(log.String(), "does not accept alerts"))
			require.NotContains(t, log.String(), "token=")
			require.NotContains(t, s.Cause, "token=")
		})
	}
	require.Empty(t, elsewhere.all())
}

// TestRetryAfter waits as long as a receiver asks for.
func TestRetryAfter(t *testing.T) {
	var calls atomic.Int32
	h := newHook(t, func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) == 1 {
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	d, _ := run(t, Options{Settings: Settings{Text: hooks(t, h), Routing: routing(quick)}})
	var a alarms
	d.Update(a.fire("A", "service=shop").now())
	testkit.Eventually(t, "notified", func() bool { return status(t, d, "r0/webhook[0]").Sent == 1 })
	got := h.all()
	require.Len(t, got, 2)
	require.GreaterOrEqual(t, got[1].at.Sub(got[0].at), 1900*time.Millisecond)
}

// TestSlack finds the errors that Slack hides in answers of 200, and shows the default texts.
func TestSlack(t *testing.T) {
	var body atomic.Value
	lie := atomic.Bool{}
	lie.Store(true)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var b bytes.Buffer
		_, _ = b.ReadFrom(r.Body)
		body.Store(b.String())
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"ok":%v,"error":"channel_not_found"}`, !lie.Load())
		if !lie.Load() {
			return
		}
	}))
	defer srv.Close()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "slack.url"), []byte(srv.URL+"/services/hush\n"), 0o600))
	sections, err := text(dir, `receivers: [{name: r0, slack_configs: [{api_url_file: slack.url, channel: "#sla"}]}]`)
	require.NoError(t, err)
	d, _ := run(t, Options{Settings: Settings{Text: sections, Routing: routing(quick)}})
	var a alarms
	d.Update(a.fire("A", "service=shop").now())
	testkit.Eventually(t, "it lies", func() bool {
		return status(t, d, "r0/slack[0]").Brief == "error in an answer of 200"
	})
	require.Contains(t, status(t, d, "r0/slack[0]").Cause, "channel_not_found")
	require.Contains(t, body.Load(), `"title":"A"`)
	require.Contains(t, body.Load(), `"username":"sloengine"`)
}

// TestEveryKind makes one of each kind, and watches its answers. It fails where an upgrade of Alertmanager's library
// hides the client or the settings of a kind, so that redirects would be followed.
func TestEveryKind(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s"), []byte("https://x.example/hush"), 0o600))
	sections, err := text(dir, everyKind)
	require.NoError(t, err)
	c, err := config.Load(sections)
	require.NoError(t, err)
	targets, err := newTargets(c, nil)
	require.NoError(t, err)
	require.Len(t, targets["all"], 17)
	for _, x := range targets["all"] {
		if x.kind == "email" {
			continue
		}
		require.NotNil(t, x.client, x.name)
		require.NotNil(t, x.client.CheckRedirect, x.name)
		require.IsType(t, &watcher{}, x.client.Transport, x.name)
		require.ErrorContains(t, x.client.CheckRedirect(nil, nil), "use last response", x.name)
	}
}

const everyKind = `
global: {smtp_smarthost: "mail:25", smtp_from: a@b.example}
receivers:
  - name: all
    webhook_configs: [{url: "https://x.example"}]
    email_configs: [{to: a@b.example}]
    slack_configs: [{api_url_file: s, channel: c}]
    pagerduty_configs: [{routing_key_file: s}]
    opsgenie_configs: [{api_key_file: s}]
    telegram_configs: [{bot_token_file: s, chat_id: 1}]
    msteams_configs: [{webhook_url_file: s}]
    msteamsv2_configs: [{webhook_url_file: s}]
    discord_configs: [{webhook_url_file: s}]
    mattermost_configs: [{webhook_url_file: s}]
    rocketchat_configs: [{token_file: s, token_id_file: s, channel: c}]
    webex_configs: [{room_id: a, http_config: {authorization: {credentials_file: s}}}]
    pushover_configs: [{user_key_file: s, token_file: s}]
    victorops_configs: [{api_key_file: s, routing_key: team}]
    incidentio_configs: [{url_file: s, alert_source_token_file: s}]
    jira_configs: [{api_url: "https://j.example", project: P, issue_type: T}]
    wechat_configs: [{api_secret_file: s, corp_id: c}]
`

// TestOneContentDelaysNobody refuses the messages of one group in every way, and takes all others. None of them waits
// for it, and the breaker stays closed.
func TestOneContentDelaysNobody(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(w http.ResponseWriter, r *http.Request){
		"400":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(400) },
		"413":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(413) },
		"404":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) },
		"500":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"503":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) },
		"breaks": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHook(t, nil)
			var refused atomic.Int32
			h.set(func(w http.ResponseWriter, r *http.Request) {
				if last := h.all(); last[len(last)-1].GroupLabels["service"] == "evil" {
					refused.Add(1)
					refuse(w, r)
				}
			})
			d, _ := run(t, Options{Settings: Settings{Text: hooks(t, h), Routing: routing(quick)}})
			var a alarms
			d.Update(a.fire("Evil", "service=evil").now())
			for i := range 4 {
				testkit.Eventually(t, "it is refused", func() bool { return int(refused.Load()) > i })
				began := time.Now()
				d.Update(a.fire(fmt.Sprint("Good", i), fmt.Sprint("service=good", i)).now())
				testkit.Eventually(t, "the other is notified", func() bool {
					return int(status(t, d, "r0/webhook[0]").Sent) == i+1
				})
				require.Less(t, time.Since(began), 2*time.Second)
				require.Equal(t, breaker.Closed.String(), status(t, d, "r0/webhook[0]").Breaker)
			}
			d.Update(a.end("Evil").now())
			testkit.Eventually(t, "nothing is left to send", func() bool {
				return status(t, d, "r0/webhook[0]").FailingSince.IsZero()
			})
		})
	}
}

// A failure ends with the alert that it was about, also if that ended during the call and other groups are flushed all
// the time.
func TestFailureEndsBesideOtherGroups(t *testing.T) {
	t.Parallel()
	h := newHook(t, nil)
	asked, answer := make(chan struct{}), make(chan struct{})
	var once sync.Once
	h.set(func(w http.ResponseWriter, _ *http.Request) {
		if last := h.all(); last[len(last)-1].GroupLabels["service"] == "evil" {
			once.Do(func() { close(asked) })
			<-answer
			w.WriteHeader(http.StatusNotFound)
		}
	})
	d, _ := run(t, Options{Settings: Settings{Text: hooks(t, h), Routing: routing(quick)}})
	var a alarms
	d.Update(a.fire("Good", "service=good").now())
	testkit.Eventually(t, "the other is notified", func() bool { return status(t, d, "r0/webhook[0]").Sent == 1 })
	d.Update(a.fire("Evil", "service=evil").now())
	<-asked
	d.Update(a.end("Evil").now())
	testkit.Pause(200 * time.Millisecond) // in which the end is taken over
	close(answer)
	testkit.Eventually(t, "the call has failed", func() bool { return status(t, d, "r0/webhook[0]").Pending == 0 })
	testkit.Eventually(t, "that is over", func() bool { return status(t, d, "r0/webhook[0]").FailingSince.IsZero() })
}

// TestUnreachable opens the breaker when the messages of several groups get no answer.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	h := newHook(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	d, _ := run(t, Options{Settings: Settings{Text: hooks(t, h), Routing: routing(quick)}})
	var a alarms
	for i := range 200 {
		a.fire("A", fmt.Sprint("service=s", i))
	}
	d.Update(a.now())
	testkit.Eventually(t, "it opens", func() bool {
		return status(t, d, "r0/webhook[0]").Breaker == breaker.Open.String()
	})
	require.LessOrEqual(t, len(h.all()), 6)
}
