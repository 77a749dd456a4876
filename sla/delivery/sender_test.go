package delivery

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/mail"
	"github.com/sloengine/sloengine/reliability/mail/mailtest"
	"github.com/sloengine/sloengine/reliability/retry"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
)

// world is a sender, its clock and its folder. restart makes a new sender on the same folder.
type world struct {
	*Sender
	t       *testing.T
	dir     string
	now     time.Time
	running bool
	fails   error
	made    int
	files   fsys.FS
	log     bytes.Buffer
	set     *metrics.Set
	change  func(*Settings)
}

func newWorld(t *testing.T, at string, change func(*Settings)) *world {
	now, err := time.Parse(time.RFC3339, at)
	require.NoError(t, err)
	w := &world{t: t, dir: t.TempDir(), now: now, files: fsys.OS(), change: change}
	w.restart()
	return w
}

func (w *world) restart() {
	settings := Settings{}
	w.change(&settings)
	w.set = metrics.NewSet()
	s, err := New(Options{
		Settings: settings, File: filepath.Join(w.dir, "reports.json"), Instance: "engine-1", Files: w.files,
		Metrics: NewMetrics(w.set),
		Clock:   func() (time.Time, bool) { return w.now, true }, Now: func() time.Time { return w.now },
		Zone:   func(*Report) *time.Location { return time.UTC },
		Logger: slog.New(slog.NewTextHandler(&w.log, nil)),
	})
	require.NoError(w.t, err)
	w.Sender = s
}

func (w *world) build(_ context.Context, r *Report, p report.Period) (*Content, error) {
	w.made++
	if w.fails != nil {
		return nil, w.fails
	}
	return &Content{Subject: r.Name + " " + p.Title(), Text: "text of " + p.String(), HTML: "<p>html</p>",
		CSV: []byte("a,b\r\n"), JSON: []byte(`{"period":"` + p.String() + `"}`), Running: w.running}, nil
}

func (w *world) step(ctx context.Context) bool { return w.Sender.step(ctx, w.build) }

// until lets time pass in steps, each followed by a look at what is due.
func (w *world) until(at string, step time.Duration) {
	end, err := time.Parse(time.RFC3339, at)
	require.NoError(w.t, err)
	for w.now.Before(end) {
		w.now = w.now.Add(step)
		if w.now.After(end) {
			w.now = end
		}
		w.step(w.t.Context())
	}
}

func (w *world) metric(name string) string {
	var b bytes.Buffer
	w.set.WritePrometheus(&b)
	for line := range strings.SplitSeq(b.String(), "\n") {
		if series, value, ok := strings.Cut(line, " "); ok && series == name {
			return value
		}
	}
	return "none"
}

func (w *world) folder() string { return filepath.Join(w.dir, "out") }

func (w *world) sent() []string {
	names, err := filepath.Glob(filepath.Join(w.folder(), "*"))
	require.NoError(w.t, err)
	for i := range names {
		names[i] = filepath.Base(names[i])
	}
	return names
}

// TestDue walks through ends of months and of weeks, of years, and both changes of the clock.
func TestDue(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	auckland, err := time.LoadLocation("Pacific/Auckland")
	require.NoError(t, err)
	for _, c := range []struct {
		r              Report
		zone           *time.Location
		now, want, due string
	}{
		{Report{Every: slo.Month, Day: 1, At: Clock{8, 0}}, time.UTC, "2026-11-01T07:59:59Z", "2026-09",
			"2026-10-01T08:00:00Z"},
		{Report{Every: slo.Month, Day: 1, At: Clock{8, 0}}, time.UTC, "2026-11-01T08:00:00Z", "2026-10",
			"2026-11-01T08:00:00Z"},
		{Report{Every: slo.Month, Day: 28, At: Clock{23, 59}}, time.UTC, "2026-03-28T23:58:00Z", "2026-01",
			"2026-02-28T23:59:00Z"},
		{Report{Every: slo.Month, Day: 1, At: Clock{0, 0}}, auckland, "2026-12-31T10:59:00Z", "2026-11",
			"2026-11-30T11:00:00Z"},
		{Report{Every: slo.Month, Day: 1, At: Clock{0, 0}}, auckland, "2026-12-31T11:00:00Z", "2026-12",
			"2026-12-31T11:00:00Z"},
		// Summer time begins on 29 March 2026: 02:30 does not exist, and is an hour later. It ends on 25 October.
		{Report{Every: slo.Week, Weekday: time.Sunday, At: Clock{2, 30}}, berlin, "2026-03-29T01:29:00Z", "2026-W11",
			"2026-03-22T01:30:00Z"},
		{Report{Every: slo.Week, Weekday: time.Sunday, At: Clock{2, 30}}, berlin, "2026-03-29T01:30:00Z", "2026-W12",
			"2026-03-29T01:30:00Z"},
		{Report{Every: slo.Week, Weekday: time.Monday, At: Clock{8, 0}}, berlin, "2026-10-26T06:59:00Z", "2026-W42",
			"2026-10-19T06:00:00Z"},
		{Report{Every: slo.Week, Weekday: time.Monday, At: Clock{8, 0}}, berlin, "2026-10-26T07:00:00Z", "2026-W43",
			"2026-10-26T07:00:00Z"},
		{Report{Every: slo.Week, Weekday: time.Monday, At: Clock{8, 0}}, time.UTC, "2027-01-04T08:00:00Z", "2026-W53",
			"2027-01-04T08:00:00Z"},
	} {
		now, err := time.Parse(time.RFC3339, c.now)
		require.NoError(t, err)
		p, due := c.r.latest(now, c.zone)
		require.Equal(t, c.want, p.String(), c.now)
		require.Equal(t, c.due, due.UTC().Format(time.RFC3339), c.now)
		require.True(t, c.r.next(now, c.zone).After(now), c.now)
	}
}

// TestSentOnce: each period once, also over restarts, and not before the report was in the settings.
func TestSentOnce(t *testing.T) {
	var w *world
	w = newWorld(t, "2026-10-20T00:00:00Z", func(s *Settings) {
		s.Reports = []Report{{Name: "m", Every: slo.Month, At: Clock{8, 0}, Folder: filepath.Join(t.TempDir(), "x")}}
		if w != nil {
			s.Reports[0].Folder = w.folder()
		}
	})
	w.restart()
	w.until("2026-10-20T01:00:00Z", time.Minute)
	require.Empty(t, w.sent(), "what was due before the report was in the settings is not sent")
	w.until("2026-11-01T07:59:59Z", 6*time.Hour)
	require.Empty(t, w.sent())
	w.until("2026-11-01T08:00:00Z", time.Minute)
	require.Equal(t, []string{"m-2026-10.csv", "m-2026-10.html"}, w.sent())
	require.Equal(t, "1", w.metric(`sloengine_reports_sent_total{report="m",kind="folder"}`))
	made := w.made
	for range 3 {
		w.restart()
		w.until(w.now.Add(time.Hour).Format(time.RFC3339), time.Minute)
	}
	require.Equal(t, made, w.made, "restarts send nothing again")
	w.now = w.now.Add(-10 * 24 * time.Hour) // the clock goes back
	w.step(t.Context())
	require.Equal(t, made, w.made)
	w.until("2027-02-02T00:00:00Z", 6*time.Hour)
	require.Equal(t, made+3, w.made)
	require.Len(t, w.sent(), 8)
	// Out of the settings and back again: what was sent is known.
	back := w.change
	w.change = func(*Settings) {}
	w.restart()
	w.until("2027-02-02T01:00:00Z", time.Minute)
	w.change = back
	w.restart()
	w.until("2027-02-02T02:00:00Z", time.Minute)
	require.Equal(t, made+3, w.made)
}

// TestMissedWhileDown: a report that was due while the engine was down comes after the start, unless it is too old.
func TestMissedWhileDown(t *testing.T) {
	for back, want := range map[string]int{"2026-11-07T07:00:00Z": 2, "2026-11-09T00:00:00Z": 0} {
		dir := t.TempDir()
		w := newWorld(t, "2026-10-20T00:00:00Z", func(s *Settings) {
			s.Reports = []Report{{Name: "m", Every: slo.Month, At: Clock{8, 0}, Folder: filepath.Join(dir, "out")}}
		})
		w.dir = dir
		w.restart()
		w.step(t.Context())
		now, err := time.Parse(time.RFC3339, back)
		require.NoError(t, err)
		w.now = now
		w.restart()
		w.step(t.Context())
		require.Len(t, w.sent(), want, back)
		late := map[int]string{0: "1", 2: "0"}[want]
		require.Equal(t, late, w.metric(`sloengine_reports_abandoned_total{report="m",reason="late"}`))
		w.restart()
		w.step(t.Context())
		require.Len(t, w.sent(), want)
		require.Equal(t, map[int]int{0: 1, 2: 0}[want], strings.Count(w.log.String(), "due too long ago"), "said once")
	}
}

// hook is a webhook that counts and fails as told.
type hook struct {
	*httptest.Server
	status atomic.Int32
	calls  atomic.Int32
	bodies []webhookBody
	header http.Header
	during func()
}

func newHook(t *testing.T) *hook {
	h := &hook{}
	h.status.Store(204)
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.calls.Add(1)
		var b webhookBody
		raw, err := io.ReadAll(r.Body)
		if err == nil && json.Unmarshal(raw, &b) == nil {
			h.bodies = append(h.bodies, b)
		}
		h.header = r.Header
		if h.during != nil {
			h.during()
		}
		if s := int(h.status.Load()); s/100 == 3 {
			http.Redirect(w, r, "/elsewhere", s)
		} else {
			w.WriteHeader(s)
			_, _ = w.Write([]byte("why \x1b[2J not"))
		}
	}))
	t.Cleanup(h.Close)
	return h
}

func TestWebhook(t *testing.T) {
	h := newHook(t)
	w := newWorld(t, "2026-11-18T00:00:00Z", func(s *Settings) {
		s.Reports = []Report{{Name: "w", Every: slo.Week, Weekday: time.Monday, At: Clock{8, 0},
			Webhooks: []Webhook{{URL: h.URL + "/in?key=s3cret", Token: func() (string, error) {
				return "t0ken", nil
			}}}}}
	})
	w.step(t.Context())
	w.until("2026-11-23T08:00:00Z", time.Hour)
	require.Len(t, h.bodies, 1)
	b := h.bodies[0]
	require.Equal(t, webhookBody{Version: 1, Name: "w", Period: "2026-W47", Subject: "w Week 47 of 2026",
		Text: "text of 2026-W47", HTML: "<p>html</p>", CSV: "a,b\r\n", Report: json.RawMessage(`{"period":"2026-W47"}`)}, b)
	require.Equal(t, "Bearer t0ken", h.header.Get("Authorization"))
	first := h.header.Get("Idempotency-Key")
	require.NotEmpty(t, first)

	// For a week it refuses, redirects or fails: one line in the log, one when it works again, and nothing of the URL.
	w.log.Reset()
	for _, status := range []int32{500, 302, 404} {
		h.status.Store(status)
		w.until("2026-11-30T0"+map[int32]string{500: "8:00:00", 302: "9:00:00", 404: "9:59:00"}[status]+"Z", 10*time.Minute)
	}
	x := w.Status()[0].Targets[0]
	require.Equal(t, "404 Not Found", x.Brief)
	require.Equal(t, Sending, x.Outcome)
	require.Equal(t, "1", w.metric(`sloengine_reports_failing{report="w"}`))
	require.Equal(t, "1", w.metric(`sloengine_reports_pending{report="w"}`))
	require.Less(t, int(h.calls.Load()), 12, "with growing waits")
	h.status.Store(200)
	w.until("2026-11-30T12:00:00Z", 10*time.Minute)
	require.Equal(t, Sent, w.Status()[0].Targets[0].Outcome)
	require.Equal(t, 1, strings.Count(w.log.String(), "sending a report failed"))
	require.Equal(t, 1, strings.Count(w.log.String(), "report sent after failures"))
	require.NotContains(t, w.log.String(), "s3cret")
	require.NotContains(t, w.log.String(), "t0ken")
	require.Equal(t, "0", w.metric(`sloengine_reports_failing{report="w"}`))
	require.NotEqual(t, first, h.header.Get("Idempotency-Key"), "another week")

	// A day of failures, and it is given up. The next week is tried again.
	h.status.Store(503)
	w.until("2026-12-08T12:00:00Z", 10*time.Minute)
	require.Equal(t, Failed, w.Status()[0].Targets[0].Outcome)
	require.Equal(t, "1", w.metric(`sloengine_reports_abandoned_total{report="w",reason="failed"}`))
	require.Equal(t, 1, strings.Count(w.log.String(), "report given up"))
	calls := h.calls.Load()
	w.until("2026-12-14T07:59:00Z", time.Hour)
	require.Equal(t, calls, h.calls.Load())
	h.status.Store(200)
	w.until("2026-12-14T08:00:00Z", time.Hour)
	require.Equal(t, Sent, w.Status()[0].Targets[0].Outcome)
	require.Equal(t, time.Date(2026, 12, 21, 8, 0, 0, 0, time.UTC), w.Status()[0].Next)
}

// TestInterrupted: after a kill between sending and keeping that it was sent, it is sent once more, and not a third
// time.
func TestInterrupted(t *testing.T) {
	h := newHook(t)
	w := newWorld(t, "2026-11-18T00:00:00Z", func(s *Settings) {
		s.Reports = []Report{
			{Name: "w", Every: slo.Week, Weekday: time.Monday, At: Clock{8, 0}, Webhooks: []Webhook{{URL: h.URL}}}}
	})
	w.step(t.Context())
	w.now = w.now.Add(6 * 24 * time.Hour)
	var killed []byte
	h.during = func() { // what is on disk now is what a kill leaves
		var err error
		killed, err = os.ReadFile(w.opt.File)
		require.NoError(t, err)
	}
	w.step(t.Context())
	h.during = nil
	require.Contains(t, string(killed), `"sending"`)
	require.EqualValues(t, 1, h.calls.Load())
	first := h.header.Get("Idempotency-Key")
	require.NoError(t, os.WriteFile(w.opt.File, killed, 0o600))
	w.restart()
	w.step(t.Context())
	require.EqualValues(t, 2, h.calls.Load())
	require.Equal(t, first, h.header.Get("Idempotency-Key"), "a receiver can tell")
	require.Contains(t, w.log.String(), "interrupted")
	for range 3 {
		w.restart()
		w.step(t.Context())
	}
	require.EqualValues(t, 2, h.calls.Load())
}

// TestCleanStop: what is on its way when the engine stops is carried through, and nothing new is begun.
func TestCleanStop(t *testing.T) {
	h := newHook(t)
	w := newWorld(t, "2026-11-18T00:00:00Z", func(s *Settings) {
		for _, name := range []string{"a", "b"} {
			s.Reports = append(s.Reports, Report{Name: name, Every: slo.Week, Weekday: time.Monday, At: Clock{8, 0},
				Webhooks: []Webhook{{URL: h.URL + "/" + name}}})
		}
	})
	w.step(t.Context())
	w.now = w.now.Add(6 * 24 * time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	h.during = cancel
	require.NoError(t, w.Run(ctx, w.build))
	require.EqualValues(t, 1, h.calls.Load())
	h.during = nil
	w.restart()
	w.step(t.Context())
	require.EqualValues(t, 2, h.calls.Load(), "the other one comes after the start")
	require.Equal(t, []string{"a", "b"}, []string{h.bodies[0].Name, h.bodies[1].Name})
}

// TestNotOverEverywhere: the report waits until the period is over in the zones of all lines.
func TestNotOverEverywhere(t *testing.T) {
	dir := t.TempDir()
	w := newWorld(t, "2026-10-20T00:00:00Z", func(s *Settings) {
		s.Reports = []Report{
			{Name: "m", Every: slo.Month, At: Clock{0, 5}, Folder: filepath.Join(dir, "out"), Formats: []Format{JSON}}}
	})
	w.dir, w.running = dir, true
	w.restart()
	w.step(t.Context())
	w.until("2026-11-01T07:00:00Z", time.Hour)
	require.Empty(t, w.sent())
	require.Equal(t, "1", w.metric(`sloengine_reports_pending{report="m"}`))
	require.Equal(t, "0", w.metric(`sloengine_reports_failing{report="m"}`))
	w.running = false
	w.until("2026-11-01T08:00:00Z", 20*time.Minute)
	require.Equal(t, []string{"m-2026-10.json"}, w.sent())
}

// full is a file system without space for the state.
type full struct {
	fsys.FS
	on atomic.Bool
}

func (f *full) Create(name string) (fsys.File, error) {
	if f.on.Load() && strings.Contains(name, "reports.json") {
		return nil, errors.New("no space left on device")
	}
	return f.FS.Create(name)
}

// TestStateCannotBeSaved: without a note of it nothing is sent, so that nothing is sent twice.
func TestStateCannotBeSaved(t *testing.T) {
	h := newHook(t)
	disk := &full{FS: fsys.OS()}
	w := newWorld(t, "2026-11-18T00:00:00Z", func(s *Settings) {
		s.Reports = []Report{
			{Name: "w", Every: slo.Week, Weekday: time.Monday, At: Clock{8, 0}, Webhooks: []Webhook{{URL: h.URL}}}}
	})
	w.files = disk
	w.restart()
	w.step(t.Context())
	disk.on.Store(true)
	w.until("2026-11-23T10:00:00Z", time.Hour)
	require.Zero(t, h.calls.Load())
	require.Error(t, w.Unsaved())
	require.Equal(t, "the state of reports cannot be saved", w.Status()[0].Targets[0].Brief)
	require.Equal(t, 1, strings.Count(w.log.String(), "saving what reports were sent failed"))
	disk.on.Store(false)
	w.until("2026-11-23T12:00:00Z", time.Hour)
	require.EqualValues(t, 1, h.calls.Load())
	require.NoError(t, w.Unsaved())

	// The disk fills up while the report is on its way: this process knows, and keeps it as soon as it can.
	h.during = func() { disk.on.Store(true) }
	w.until("2026-11-30T12:00:00Z", time.Hour)
	require.EqualValues(t, 2, h.calls.Load())
	require.Error(t, w.Unsaved())
	disk.on.Store(false)
	w.step(t.Context())
	require.NoError(t, w.Unsaved())
	w.restart()
	w.step(t.Context())
	require.EqualValues(t, 2, h.calls.Load())
}

func TestStateFile(t *testing.T) {
	w := newWorld(t, "2026-11-18T00:00:00Z", func(s *Settings) {
		s.Reports = []Report{{Name: "w", Every: slo.Week, At: Clock{8, 0}, Folder: t.TempDir()}}
	})
	file := w.opt.File
	require.NoError(t, os.WriteFile(file, []byte(`{"version":2,"targets":{}}`), 0o600))
	o := w.opt
	_, err := New(o)
	require.ErrorIs(t, err, fsys.ErrNewer)
	require.ErrorContains(t, err, "format 2")
	for _, broken := range []string{"", "{", `{"version":0}`, `[]`} {
		require.NoError(t, os.WriteFile(file, []byte(broken), 0o600))
		w.log.Reset()
		w.restart()
		w.step(t.Context())
		require.Contains(t, w.log.String(), "unreadable", broken)
		kept, err := os.ReadFile(file + ".broken")
		require.NoError(t, err)
		require.Equal(t, broken, string(kept))
		state := newStateFile(&w.opt)
		known, err := state.Load(nil)
		require.NoError(t, err)
		require.Len(t, known.Targets, 1)
	}
}

// TestMail sends through a real server that has good and bad days.
func TestMail(t *testing.T) {
	server := mailtest.Start(t, mailtest.Options{})
	w := newWorld(t, "2026-10-20T00:00:00Z", func(s *Settings) {
		s.Server = &mail.Server{
			Smarthost: server.Address, From: "SLOs <slo@example.org>", Username: mailtest.User,
			Password: func() (string, error) {
				return mailtest.Password, nil
			}, TLSConfig: server.TLS, Timeout: 5 * time.Second,
		}
		s.Reports = []Report{{Name: "m", Every: slo.Month, At: Clock{8, 0}, Formats: []Format{HTML, CSV, JSON},
			Mail: []string{"a@example.org", "gone@example.org", "b@example.org"}}}
	})
	server.Refuse("gone@example.org")
	w.step(t.Context())
	w.until("2026-11-01T08:00:00Z", 6*time.Hour)
	got := server.Received()
	require.Len(t, got, 2, "one unknown address does not keep the others from their report")
	for i, to := range []string{"a@example.org", "b@example.org"} {
		require.Equal(t, []string{to}, got[i].To)
		for _, part := range []string{"m October 2026", "text of 2026-10", "<p>html</p>", `filename="m-2026-10.csv"`,
			`filename="m-2026-10.json"`} {
			require.Contains(t, got[i].Raw, part)
		}
	}
	require.NotEqual(t, got[0].Mail(t).Header.Get("Message-Id"), got[1].Mail(t).Header.Get("Message-Id"))
	require.Regexp(t, `^<[0-9a-f]{20}\.m\.2026-10@example\.org>$`, got[0].Mail(t).Header.Get("Message-Id"))

	// The server takes the message and breaks the connection before it says so: it comes again, with the same id.
	server.Set(mailtest.DropAfterData)
	w.until("2026-12-01T08:00:00Z", 6*time.Hour)
	require.Len(t, server.Received(), 3, "the second one waits, since the server is not well")
	server.Set(mailtest.None)
	w.until("2026-12-01T09:00:00Z", 10*time.Minute)
	got = server.Received()
	require.Len(t, got, 5)
	require.Equal(t, got[2].Mail(t).Header.Get("Message-Id"), got[3].Mail(t).Header.Get("Message-Id"))
	require.Equal(t, []string{"b@example.org"}, got[4].To)
	require.NotContains(t, w.log.String(), mailtest.Password)
	targets := w.Status()[0].Targets
	require.Equal(t, []Outcome{Sent, Sending, Sent}, []Outcome{targets[0].Outcome, targets[1].Outcome, targets[2].Outcome})
	require.Equal(t, "the server refuses the recipient (550)", targets[1].Brief)
}

// TestOneRefusedReport keeps the report that a server does not take from delaying the others, and tries it once an
// hour.
func TestOneRefusedReport(t *testing.T) {
	t.Parallel()
	server, h := mailtest.Start(t, mailtest.Options{}), newHook(t)
	h.status.Store(422)
	w := newWorld(t, "2026-10-20T00:00:00Z", func(s *Settings) {
		s.Server = &mail.Server{
			Smarthost: server.Address, From: "SLOs <slo@example.org>", Username: mailtest.User,
			Password: func() (string, error) {
				return mailtest.Password, nil
			}, TLSConfig: server.TLS,
		}
		for _, name := range []string{"bad", "good"} {
			s.Reports = append(s.Reports, Report{Name: name, Every: slo.Month, At: Clock{8, 0}, Mail: []string{"a@example.org"}})
		}
		s.Reports[0].Webhooks = []Webhook{{URL: h.URL}}
	})
	server.RefuseText("bad October")
	w.step(t.Context())
	w.until("2026-11-01T08:00:00Z", 6*time.Hour)
	require.Len(t, server.Received(), 1, "the other report does not wait")
	require.Contains(t, server.Received()[0].Raw, "good October 2026")
	w.until("2026-11-01T11:00:00Z", time.Minute)
	require.LessOrEqual(t, h.calls.Load(), int32(4))
	server.RefuseText("")
	h.status.Store(204)
	w.until("2026-11-01T12:30:00Z", 10*time.Minute)
	require.Len(t, server.Received(), 2)
	require.Equal(t, "0", w.metric(`sloengine_reports_failing{report="bad"}`))
}

// TestReload: new settings are tried at once, and a report that goes away takes its series with it.
func TestReload(t *testing.T) {
	h := newHook(t)
	h.status.Store(500)
	settings := func(s *Settings) {
		s.Reports = []Report{
			{Name: "w", Every: slo.Week, Weekday: time.Monday, At: Clock{8, 0}, Webhooks: []Webhook{{URL: h.URL}}}}
	}
	w := newWorld(t, "2026-11-18T00:00:00Z", settings)
	w.step(t.Context())
	w.until("2026-11-23T08:00:00Z", time.Hour)
	w.step(t.Context())
	require.EqualValues(t, 1, h.calls.Load(), "it waits before it tries again")
	var next Settings
	settings(&next)
	apply, err := w.Prepare(next)
	require.NoError(t, err)
	apply()
	w.step(t.Context())
	require.EqualValues(t, 2, h.calls.Load())
	require.EqualValues(t, 2, w.Status()[0].Targets[0].Failures)
	apply, err = w.Prepare(Settings{})
	require.NoError(t, err)
	apply()
	require.Equal(t, "none", w.metric(`sloengine_reports_failing{report="w"}`))
	for _, bad := range []Report{
		{}, {Name: "x", Every: "day"}, {Name: "x", Every: slo.Month, Day: 31}, {Name: "x", Every: slo.Week, At: Clock{24, 0}},
		{Name: "x", Every: slo.Week, Mail: []string{"a@b"}},
	} {
		_, err := w.Prepare(Settings{Reports: []Report{bad}})
		require.Error(t, err, bad)
	}
}

// TestNothingToMake: a report that cannot be made is tried again, and no longer than a day.
func TestNothingToMake(t *testing.T) {
	dir := t.TempDir()
	w := newWorld(t, "2026-10-20T00:00:00Z", func(s *Settings) {
		s.Reports = []Report{{Name: "m", Every: slo.Month, At: Clock{8, 0}, Folder: filepath.Join(dir, "out")}}
	})
	w.dir, w.fails = dir, retry.WithClass(errors.New("the history cannot be read"), retry.ClassTransient)
	w.restart()
	w.step(t.Context())
	w.until("2026-11-03T08:00:00Z", 30*time.Minute)
	require.Equal(t, Failed, w.Status()[0].Targets[0].Outcome)
	require.Less(t, w.made, 60)
	require.Empty(t, w.sent())
}

// TestRun looks for what is due by itself, and costs nothing between.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		looks := 0
		s, err := New(Options{
			Settings: Settings{Reports: []Report{
				{Name: "w", Every: slo.Week, Weekday: time.Monday, Folder: filepath.Join(dir, "out"), Formats: []Format{HTML}}}},
			File: filepath.Join(dir, "reports.json"), Zone: func(*Report) *time.Location { return time.UTC },
			Clock: func() (time.Time, bool) { looks++; return time.Now(), looks > 3 },
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		build := func(context.Context, *Report, report.Period) (*Content, error) { return &Content{HTML: "x"}, nil }
		go func() { done <- s.Run(ctx, build) }()
		time.Sleep(15 * 24 * time.Hour)
		synctest.Wait()
		cancel()
		require.NoError(t, <-done)
		names, err := os.ReadDir(filepath.Join(dir, "out"))
		require.NoError(t, err)
		require.Len(t, names, 2)
		require.Less(t, looks, 15*24*3600/15)
	})
}
