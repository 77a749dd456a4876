package alerting

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/mail/mailtest"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
)

// TestScheduledReports follows a weekly report from events to a real mail server, a webhook and a folder. The engine is
// killed after the mail was sent and before it could note that, and is backed up and restored.
func TestScheduledReports(t *testing.T) {
	server := mailtest.Start(t, mailtest.Options{})
	var posted atomic.Int32
	var body atomic.Value
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("Authorization") != "Bearer hook-token" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		body.Store(raw)
		posted.Add(1)
	}))
	t.Cleanup(hook.Close)
	dir := t.TempDir()
	spec := e2etest.WriteFile(t, dir, "spec.yaml", `version: sloengine/v1
service: shop
slos:
  - name: checkout
    objective: 99
    window: {calendar: month, timezone: Europe/Berlin}
    indicator:
      events: {valid: '{type="order"}', bad: '{outcome="failure"}'}
slas:
  - name: gold
    window: {calendar: month, timezone: Europe/Berlin}
    components:
      checkout: {slo: checkout, weight: 1}
`)
	e2etest.WriteFile(t, dir, "mail.password", mailtest.Password+"\n")
	t.Setenv("SLOENGINE_TEST_HOOK", "hook-token")
	settings := fmt.Sprintf(`evaluator: {interval: 100ms}
web: {external_url: "https://slo.example.org"}
smtp:
  smarthost: %q
  from: SLO reports <slo@example.org>
  username: %s
  password_file: mail.password
  tls: starttls
  hello: engine.example.org
  tls_config: {ca_file: %q}
reports:
  - name: weekly
    every: week
    day: monday
    at: "00:00"
    timezone: Europe/Berlin
    agreement: shop/gold
    formats: [html, csv, json]
    to:
      email: [ops@example.org]
      webhooks: [{url: %q, token_env: SLOENGINE_TEST_HOOK}]
      folder: reports
  - {name: misspelt, every: month, service: shopp, to: {folder: reports}}
  - name: all-shop
    every: month
    day: "28"
    service: shop
    to: {webhooks: [{url: %q, token_file: mail.password}]}
`, server.Address, mailtest.User, server.CAFile, hook.URL, hook.URL)
	serve := func() *e2etest.Process {
		return e2etest.Serve(t, dir, spec, settings)
	}
	state := filepath.Join(dir, "data", "reports.json")
	p := serve()
	now := time.Now()
	for i := range 20 { // in the week before this one
		at := report.PeriodOf(slo.Week, now.In(berlin(t))).Shift(-1).Noon().Add(time.Duration(i) * time.Minute)
		status, answer := e2etest.Post(t, p.Base+"/api/v1/events?backfill=true", "",
			fmt.Sprintf(`{"id":"%d","time":%d,"service":"shop","type":"order","outcome":%q}`, i, at.Unix(),
				map[bool]string{true: "failure", false: "success"}[i == 0]))
		require.Equal(t, 202, status, answer)
	}
	logged := func(want string) {
		t.Helper()
		require.Eventually(t, func() bool {
			return strings.Contains(p.Log.String(), want)
		}, testkit.Patience, 20*time.Millisecond, "the log lacks %s", want)
	}
	logged(`"reports name what no spec has, so they will be empty" reports="[misspelt: service shopp]"`)
	require.Eventually(t, func() bool {
		_, err := os.Stat(state)
		return err == nil
	}, testkit.Patience, 20*time.Millisecond, p.Log)
	require.Empty(t, server.Received(), "what was due before the report was in the settings is not sent")
	require.Contains(t, string(e2etest.Get(t, p.Base+"/api/v1/engine")), `"name":"ops@example.org"`)
	page := string(e2etest.Get(t, p.Base+"/engine"))
	require.Contains(t, page, "ops@example.org")
	require.NotContains(t, page, mailtest.Password)
	p.Stop(t)

	// As if the report had been in the settings for a month: the last one was missed while the engine was down.
	data, err := os.ReadFile(state)
	require.NoError(t, err)
	earlier := now.AddDate(0, -1, 0).UTC().Format(time.RFC3339)
	data = regexp.MustCompile(`("weekly/[^{]*\{\s*"since":\s*)"[^"]*"`).ReplaceAll(data, []byte(`${1}"`+earlier+`"`))
	require.NoError(t, os.WriteFile(state, data, 0o600))

	// The mail server has the message, and the engine is killed before it hears of it.
	killed := make(chan struct{})
	target := make(chan *e2etest.Process, 1)
	var once atomic.Bool
	server.OnData(func() {
		if once.CompareAndSwap(false, true) {
			(<-target).Kill()
			close(killed)
		}
	})
	p, ok := e2etest.ServeIn(t, dir, spec, settings)
	require.True(t, ok, p.Log.String())
	target <- p
	select {
	case <-killed:
	case <-time.After(testkit.Patience):
		t.Fatalf("no mail:\n%s", p.Log)
	}
	require.Len(t, server.Received(), 1)
	p = serve()
	require.Eventually(t, func() bool {
		return e2etest.Counter(t, p, "sloengine_reports_sent_total") > 0
	}, testkit.Patience, 20*time.Millisecond, p.Log)
	require.Contains(t, p.Log.String(), "delivery of a report was interrupted")
	mails := server.Received()
	require.Len(t, mails, 2, "at most one more for a kill")
	require.Equal(t, mails[0].Mail(t).Header.Get("Message-Id"), mails[1].Mail(t).Header.Get("Message-Id"))
	require.EqualValues(t, 1, posted.Load())
	week := report.PeriodOf(slo.Week, now.In(berlin(t))).Shift(-1).String()
	for _, want := range []string{"weekly-" + week + ".csv", "weekly-" + week + ".json", "shop/gold",
		"https://slo.example.org/report?"} {
		require.Contains(t, strings.ReplaceAll(mails[1].Raw, "=\r\n", ""), want)
	}
	require.Equal(t, "slo@example.org", mails[1].From)
	var got struct {
		Period string
		Text   string
		Report struct {
			SLOs []struct {
				Zone   string
				Events uint64
				Budget struct{ SLI float64 }
			}
			SLAs []struct{ Verdict string }
		}
	}
	require.NoError(t, json.Unmarshal(body.Load().([]byte), &got))
	require.Equal(t, week, got.Period)
	require.Contains(t, got.Text, "breached")
	require.Equal(t, "Europe/Berlin", got.Report.SLOs[0].Zone)
	require.EqualValues(t, 20, got.Report.SLOs[0].Events)
	require.InDelta(t, 0.95, got.Report.SLOs[0].Budget.SLI, 1e-9)
	require.Equal(t, "breached", got.Report.SLAs[0].Verdict)
	files, err := filepath.Glob(filepath.Join(dir, "reports", "weekly-"+week+".*"))
	require.NoError(t, err)
	require.Len(t, files, 3)

	// Sent by hand, it goes to the same places, and the scheduled one is what it was.
	before, err := os.ReadFile(state)
	require.NoError(t, err)
	sent, err := reportCommand("send", "weekly", "--url", p.Base)
	require.NoError(t, err)
	for _, want := range []string{`folder \S+reports +` + week + ` +\S+ +sent`,
		`webhook 127.0.0.1:\d+ +` + week + ` +\S+ +sent`, `email ops@example.org +` + week + ` +\S+ +sent`} {
		require.Regexp(t, want, sent)
	}
	require.EqualValues(t, 2, posted.Load())
	mails = server.Received()
	require.Len(t, mails, 3)
	require.NotEqual(t, mails[1].Mail(t).Header.Get("Message-Id"), mails[2].Mail(t).Header.Get("Message-Id"),
		"who asks for it again wants it again")
	after, err := os.ReadFile(state)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
	logged(`action=report.send detail="report=\"weekly\" period=` + week + ` targets=3 failed=0"`)
	server.Set(mailtest.RefuseAll)
	sent, err = reportCommand("send", "weekly", "--url", p.Base, "--period", "this-week")
	require.ErrorContains(t, err, "1 of 3 targets did not accept the report")
	require.Regexp(t, `email ops@example.org .* failed: `, sent)
	server.Set(mailtest.None)
	require.Zero(t, e2etest.Counter(t, p, `sloengine_reports_failing{report="weekly"}`), "the scheduled one does not fail")
	_, err = reportCommand("send", "nosuch", "--url", p.Base)
	require.ErrorContains(t, err, "There is no report with this name")

	// By hand, the same.
	byHand, err := reportCommand("--url", p.Base, "--period", week, "--agreement", "shop/gold", "--zone",
		"Europe/Berlin", "-o", "html")
	require.NoError(t, err)
	written, err := os.ReadFile(filepath.Join(dir, "reports", "weekly-"+week+".html"))
	require.NoError(t, err)
	require.Equal(t, strings.Count(string(written), "<tr>"), strings.Count(byHand, "<tr>"))

	// Clean restarts, a restored backup and a reload send nothing more.
	backup := filepath.Join(dir, "backup")
	_, stderr, _ := e2etest.Command(t, "backup", "--url", p.Base, "--out", backup)
	require.FileExists(t, filepath.Join(backup, "reports.json"), stderr)
	saved, err := os.ReadFile(filepath.Join(backup, "reports.json"))
	require.NoError(t, err)
	require.Equal(t, 3, bytes.Count(saved, []byte(`"sent"`)))
	p.Stop(t)
	p = serve()
	status, answer := e2etest.Post(t, p.Base+"/-/reload", "", "")
	require.Equal(t, 200, status, answer)
	require.Eventually(t, func() bool {
		return e2etest.Counter(t, p, "sloengine_evaluate_ticks_total") > 5
	}, testkit.Patience, 20*time.Millisecond)
	require.Len(t, server.Received(), 3)
	require.EqualValues(t, 3, posted.Load())

	// A reload takes over other reports, and refuses wrong ones.
	e2etest.WriteFile(t, dir, "engine.yaml", strings.Replace(settings, "name: weekly", "name: other", 1))
	status, answer = e2etest.Post(t, p.Base+"/-/reload", "", "")
	require.Equal(t, 200, status, answer)
	require.Contains(t, string(e2etest.Get(t, p.Base+"/api/v1/engine")), `"name":"other"`)
	e2etest.WriteFile(t, dir, "engine.yaml", "reports: [{name: a, every: day, to: {folder: x}}]")
	status, answer = e2etest.Post(t, p.Base+"/-/reload", "", "")
	require.Equal(t, 422, status, answer)
	require.Contains(t, answer, "1:28: reports[0].every")
	require.NotContains(t, p.Log.String(), mailtest.Password)
	p.Stop(t)
}

func berlin(t *testing.T) *time.Location {
	zone, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	return zone
}

// reportCommand runs sloengine report.
func reportCommand(args ...string) (stdout string, err error) {
	var out, stderr bytes.Buffer
	if e2etest.Run(context.Background(), append([]string{"report"}, args...), nil, &out, &stderr) != cli.ExitOK {
		err = errors.New(stderr.String())
	}
	return out.String(), err
}
