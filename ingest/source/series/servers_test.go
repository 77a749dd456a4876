package series

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/counter"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/reliability/dlq"
)

// region is one of several servers.
type region struct {
	scraped
	url    string
	labels string // its external labels, in YAML; "": it does not tell them
	down   bool
}

func (r *region) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	switch {
	case r.down:
		w.WriteHeader(http.StatusBadGateway)
	case !strings.HasSuffix(req.URL.Path, "/status/config"):
		r.scraped.ServeHTTP(w, req)
	case r.labels == "":
		w.WriteHeader(http.StatusForbidden)
	default:
		require.NoError(r.t, json.NewEncoder(w).Encode(map[string]any{"status": "success",
			"data": map[string]string{"yaml": "global: {external_labels: " + r.labels + "}"}}))
	}
}

// federation is a source of several servers, whose engine can be killed.
type federation struct {
	*Servers
	t       *testing.T
	now     time.Time
	log     strings.Builder
	store   *store
	regions []*region
	given   []map[string]string // external labels in the settings
	alone   *Source             // reads the first server; nil: all are read
	units   []Unit
	intake  *source.Intake
}

func newFederation(t *testing.T, units []Unit, external ...string) *federation {
	f := &federation{t: t, now: began, units: units, given: make([]map[string]string, len(external)),
		store: &store{counters: counter.NewTable(), sums: map[string]int{}, times: map[int64]int{}}}
	for _, labels := range external {
		r := &region{scraped: scraped{t: t, series: map[string][]point{}}, labels: labels}
		server := httptest.NewServer(r)
		t.Cleanup(server.Close)
		r.url = server.URL
		f.regions = append(f.regions, r)
	}
	f.restart()
	return f
}

func (f *federation) restart() {
	table := counter.NewTable()
	require.NoError(f.t, table.Restore(f.store.counters.Encode(nil)))
	f.store.counters = table
	log := slog.New(slog.NewTextHandler(&f.log, nil))
	var err error
	f.intake, err = source.New(source.Options{Name: "main", Settings: source.Defaults(), Engine: f.store,
		Save: func(context.Context, []dlq.Entry) error { return nil }, Logger: log,
		Metrics: source.NewMetrics(metrics.NewSet()), Now: func() time.Time { return f.now }})
	require.NoError(f.t, err)
	var servers []Server
	for i, r := range f.regions {
		servers = append(servers, Server{URL: r.url, Client: http.DefaultClient, External: f.given[i]})
	}
	o := Options{Settings: quick, Engine: f.store, Units: func() []Unit { return f.units },
		Counters: table, Until: f.store.until, Intake: f.intake, Logger: log,
		Spans: func(_ context.Context, stream string) (out []counter.Observation, err error) {
			for _, o := range f.store.seen {
				if o.Source == stream {
					out = append(out, o)
				}
			}
			return out, nil
		},
		SizeLimits: event.SizeLimits{AllowedLateness: 24 * time.Hour},
		Longest:    func() time.Duration { return 30 * 24 * time.Hour }}
	if f.alone != nil {
		o.URL, o.Client = f.regions[0].url, http.DefaultClient
		f.alone = New(o)
		return
	}
	f.Servers = NewServers(o, servers, Names{
		Server: func(stream, server string) string { return stream + "#" + server },
		Groups: func(stream string, values map[string]string) string { return fmt.Sprint(stream, values) }})
}

func (f *federation) round(seconds int) {
	f.now = at(seconds)
	if f.alone != nil {
		f.alone.Round(f.t.Context())
		return
	}
	for _, s := range f.sources {
		s.Round(f.t.Context())
	}
}

// until is the end of what was observed of a stream without a gap.
func (f *federation) until(stream string) (seconds int) {
	var from int64
	for _, o := range f.store.seen {
		if o.Source != stream {
			continue
		}
		require.True(f.t, from == 0 || o.From <= from && o.To >= from, "%s has a gap", stream)
		from = o.To
	}
	if from == 0 {
		return 0
	}
	return int(time.Unix(0, from).Sub(began).Seconds())
}

func (f *federation) troubles() string {
	var out []string
	for _, x := range f.intake.Troubles() {
		out = append(out, x.Name+": "+x.Brief+": "+x.Reason)
	}
	return strings.Join(out, "\n")
}

func byRegion(labels ...string) []Unit {
	u := errors500
	u.SLOs = []SLO{{ID: "shop/availability", Service: "shop~prometheus", Type: "availability", GroupBy: labels,
		Attributes: labels}}
	return []Unit{u}
}

const goodSeries, badSeries = `requests_total{job="web",instance="a",route="/",code="200"}`,
	`requests_total{job="web",instance="a",route="/",code="500"}`

// Two servers have the same series. One of them is down for a while, in which the engine is killed again and again: the
// counts of the other one go on, and those of the first follow.
func TestServers(t *testing.T) {
	f := newFederation(t, byRegion("region", "route"), "{region: eu}", "{region: us}")
	eu, us := f.regions[0], f.regions[1]
	for i := range 20 {
		eu.add(goodSeries, at(15*i), 1e9+float64(10*i))
		us.add(goodSeries, at(15*i), 5e8+float64(7*i))
		us.add(badSeries, at(15*i), 100+float64(i))
		us.down = i >= 5 && i < 15
		f.round(15*i + 4)
		f.restart()
		if i != 14 {
			continue
		}
		require.Equal(t, map[string]int{"shop~prometheus/availability region=eu route=/ success": 140,
			"shop~prometheus/availability region=us route=/ success": 28,
			"shop~prometheus/availability region=us route=/ failure": 4}, f.store.sums)
		require.Equal(t, 15*14+2, f.until("main 1map[region:eu]"))
		require.Equal(t, 15*4+2, f.until("main 1map[region:us]"))
		require.Equal(t, 15*4+2, f.until("main 1"), "all of it")
		f.round(15*14 + 4)
		require.Contains(t, f.troubles(), us.url+": the Prometheus does not answer")
		require.NotContains(t, f.troubles(), eu.url)
	}
	require.Equal(t, map[string]int{"shop~prometheus/availability region=eu route=/ success": 190,
		"shop~prometheus/availability region=us route=/ success": 133,
		"shop~prometheus/availability region=us route=/ failure": 19}, f.store.sums)
	for _, stream := range []string{"main 1map[region:eu]", "main 1map[region:us]", "main 1"} {
		require.Equal(t, 15*19+2, f.until(stream), stream)
	}
	require.Empty(t, f.troubles())
}

// External labels select, whatever their values are, and a label of a series comes first.
func TestExternalLabels(t *testing.T) {
	odd := "a\"\\\n\x00#{}\u00ff~"
	units := byRegion("tier", "part", "severity")
	units[0].Total = `requests_total{job="web",tier=~"a.*"}`
	units[0].Part = `requests_total{job="web",tier=~"a.*",code=~"5.."}`
	f := newFederation(t, units, `{tier: b, part: x}`, "")
	f.given[1] = map[string]string{"tier": odd, "severity": "page", "code": "500", "empty": ""}
	f.restart()
	for i := range 3 {
		for _, r := range f.regions {
			r.add(`requests_total{job="web",part="own",code="200"}`, at(15*i), float64(10*i))
			r.add(`requests_total{job="web"}`, at(15*i), float64(i))
			r.add(`requests_total{job="web",tier="b"}`, at(15*i), float64(i))
		}
		f.round(15*i + 4)
	}
	require.Empty(t, f.troubles())
	rest := " severity=page tier=" + odd
	require.Equal(t, map[string]int{"shop~prometheus/availability part=own" + rest + " success": 20,
		"shop~prometheus/availability part=" + rest + " failure": 2}, f.store.sums)
	require.Zero(t, f.regions[0].queries, "it has none of its series")
}

// The matchers of queries on external labels are judged here, since the server does not know them.
func TestExternalLabelsInQueries(t *testing.T) {
	eu := labelsFrom(map[string]string{"region": "eu", "tier": "a"})
	for _, tt := range []struct {
		query, ask string
		elsewhere  bool
	}{
		{`sum(rate(x{job="web"}[5m]))`, `sum(rate(x{job="web"}[5m]))`, false},
		{`sum(rate(x{job="web",region="eu"}[5m]))`, `sum(rate(x{job="web"}[5m]))`, false},
		{`x{region!="us",region=~"e.|u.",tier!~"b"}`, `x`, false},
		{`x{region="us"}`, `x{region!="",region=""}`, true},
		{`x{region!="eu"}`, `x{region!="",region=""}`, true},
		{`x{region=~"us|ap"}`, `x{region!="",region=""}`, true},
		{`x{region!~"eu"}`, `x{region!="",region=""}`, true},
		{`x{region="eu"} or y{code="1",region="us"}`, `x or y{code="1",region!="",region=""}`, false},
		{`x{region="us"} / on (job) y{region="ap"}`, "", true},
		{`max_over_time(x{zone="b",region="eu"}[5m:30s])`, `max_over_time(x{zone="b"}[5m:30s])`, false},
		{`vector(1)`, `vector(1)`, false},
		{`no query (`, `no query (`, false},
	} {
		ask, elsewhere := eu.query(tt.query)
		require.Equal(t, tt.elsewhere, elsewhere, tt.query)
		if tt.ask != "" {
			require.Equal(t, tt.ask, ask, tt.query)
		}
	}

	units := []Unit{gauge()}
	units[0].Total, units[0].SLOs[0].GroupBy = `depth{region!="us"}`, []string{"region"}
	units[0].SLOs[0].Attributes = []string{"region"}
	f := newFederation(t, units, "{region: eu}", "{region: us}")
	for _, r := range f.regions {
		for i := 1; i <= 10; i++ {
			r.add(`depth => {q="a"}`, at(30*i), 1)
		}
	}
	for second := 33; second < 300; second += 30 {
		f.round(second)
	}
	require.Empty(t, f.troubles())
	require.Len(t, f.store.sums, 1)
	require.Positive(t, f.store.sums["shop~prometheus/queue region=eu success"])
	require.Zero(t, f.regions[1].queries, "it has none of its series")
	require.Positive(t, f.until("main 1"), "the other one has all of them")
}

// Two servers that may scrape the same count once, and it is said which of them does not count, and why.
func TestSameServers(t *testing.T) {
	f := newFederation(t, byRegion("region"), "{region: eu, replica: a}", "{region: eu, replica: b}", "{region: us}", "")
	for i := range 3 {
		for _, r := range f.regions {
			r.add(goodSeries, at(15*i), float64(10*i))
		}
		f.round(15*i + 4)
	}
	require.Equal(t, map[string]int{"shop~prometheus/availability region=eu success": 20,
		"shop~prometheus/availability region=us success": 20}, f.store.sums)
	require.Contains(t, f.troubles(), f.regions[1].url+` and `+f.regions[0].url+
		` both have the external labels {region="eu", replica="b"}, so that events would count twice`)
	require.Contains(t, f.troubles(), "set external_labels for "+f.regions[3].url+
		", which does not report them: status 403")
	require.Zero(t, f.until("main 1"), "nobody knows what the last one has")

	f.regions[1].labels = "{region: ap}" // it is set right
	f.given[3] = map[string]string{"region": "af"}
	f.restart()
	f.round(34)
	for _, r := range f.regions {
		r.add(goodSeries, at(45), 30)
	}
	f.round(49)
	require.Empty(t, f.troubles())
	require.Equal(t, 47, f.until("main 1map[region:af]"))
	require.Positive(t, f.store.sums["shop~prometheus/availability region=ap success"])

	// The log has the labels of one that is down, and its region is what is missing.
	f.given[3] = nil
	f.regions[3].down = true
	f.restart()
	for _, r := range f.regions {
		r.add(goodSeries, at(60), 40)
	}
	f.round(64)
	require.NotContains(t, f.troubles(), "external_labels")
	require.Equal(t, 62, f.until("main 1map[region:ap]"))
	f.regions[3].down = false
	f.round(65)
	require.Equal(t, 63, f.until("main 1map[region:af]"))

	f.regions[0].labels = "{region: moved}"
	f.round(400)
	require.Contains(t, f.log.String(), "the external labels of a server changed")
}

// A server that joins others is read from then on: of the time before, others are what was counted.
func TestServerJoins(t *testing.T) {
	f := newFederation(t, byRegion("region"), "{region: eu}", "{region: us}")
	for i := range 10 {
		for _, r := range f.regions {
			r.add(goodSeries, at(15*i), float64(10*i))
		}
	}
	all := f.sources
	f.sources = all[:1]
	f.round(94)
	require.Equal(t, 92, f.until("main 1"))
	before := f.store.sums["shop~prometheus/availability region=eu success"]
	f.sources = all
	f.round(139)
	require.Equal(t, before+30, f.store.sums["shop~prometheus/availability region=eu success"])
	require.Equal(t, 30, f.store.sums["shop~prometheus/availability region=us success"])
	require.Equal(t, 137, f.until("main 1"))
}

// The source is changed between one server and both again and again, and the engine is killed, whether or not the
// second server answers. What the first one says counts once whoever reads it, and what the second one says at most.
// What a target adds that is not scraped when that happens may be left out.
func TestOneServerAndSeveral(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		f := newFederation(t, byRegion("route"), "{region: eu}", "{region: us}")
		counts, truth := [2][8]int{{1e6}, {2e6}}, [2]int{}
		changes, unscraped, gaps := 0, 0, seed%2 == 1
		check := func() (counted [2]int) {
			for k := range counted {
				counted[k] = f.store.sums[fmt.Sprintf("shop~prometheus/availability route=/%d success", k)]
				require.LessOrEqual(t, counted[k], truth[k], "seed %d, server %d", seed, k)
			}
			return counted
		}
		for i := range 150 {
			for k, r := range f.regions {
				for n := range 1 + i/20 { // a series begins now and then
					if i > 0 && rng.IntN(3) > 0 {
						added := rng.IntN(9)
						counts[k][n], truth[k] = counts[k][n]+added, truth[k]+added
					}
					if unscraped <= 0 || k == 1 {
						r.add(fmt.Sprintf(`requests_total{job="web",route="/%d",n="%d"}`, k, n), at(5*i), float64(counts[k][n]))
					}
				}
			}
			unscraped--
			if gaps && unscraped < -20 && rng.IntN(5) == 0 {
				unscraped = 10
			}
			if rng.IntN(15) == 0 {
				f.regions[1].down = !f.regions[1].down
			}
			if i == 0 || rng.IntN(3) > 0 {
				f.round(5*i + 2 + rng.IntN(3))
			}
			switch before := f.alone; {
			case i > 0 && rng.IntN(10) == 0:
				if f.alone = new(Source); before != nil {
					f.alone = nil
				}
				changes++
				fallthrough
			case rng.IntN(5) == 0:
				f.restart()
			}
			check()
		}
		f.regions[1].down = false
		f.round(5*149 + 5)
		f.round(5*149 + 10)
		counted := check()
		t.Logf("seed %d: %d changes, counted %v of %v", seed, changes, counted, truth)
		require.Greater(t, changes, 3)
		require.Contains(t, f.log.String(), "the source was changed between one server and several")
		if !gaps {
			require.Equal(t, truth[0], counted[0], "seed %d", seed)
		}
		require.Greater(t, 2*counted[0], truth[0], "seed %d", seed)
		require.Positive(t, counted[1], "seed %d", seed)
	}
}

// The source is changed between a list of servers and receiving again and again, and the engine is killed. Samples are
// sent again, also those that the list read. Each counts once at most, and what is added between the last sample of one
// way and the first of the other may be left out.
func TestServersAndReceiving(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 2))
		f := newFederation(t, byRegion("route"), "{region: eu}", "{region: us}")
		d := &door{t: t, now: began, store: f.store, units: f.units}
		counts, truth, left := [2][8]int{{1e6}, {2e6}}, [2]int{}, [2]int{}
		receives, changes, changed := false, 0, false // changed: since the last scrape
		var scrapes [][]sent
		for i := range 200 {
			var scrape []sent
			for k, r := range f.regions {
				for n := range 1 + i/30 { // a series begins now and then
					if added := rng.IntN(9); i > 0 {
						counts[k][n], truth[k] = counts[k][n]+added, truth[k]+added
						if changed {
							left[k] += added
						}
					}
					const format = `requests_total{job="web",route="/%d",n="%d"%s}`
					r.add(fmt.Sprintf(format, k, n, ""), at(5*i), float64(counts[k][n]))
					scrape = append(scrape, sent{fmt.Sprintf(format, k, n, []string{`,region="eu"`, `,region="us"`}[k]), at(5 * i),
						float64(counts[k][n]), time.Time{}})
				}
			}
			scrapes = append(scrapes, scrape)
			if receives {
				for _, again := range scrapes[max(0, i-rng.IntN(20)) : i+1] {
					d.write(again...)
				}
			} else {
				f.round(5*i + 2 + rng.IntN(3))
			}
			if changed = i > 0 && rng.IntN(12) == 0; changed {
				receives = !receives
				changes++
			}
			if d.now = at(5 * i); changed || rng.IntN(5) == 0 {
				if receives {
					d.restart()
				} else {
					f.restart()
				}
			}
			for k := range truth {
				require.LessOrEqual(t, f.store.sums[fmt.Sprintf("shop~prometheus/availability route=/%d success", k)], truth[k],
					"seed %d, scrape %d, server %d", seed, i, k)
			}
		}
		require.Greater(t, changes, 3)
		for k := range truth {
			counted := f.store.sums[fmt.Sprintf("shop~prometheus/availability route=/%d success", k)]
			t.Logf("seed %d: %d changes, counted %d of %d, %d between", seed, changes, counted, truth[k], left[k])
			require.GreaterOrEqual(t, counted, truth[k]-left[k])
		}
	}
}
