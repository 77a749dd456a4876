package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const day = 24 * time.Hour

// world is an engine as far as its alerts go: an SLO in some groups, any of which may fail.
type world struct {
	t       testing.TB
	machine *state.Machine
	slo     *slo.SLO
	groups  []string
	bad     map[string]bool
	now     time.Time
}

func newWorld(t testing.TB, groups ...string) *world {
	t.Helper()
	o, err := slo.ParsePercent("99.9")
	require.NoError(t, err)
	w := &world{t: t, groups: groups, bad: map[string]bool{}, now: time.Now(), slo: &slo.SLO{
		ID: "shop/availability", Objective: o, Window: slo.Window{Rolling: 30 * day}, GroupBy: []string{"product"},
		Budgeting: slo.Budgeting{Method: slo.Occurrences}, Indicator: slo.Indicator{Kind: slo.KindEvents},
		Alerting: slo.Alerting{Tiers: []slo.Tier{slo.Tiers[0]}, Ticket: slo.AlertSettings{Disabled: true},
			NoData: slo.AlertSettings{Disabled: true}},
	}}
	w.restart()
	return w
}

// options are those that rules of the same engine would be generated with.
func options() alerts.Options {
	return alerts.Options{
		Options: rules.Options{PageURL: "http://slo.example:8080", DashboardURL: "http://grafana.example"}}
}

// restart is a kill -9: only what is on disk goes on.
func (w *world) restart() {
	w.t.Helper()
	var saved []byte
	if w.machine != nil {
		saved = w.machine.Snapshot()
	}
	var err error
	w.machine, err = state.New(state.Options{Alerts: options()})
	require.NoError(w.t, err)
	if saved != nil {
		require.NoError(w.t, w.machine.Restore(saved))
	}
}

// tick makes a report, in which a group fails or not, and returns the alerts.
func (w *world) tick() *state.View {
	w.now = w.now.Add(time.Millisecond)
	if now := time.Now(); now.After(w.now) {
		w.now = now
	}
	r := &sla.Report{Time: w.now}
	for _, g := range w.groups {
		counts := slo.Counts{Good: 1000}
		if w.bad[g] {
			counts = slo.Counts{Good: 500, Bad: 500}
		}
		s := sla.SLOReport{SLO: w.slo, Group: slo.Group{g}, Coverage: 1, LastEvent: w.now}
		for _, window := range slo.BurnWindows {
			b := slo.NewBurn(window, slo.NewBudget(w.slo.Objective, counts))
			b.Observed = 1
			s.Burns = append(s.Burns, b)
		}
		s.RawBurns = s.Burns
		r.SLOs = append(r.SLOs, s)
	}
	w.machine.Step(r)
	return w.machine.View()
}

func products(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("product-%05d", i)
	}
	return out
}

// posted is an alert as a peer receives it.
type posted struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL"`
}

func (p *posted) resolved() bool { return !p.EndsAt.After(time.Now()) }

// fake is a peer that answers as a test likes.
type fake struct {
	*httptest.Server
	answer atomic.Pointer[func(w http.ResponseWriter, r *http.Request, got []posted)]

	mu       sync.Mutex
	requests [][]posted
	at       []time.Time // of each
	headers  []http.Header
}

func newFake(t testing.TB, answer func(w http.ResponseWriter, r *http.Request, got []posted)) *fake {
	t.Helper()
	f := &fake{}
	f.set(answer)
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		var got []posted
		if err := json.Unmarshal(body, &got); err != nil || r.URL.Path != alertsPath || r.Method != http.MethodPost {
			http.Error(w, "test: not an alert", http.StatusTeapot)
			return
		}
		f.mu.Lock()
		f.requests, f.headers, f.at = append(f.requests, got), append(f.headers, r.Header.Clone()), append(f.at, time.Now())
		f.mu.Unlock()
		(*f.answer.Load())(w, r, got)
	}))
	t.Cleanup(func() { f.CloseClientConnections(); f.Close() })
	return f
}

func (f *fake) set(answer func(w http.ResponseWriter, r *http.Request, got []posted)) {
	if answer == nil {
		answer = func(http.ResponseWriter, *http.Request, []posted) {}
	}
	f.answer.Store(&answer)
}

// all lists what was received so far, but for the watchdog.
func (f *fake) all() []posted {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []posted
	for _, r := range f.requests {
		for _, a := range r {
			if a.Labels["alertname"] != alerts.NameWatchdog {
				out = append(out, a)
			}
		}
	}
	return out
}

func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.requests)
}

// latest is the last state of each product.
func (f *fake) latest() map[string]posted {
	out := map[string]posted{}
	for _, a := range f.all() {
		out[a.Labels["product"]] = a
	}
	return out
}

func settingsFor(urls ...string) Settings {
	var s Settings
	for i, u := range urls {
		s.Peers = append(s.Peers, Peer{Name: fmt.Sprintf("am%d", i), URL: u})
	}
	return s
}

// run starts a notifier and stops it at the end of the test.
func run(t testing.TB, o Options) (n *Notifier, stop func()) {
	t.Helper()
	n, err := New(o)
	require.NoError(t, err)
	stop = sync.OnceFunc(Start(t.Context(), func(ctx context.Context) { _ = n.Run(ctx) }))
	t.Cleanup(stop)
	return n, stop
}

// looks ticks until all peers have looked at an unchanged state, and have sent what they had to send: a peer takes the
// second tick only after that.
func looks(t testing.TB, n *Notifier, w *world) {
	t.Helper()
	for range 2 {
		n.Update(w.tick())
		testkit.Eventually(t, "all peers look", func() bool {
			n.mu.Lock()
			defer n.mu.Unlock()
			return !slices.ContainsFunc(n.peers, func(p *peer) bool { return len(p.wake) > 0 })
		})
	}
}
