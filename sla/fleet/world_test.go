package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/internal/testkit/spectest"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/evaluator"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/traces"
)

const worldSpec = `
version: sloengine/v1
service: shop
dimensions: [channel]
types: [order, none]
slos:
  - {name: availability, objective: 99, window: 7d, group_by: [product],
      indicator: {events: {valid: '{type="order"}', bad: '{outcome="failure"}'}}}
  - {name: everything, objective: 99, window: 3d, indicator: {events: {bad: '{outcome="failure"}'}}}
  - {name: crowded, objective: 99, window: 7d, group_by: [customer], max_groups: 5,
      indicator: {events: {valid: '{type="order"}', bad: '{outcome="failure"}'}}}
  - {name: latency, objective: 90, window: 7d, group_by: [product, channel],
      indicator: {latency: {valid: '{type="order"}', threshold: 1s}}}
  - {name: throughput, objective: 80, window: 7d, group_by: [product],
      indicator: {throughput: {valid: '{type="order"}', at_least: 12, per: 10m}}}
  - {name: slices, objective: 80, window: 7d, group_by: [product], budgeting: {timeslices: {slice: 5m, target: 90}},
      indicator: {latency: {valid: '{type="order"}', threshold: 1s}}}
  - {name: means, objective: 80, window: {calendar: week, timezone: Europe/Berlin},
      budgeting: {ratio_timeslices: {slice: 1m}}, indicator: {events: {valid: '{type="order"}',
          bad: '{outcome="failure"}'}}}
  - {name: expected, objective: 99, window: 7d, group_by: [product], expect: [[never]],
      indicator: {events: {valid: '{type="order"}', bad: '{outcome="failure"}'}}}
corrections:
  - {name: maintenance, start: 2026-11-08T01:07:00Z, duration: 95m, rrule: "FREQ=DAILY",
      slos: [availability, throughput, slices, latency], author: ops, reason: planned}
thresholds:
  - {name: slow, match: '{type="order"}', warning: 1s, critical: 3s}
slas:
  - name: main
    group_by: [product]
    window: 7d
    score: bands
    alert_window: 1h
    alerts: {warning: 95, critical: 90}
    components:
      availability: {slo: availability, weight: 40}
      latency: {slo: latency, weight: 30, bands: [{p95: 500ms, score: 100}, {p95: 2s, score: 60}, {score: 10}]}
      throughput: {slo: throughput, weight: 20}
      slices: {slo: slices, weight: 10}
`

// began is when the engines of the tests begin to count.
var began = time.Date(2026, 11, 9, 0, 0, 0, 0, time.UTC)

func worldInputs(t testing.TB) (evaluator.Inputs, *fold.Config) {
	t.Helper()
	sp := spectest.Spec(t, "spec.yaml", worldSpec)
	in := evaluator.Inputs{SLOs: sp.SLOs, Thresholds: sp.Thresholds, Agreements: sp.Agreements}
	for _, s := range sp.Services {
		in.Services = append(
			in.Services, fold.Service{Name: s.Name, Types: s.Types, Dimensions: s.Dimensions, Buckets: s.Buckets})
	}
	cfg, err := evaluator.Compile(in)
	require.NoError(t, err)
	return in, cfg
}

// counter is an engine: a fold behind the API.
type counter struct {
	*httptest.Server
	t    testing.TB
	eval *evaluator.Evaluator // of the same spec; only its requests are used

	mu    sync.Mutex // guards what follows
	fold  *fold.Fold
	run   string
	spec  string
	bytes int                                           // of slices in an answer
	wrong func(http.ResponseWriter, *http.Request) bool // answers instead
	notes Notes
	told  int // how often it told its annotations

	onsets  []Onset
	traces  *traces.Store
	forgets bool // it retains no onsets of that time
	calls   int
}

func newCounter(t testing.TB, in evaluator.Inputs, cfg *fold.Config) *counter {
	t.Helper()
	c := &counter{t: t, run: "first", spec: "hash", bytes: 4 << 20}
	c.begin(cfg, began)
	var err error
	c.eval, err = evaluator.New(evaluator.Options{Source: func(context.Context, fold.Request) (*fold.Sums, error) {
		return nil, http.ErrAbortHandler
	}})
	require.NoError(t, err)
	require.NoError(t, c.eval.SetSpec(in))
	c.Server = httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(c.Close)
	return c
}

// begin makes it count from nothing.
func (c *counter) begin(cfg *fold.Config, at time.Time) {
	f, err := fold.New(fold.Options{})
	require.NoError(c.t, err)
	f.Advance(at.UnixNano(), fold.Start)
	require.NoError(c.t, f.SetConfig(cfg, at.UnixNano()))
	c.fold = f
}

func (c *counter) serve(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	if c.wrong != nil && c.wrong(w, r) {
		return
	}
	w.Header().Set(SpecHeader, c.spec)
	w.Header().Set("Content-Type", ContentType)
	if r.URL.Path == CountsPath {
		var q CountsQuery
		require.NoError(c.t, json.NewDecoder(r.Body).Decode(&q))
		reads, err := q.Requests()
		require.NoError(c.t, err)
		out := Counts{Reads: c.fold.Read(reads)}
		if len(q.Losses) > 0 {
			out.Losses = c.fold.Offers(q.Losses, span(q.Span))
		}
		if q.Onsets {
			out.Onsets, out.OnsetsKnown = c.onsets, !c.forgets
		}
		if q.Traces != nil {
			out.Traces = c.traces.Of(q.Traces.ID, q.Traces.Group, time.Now())
		}
		_, _ = w.Write(EncodeCounts(&out))
		return
	}
	q := r.URL.Query()
	if q.Get("spec") != c.spec {
		w.WriteHeader(http.StatusConflict)
		return
	}
	number := func(name string) uint64 { n, _ := strconv.ParseUint(q.Get(name), 10, 64); return n }
	req := c.eval.Request(time.Unix(0, int64(number("now"))).UTC(), q.Get("minutes") != "")
	req.Unjudged = true
	raw := fold.RawRequest{Since: number("since")}
	if from := q.Get("from"); from != "" {
		_, err := fmt.Sscanf(from, "%d,%d", &raw.From.Store, &raw.From.Slice)
		require.NoError(c.t, err)
	}
	if q.Get("run") != c.run || number("config") != c.fold.ConfigVersion() {
		raw = fold.RawRequest{}
	}
	raw.Bytes = c.bytes
	a := Answer{Run: c.run, Request: RequestSum(&req), Raw: c.fold.Raw(raw)}
	if q.Get("only") == "" {
		a.Sums, a.Notes = c.fold.Sums(req), c.notes
		if a.Notes.Same = q.Get("run") == c.run &&
			q.Get("annotations") == strconv.FormatUint(c.notes.Changes, 10); !a.Notes.Same {
			c.told++
		}
	}
	_, _ = w.Write(Encode(&a))
}

// set changes what the engine does.
func (c *counter) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// take gives the fold an event.
func take1(t require.TestingT, f *fold.Fold, recv time.Time, mode fold.Mode, e *event.Event) {
	var v event.View
	_, err := v.Parse(event.AppendBinary(nil, e))
	require.NoError(t, err)
	require.NoError(t, f.Apply(recv.UnixNano(), mode, &v))
}

// orderAt is a random event.
func orderAt(rng *rand.Rand, at time.Time) *event.Event {
	e := &event.Event{
		Service: "shop", Type: "order", Time: at.Add(-time.Duration(rng.IntN(5000)) * time.Millisecond), Count: 1}
	if rng.IntN(8) == 0 { // late
		e.Time = at.Add(-time.Duration(rng.Int64N(int64(20 * time.Hour))))
	}
	e.Set("product", []string{"a", "b", "c"}[rng.IntN(3)])
	e.Set("customer", fmt.Sprint("c", rng.IntN(12)))
	if rng.IntN(2) == 0 {
		e.Set("channel", "web")
	}
	if rng.IntN(10) == 0 {
		e.Outcome = event.Failure
	}
	if rng.IntN(10) > 0 {
		e.Duration, e.HasDuration = time.Duration(rng.IntN(4000))*time.Millisecond, true
	}
	if rng.IntN(5) == 0 {
		e.Count = uint32(1 + rng.IntN(9))
	}
	if rng.IntN(6) == 0 {
		e.Weight = 10
	}
	return e
}

// world is one engine that counts everything, and three that count a part each.
type world struct {
	t      *testing.T
	rng    *rand.Rand
	in     evaluator.Inputs
	cfg    *fold.Config
	whole  *counter
	parts  []*counter
	fleet  *Fleet
	one    *evaluator.Evaluator // of whole
	all    *evaluator.Evaluator // of fleet
	now    time.Time            // of the engines
	clock  time.Time            // of the fleet, which tells ages
	truth  map[string]uint64    // valid events by customer
	logged strings.Builder
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 7)), now: began, clock: began, truth: map[string]uint64{}}
	w.in, w.cfg = worldInputs(t)
	w.whole = newCounter(t, w.in, w.cfg)
	for range 3 {
		w.parts = append(w.parts, newCounter(t, w.in, w.cfg))
	}
	w.open(Options{})
	var err error
	w.one, err = evaluator.New(evaluator.Options{Source: func(_ context.Context, req fold.Request) (*fold.Sums, error) {
		return w.whole.fold.Sums(req), nil
	}})
	require.NoError(t, err)
	require.NoError(t, w.one.SetSpec(w.in))
	return w
}

// open makes the fleet again.
func (w *world) open(o Options) {
	for _, p := range w.parts {
		u, err := url.Parse(p.URL)
		require.NoError(w.t, err)
		o.Engines = append(o.Engines, u)
	}
	o.Now = func() time.Time { return w.clock }
	var err error
	w.fleet, err = New(o)
	require.NoError(w.t, err)
	require.NoError(w.t, w.fleet.SetSpec("hash", w.cfg))
	w.all, err = evaluator.New(evaluator.Options{Source: w.fleet.Sums})
	require.NoError(w.t, err)
	require.NoError(w.t, w.all.SetSpec(w.in))
}

func (w *world) folds() []*fold.Fold {
	out := []*fold.Fold{w.whole.fold}
	for _, p := range w.parts {
		out = append(out, p.fold)
	}
	return out
}

// pass lets time pass in all engines, with events in some of it.
func (w *world) pass(d time.Duration, perMinute int) {
	for end := w.now.Add(d); w.now.Before(end); {
		w.now = w.now.Add(20 * time.Second)
		for _, f := range w.folds() {
			f.Advance(w.now.UnixNano(), fold.Tick)
		}
		for range perMinute / 3 {
			w.event(fold.Live, orderAt(w.rng, w.now))
		}
	}
	w.clock = w.now
}

// down stops all engines for a time.
func (w *world) down(d time.Duration) {
	for _, f := range w.folds() {
		f.Advance(w.now.UnixNano(), fold.Stop)
		f.Advance(w.now.Add(d).UnixNano(), fold.Start)
	}
	w.now = w.now.Add(d)
}

func (w *world) event(mode fold.Mode, e *event.Event) {
	p := w.parts[w.rng.IntN(len(w.parts))]
	for _, f := range []*fold.Fold{w.whole.fold, p.fold} {
		take1(w.t, f, w.now, mode, e)
	}
	w.truth[e.Attr("customer")] += uint64(max(1, e.Count)) * uint64(max(1, e.Weight))
}

// drop lets limits of one engine drop events.
func (w *world) drop(n uint64) {
	at := w.now.Add(-time.Duration(w.rng.IntN(3600)) * time.Second).UnixNano()
	for _, f := range []*fold.Fold{w.whole.fold, w.parts[w.rng.IntN(3)].fold} {
		f.Dropped(w.now.UnixNano(), []byte("shop"), []byte("order"), at, n, "limit")
	}
}

func (w *world) tick(e *evaluator.Evaluator) *sla.Report {
	w.t.Helper()
	r, err := e.Tick(w.t.Context(), w.now)
	require.NoError(w.t, err)
	return r
}

// comparable is a report without what may differ: how it was made, and totals of slices, which an engine judges once
// and the fleet again and again.
func comparable(r *sla.Report, but func(*sla.SLOReport) bool) *sla.Report {
	out := *r
	out.Version, out.Took = 0, 0
	out.SLOs = nil
	for i := range r.SLOs {
		x := r.SLOs[i]
		if but(&x) {
			continue
		}
		if x.Slice > 0 {
			x.Total.Good, x.Total.Bad, x.Slices = 0, 0, sla.SliceTotals{}
		}
		out.SLOs = append(out.SLOs, x)
	}
	out.Durations = slices.Clone(r.Durations)
	for i := range out.Durations {
		out.Durations[i].SumSeconds = 0 // it is a sum of rounded sums
	}
	return &out
}
