package oracle

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/internal/testkit/spectest"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/rulestest"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/evaluator"
	"github.com/sloengine/sloengine/sla/fleet"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// answering lets an engine of the oracle answer a view. The lock keeps its log and the request apart.
func (e *oracleEngine) answering(mu *sync.Mutex) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		q := r.URL.Query()
		ns, _ := strconv.ParseInt(q.Get("now"), 10, 64)
		req := e.eval.Request(time.Unix(0, ns).UTC(), q.Get("minutes") != "")
		req.Unjudged = true
		raw := fold.RawRequest{Bytes: 1 << 20}
		if q.Get("run") == "run" {
			raw.Since, _ = strconv.ParseUint(q.Get("since"), 10, 64)
		}
		a := fleet.Answer{Run: "run", Request: fleet.RequestSum(&req), Sums: e.state.Fold.Sums(req),
			Raw: e.state.Fold.Raw(raw)}
		w.Header().Set("Content-Type", fleet.ContentType)
		_, _ = w.Write(fleet.Encode(&a))
	}
}

// TestOneOracleOfThreeEngines: three engines get disjoint parts of the oracle's stream. A view over them says what one
// engine says that gets all of it, and what the generated rules say that add up the counters of the three. SLOs that
// judge slices are left out of the rules, as `generate --engines` does.
func TestOneOracleOfThreeEngines(t *testing.T) {
	t.Parallel()
	// Groups, agreements and a failure while the counters are new; slices; ratios, Apdex scores and volumes; work
	for _, seed := range seedsOf(t, "11", "2", "4", "5") {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { threeEngines(t, seed) })
	}
}

// split gives each event to one of three engines.
func (w *oracleWorld) split(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 4))
	for _, e := range w.events {
		e.replica = rng.IntN(3)
		if e.key != "" { // one piece of work belongs to one engine
			e.replica = int(crc32.ChecksumIEEE([]byte(e.key)) % 3)
		}
	}
}

func threeEngines(t *testing.T, seed uint64) {
	const length = 6 * time.Hour
	w := newOracleWorld(t, seed, rules.Full)
	w.gaps, w.slack = nil, oracleExact // events were left out around gaps, and the engines stay up
	w.split(seed)
	recording, err := rules.Recording(spectest.Rules(w.spec), w.options.Options)
	require.NoError(t, err)

	var mu sync.Mutex
	one := newOracleEngine(t, w.spec, oracleStart)
	parts, events := make([]*oracleEngine, 3), make([][]*oracleEvent, 3)
	var urls []*url.URL
	for i := range parts {
		parts[i], events[i] = newOracleEngine(t, w.spec, oracleStart), w.events
		server := httptest.NewServer(parts[i].answering(&mu))
		t.Cleanup(server.Close)
		u, err := url.Parse(server.URL)
		require.NoError(t, err)
		urls = append(urls, u)
	}
	in := counting.Inputs(w.spec)
	cfg, err := evaluator.Compile(in)
	require.NoError(t, err)
	all, err := fleet.New(fleet.Options{Engines: urls, Timeout: time.Minute})
	require.NoError(t, err)
	require.NoError(t, all.SetSpec("hash", cfg))
	view, err := evaluator.New(evaluator.Options{Source: all.Sums})
	require.NoError(t, err)
	require.NoError(t, view.SetSpec(in))

	sliced := func(id slo.ID) bool {
		return slices.ContainsFunc(cfg.Indicators, func(i fold.Indicator) bool {
			return i.ID == string(id) && i.Slice != nil
		})
	}
	rest, compared, judged := w.events, 0, uint64(0)
	p := rulestest.New(t, oracleStart, lean(recording))
	p.After = func(at time.Time) {
		now := at.Sub(oracleStart).Truncate(oracleStep)
		if r := w.looks[now]; r != nil {
			w.look(p, at, now, r)
		}
	}
	p.Run(oracleStart.Add(length), oracleScrape, func(at time.Time, add func(string, float64)) {
		now := at.Sub(oracleStart)
		if now == 0 {
			return
		}
		mu.Lock()
		for i, e := range parts {
			events[i], _ = e.take(events[i], i, now)
			e.scrape(strconv.Itoa(i), add)
		}
		mu.Unlock()
		var want *sla.Report
		rest, want = one.take(rest, -1, now)
		if _, ok := w.looks[now]; !ok {
			return
		}
		got, err := view.Tick(t.Context(), at)
		require.NoError(t, err)
		require.Len(t, got.SLOs, len(want.SLOs))
		ruled := *got
		ruled.SLOs, ruled.SLAs = nil, nil
		for i := range got.SLOs {
			x, y := want.SLOs[i], got.SLOs[i]
			if sliced(x.SLO.ID) {
				judged += x.Budget.Counts.Valid()
				x.Total, y.Total, x.Slices, y.Slices = slo.Counts{}, slo.Counts{}, sla.SliceTotals{}, sla.SliceTotals{}
			} else {
				ruled.SLOs = append(ruled.SLOs, y)
			}
			require.Equal(t, x, y, "%s %s at %s", x.SLO.ID, x.Group, now)
			compared++
		}
		require.Equal(t, want.SLAs, got.SLAs)
		require.Equal(t, want.Thresholds, got.Thresholds)
		require.Equal(t, countedWork(want), countedWork(got), "at %s", now)
		for _, a := range got.SLAs {
			if !slices.ContainsFunc(a.SLA.Components, func(c sla.Component) bool { return sliced(c.SLO) }) {
				ruled.SLAs = append(ruled.SLAs, a)
			}
		}
		w.looks[now] = &ruled
	})
	t.Logf("%d groups equal to those of one engine; %s", compared, w.sum)
	require.Greater(t, w.sum.indicators, 200)
	require.NotZero(t, w.sum.budgets)
	require.Equal(t, slices.Contains(w.services, "feed"), judged > 0)
}

// countedWork is the work in flight without what depends on how many engines have it.
func countedWork(r *sla.Report) []slo.InFlight {
	out := slices.Clone(r.InFlight)
	for i := range out {
		out[i].Bytes, out[i].Max = 0, 0
	}
	return out
}
