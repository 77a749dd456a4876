package fleet

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

func find(r *sla.Report, id slo.ID, group ...string) *sla.SLOReport {
	for i := range r.SLOs {
		if r.SLOs[i].SLO.ID == id && r.SLOs[i].Group.Key() == slo.Group(group).Key() {
			return &r.SLOs[i]
		}
	}
	return nil
}

// answers makes an engine answer something else, with any path or for sums only.
func answers(status int, typ, body string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", typ)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
		return true
	}
}

// TestMissingEngine: its events are left out, the coverage says so, its slices stay, it is named with the reason and
// its age, and everything is as before once it is back.
func TestMissingEngine(t *testing.T) {
	w := newWorld(t, 1)
	set := metrics.NewSet()
	w.open(Options{Logger: slog.New(slog.NewTextHandler(&w.logged, nil)), Metrics: set})
	w.pass(8*time.Hour, 9)
	before := w.tick(w.all)
	whole := find(before, "shop/availability", "a")
	require.InDelta(t, 8.0/(7*24), whole.Coverage, 0.001)
	judged := find(before, "shop/throughput", "a").Budget.Counts.Valid()
	require.Greater(t, judged, uint64(20))

	// The second engine goes on counting where nobody reaches it.
	w.parts[1].set(func() {
		w.parts[1].wrong = answers(503, "application/problem+json", `{"detail":"The engine is starting."}`)
	})
	w.pass(time.Hour, 9)
	w.clock = w.now.Add(time.Second)
	without := w.tick(w.all)
	x := find(without, "shop/availability", "a")
	require.Less(t, x.Budget.Counts.Valid(), whole.Budget.Counts.Valid())
	require.InDelta(t, 9.0/(7*24)*2/3, x.Coverage, 0.001, "the mean over the engines")
	one := find(w.tick(w.one), "shop/availability", "a")
	for i, b := range x.Burns {
		require.InDelta(t, one.Burns[i].Observed*2/3, b.Observed, 1e-9,
			"unobserved time counts as good in the conditions of alerts")
	}
	sliced := find(without, "shop/throughput", "a")
	require.Equal(t, judged, sliced.Budget.Counts.Valid(), "closed slices stay, and none is judged without it")
	require.InDelta(t, 8.0/(7*24), sliced.Coverage, 0.002)
	require.NotNil(t, find(without, "shop/expected", "never"))

	e := w.fleet.Engines()
	require.Equal(t, []State{OK, Missing, OK}, []State{e[0].State, e[1].State, e[2].State})
	require.Equal(t, "it answered 503 Service Unavailable: The engine is starting.", e[1].Reason)
	require.Equal(t, time.Hour+time.Second, w.clock.Sub(e[1].Answered), "its age")
	require.NotZero(t, e[1].Events)
	parts := w.fleet.Parts("shop/availability", slo.Group{"a"}, x.Period.From)
	require.Len(t, parts, 3)
	require.False(t, parts[0].Stale)
	require.True(t, parts[1].Stale)
	require.Equal(t, e[1].Answered, parts[1].Answered)
	require.NotZero(t, parts[1].Bins[0])
	require.Equal(t, x.Raw.Counts.Good, parts[0].Bins[0]+parts[2].Bins[0])
	require.Nil(t, w.fleet.Parts("shop/throughput", slo.Group{"a"}, x.Period.From), "judgements of a part say nothing")

	got, err := w.fleet.Read(
		t.Context(), []fold.ReadRequest{{ID: "shop/availability", Groups: []slo.Group{{"a"}}, Spans: []slo.Span{x.Period}}})
	require.NoError(t, err)
	require.Nil(t, got[0].Parts[1])
	require.NotNil(t, got[0].Parts[0])

	w.parts[1].set(func() { w.parts[1].wrong = nil })
	w.pass(time.Hour, 9)
	require.Equal(t, comparable(w.tick(w.one), crowded), comparable(w.tick(w.all), crowded))
	require.Equal(t, OK, w.fleet.Engines()[1].State)
	require.Equal(t, 1, strings.Count(w.logged.String(), "engine is missing"), w.logged.String())
	require.Equal(t, 1, strings.Count(w.logged.String(), "engine answers again"))
	var text strings.Builder
	set.WritePrometheus(&text)
	require.Contains(t, text.String(), `sloengine_fleet_failures_total{engine="`+e[1].Name+`",reason="missing"}`)
	require.Contains(t, text.String(), `sloengine_fleet_engine_up{engine="`+e[1].Name+`"} 1`)

	for _, p := range w.parts {
		p.set(func() { p.wrong = answers(500, "text/plain", "") })
	}
	_, err = w.all.Tick(t.Context(), w.now)
	require.ErrorIs(t, err, errNobody)
	_, err = w.fleet.Read(t.Context(), []fold.ReadRequest{{ID: "shop/availability"}})
	require.ErrorIs(t, err, errNobody)
}

// TestWhatAnEngineMayAnswer: whatever else it says is an error that names the problem, and takes no more time or memory
// than is allowed.
func TestWhatAnEngineMayAnswer(t *testing.T) {
	w := newWorld(t, 2)
	w.open(Options{Timeout: 300 * time.Millisecond})
	w.fleet.clients[0].most = 1 << 20
	w.pass(time.Hour, 6)
	ok := w.tick(w.all)
	p := w.parts[0]
	stop := make(chan struct{})
	defer close(stop)
	for want, wrong := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"it answered 401 Unauthorized (give a token with the permission read): a token is needed": answers(401,
			"application/problem+json", `{"detail":"a token is needed"}`),
		"it answered 404 Not Found (want the address of an engine of this version)": answers(404,
			"text/html", "<html>"),
		"it answered 302 Found": func(rw http.ResponseWriter, r *http.Request) bool {
			http.Redirect(rw, r, "http://127.0.0.1:1/elsewhere", http.StatusFound)
			return true
		},
		"it answered with text/html: not an answer of this version of sloengine": answers(200, "text/html", "<html>"),
		"not an answer of this version of sloengine":                             answers(200, ContentType, "\x01garbage"),
		"its answer is larger than 1 MiB": answers(200, ContentType,
			strings.Repeat("x", 1<<20+1)),
		"it did not answer in time": func(_ http.ResponseWriter, r *http.Request) bool {
			select {
			case <-r.Context().Done():
			case <-stop:
			}
			return true
		},
		"it evaluates other windows, so its version may be another one": func(rw http.ResponseWriter, _ *http.Request) bool {
			req := p.eval.Request(w.now, false)
			a := Answer{Run: "x", Request: 1, Sums: p.fold.Sums(req)}
			rw.Header().Set("Content-Type", ContentType)
			_, _ = rw.Write(Encode(&a))
			return true
		},
		"it runs spec another, and this is spec hash": func(rw http.ResponseWriter, _ *http.Request) bool {
			rw.Header().Set(SpecHeader, "another")
			rw.WriteHeader(http.StatusConflict)
			return true
		},
	} {
		p.set(func() { p.wrong = wrong })
		begin := time.Now()
		got := w.tick(w.all)
		require.Less(t, time.Since(begin), 30*time.Second)
		e := w.fleet.Engines()[0]
		require.Equal(t, want, e.Reason)
		if strings.HasPrefix(want, "it runs spec") {
			require.Equal(t, Other, e.State)
			require.Equal(t, "another", e.Spec)
		} else {
			require.Equal(t, Missing, e.State, want)
		}
		require.Less(t, find(got, "shop/availability", "a").Coverage, find(ok, "shop/availability", "a").Coverage)
	}
	p.set(func() { p.wrong = nil })
	require.Equal(t, comparable(w.tick(w.one), crowded), comparable(w.tick(w.all), crowded))

	w.parts[0].Close()
	w.tick(w.all)
	require.Regexp(t, "^not reachable: .*refused", w.fleet.Engines()[0].Reason)
}

// TestReplacedEngine: one that comes back with an empty disk is another one. What the old one told is forgotten.
func TestReplacedEngine(t *testing.T) {
	w := newWorld(t, 3)
	w.pass(5*time.Hour, 9)
	w.tick(w.all)
	full := find(w.tick(w.all), "shop/throughput", "a")
	w.parts[2].set(func() {
		w.parts[2].run = "second"
		w.parts[2].begin(w.cfg, w.now)
	})
	w.pass(2*time.Hour, 9)
	got := w.tick(w.all)
	x := find(got, "shop/throughput", "a")
	require.Less(t, x.Budget.Counts.Valid(), full.Budget.Counts.Valid(), "what only two of them saw cannot be judged")
	require.NotZero(t, x.Budget.Counts.Valid())
	require.InDelta(t, 2.0/(7*24), x.Coverage, 0.001)
	require.InDelta(t, (7.0+7+2)/3/(7*24), find(got, "shop/availability", "a").Coverage, 0.001)

	// The same process with another configuration tells everything again, too.
	w.parts[2].set(func() { require.NoError(t, w.parts[2].fold.SetConfig(w.cfg, w.now.UnixNano())) })
	again := w.tick(w.all)
	require.Equal(t, x.Budget, find(again, "shop/throughput", "a").Budget)
}

// TestLongSlices: slices that take longer to fetch than a report may take are fetched over several, and count once all
// of them are there.
func TestLongSlices(t *testing.T) {
	w := newWorld(t, 4)
	w.pass(4*time.Hour, 9)
	p := w.parts[1]
	p.set(func() {
		p.bytes = 1
		p.wrong = func(_ http.ResponseWriter, r *http.Request) bool {
			if p.calls%20 != 0 {
				return false
			}
			<-r.Context().Done() // every twentieth call takes too long
			return true
		}
	})
	w.open(Options{Timeout: 2 * time.Second})
	first := w.tick(w.all)
	require.NotZero(t, find(first, "shop/availability", "a").Budget.Counts.Valid())
	require.Zero(t, find(first, "shop/throughput", "a").Budget.Counts.Valid())
	e := w.fleet.Engines()[1]
	require.Equal(t, OK, e.State)
	require.Contains(t, e.Reason, "slices of time are still being fetched")
	p.set(func() { p.bytes, p.wrong = 4<<20, nil })
	require.Equal(t, comparable(w.tick(w.one), crowded), comparable(w.tick(w.all), crowded))
	require.Empty(t, w.fleet.Engines()[1].Reason)
}

func TestSpecOfAFleet(t *testing.T) {
	w := newWorld(t, 5)
	w.pass(time.Hour, 6)
	w.tick(w.all)
	require.NoError(t, w.fleet.SetSpec("next", w.cfg))
	_, err := w.all.Tick(t.Context(), w.now)
	require.ErrorIs(t, err, errNobody, "they run another one")
	require.Equal(t, "hash", w.fleet.Engines()[0].Spec)
	for _, p := range w.parts {
		p.set(func() { p.spec = "next" })
	}
	require.Equal(t, comparable(w.tick(w.one), crowded), comparable(w.tick(w.all), crowded))

	f, err := New(Options{Engines: []*url.URL{{Scheme: "http", Host: "a"}}})
	require.NoError(t, err)
	_, err = f.Sums(t.Context(), fold.Request{})
	require.ErrorContains(t, err, "no spec")
	_, err = f.Read(t.Context(), nil)
	require.ErrorContains(t, err, "no spec")
	_, err = f.Kept(t.Context(), nil, slo.Span{})
	require.ErrorContains(t, err, "no spec")
	require.Nil(t, f.Parts("x", nil, time.Time{}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = w.fleet.Sums(ctx, w.parts[0].eval.Request(w.now, false))
	require.ErrorIs(t, err, context.Canceled)

	for _, o := range []Options{
		{}, {Engines: []*url.URL{{Scheme: "ftp", Host: "a"}}}, {Engines: []*url.URL{{Scheme: "http"}}},
		{Engines: []*url.URL{{Scheme: "http", Host: "a"}, {Scheme: "https", Host: "a"}}},
		{Engines: []*url.URL{{Scheme: "http", Host: "a"}}, Timeout: -1},
	} {
		_, err := New(o)
		require.Error(t, err)
	}
}

// TestTokenOfEngines: it is read for each request, and sent to the engines only.
func TestTokenOfEngines(t *testing.T) {
	w := newWorld(t, 6)
	token, sent := "one", make(chan string, 100)
	for _, p := range w.parts {
		p.set(func() {
			p.wrong = func(_ http.ResponseWriter, r *http.Request) bool {
				sent <- r.Header.Get("Authorization")
				return false
			}
		})
	}
	w.open(Options{Token: func() (string, error) { return token, nil }})
	w.pass(time.Minute, 3)
	w.tick(w.all)
	require.Equal(t, "Bearer one", <-sent)
	w.open(Options{Token: func() (string, error) { return "", http.ErrNoCookie }})
	_, err := w.all.Tick(t.Context(), w.now)
	require.ErrorIs(t, err, http.ErrNoCookie)
}
