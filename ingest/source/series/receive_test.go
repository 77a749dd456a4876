package series

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/counter"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/reliability/dlq"
)

// sent is a sample that a test writes.
type sent struct {
	series string
	at     time.Time
	n      float64
	began  time.Time
}

func labelsOf(t testing.TB, text string) labels.Labels {
	of, err := parser.NewParser(parser.Options{}).ParseMetric(text)
	require.NoError(t, err)
	return of
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func bodyV1(t testing.TB, samples ...sent) []byte {
	var req prompb.WriteRequest
	for _, s := range samples {
		one := prompb.TimeSeries{Samples: []prompb.Sample{{Value: s.n, Timestamp: millis(s.at)}}}
		labelsOf(t, s.series).Range(func(l labels.Label) {
			one.Labels = append(one.Labels, prompb.Label{Name: l.Name, Value: l.Value})
		})
		req.Timeseries = append(req.Timeseries, one)
	}
	body, err := req.Marshal()
	require.NoError(t, err)
	return body
}

func bodyV2(t testing.TB, samples ...sent) []byte {
	table := writev2.NewSymbolTable()
	var req writev2.Request
	for _, s := range samples {
		req.Timeseries = append(req.Timeseries, writev2.TimeSeries{
			LabelsRefs: table.SymbolizeLabels(labelsOf(t, s.series), nil),
			Samples:    []writev2.Sample{{Value: s.n, Timestamp: millis(s.at), StartTimestamp: millis(s.began)}},
		})
	}
	req.Symbols = table.Symbols()
	body, err := req.Marshal()
	require.NoError(t, err)
	return body
}

// door is a Receiver, whose engine can be killed.
type door struct {
	*Receiver
	t     testing.TB
	now   time.Time
	log   strings.Builder
	store *store
	set   *metrics.Set
	units []Unit
	ha    *HA
}

func newDoor(t testing.TB, ha *HA, units ...Unit) *door {
	d := &door{t: t, now: began, units: units, ha: ha,
		store: &store{counters: counter.NewTable(), sums: map[string]int{}, times: map[int64]int{}}}
	d.restart()
	return d
}

// restart loses what is not in the log.
func (d *door) restart() {
	table := counter.NewTable()
	require.NoError(d.t, table.Restore(d.store.counters.Encode(nil)))
	d.store.counters, d.set = table, metrics.NewSet()
	m := source.NewMetrics(d.set)
	log := slog.New(slog.NewTextHandler(&d.log, nil))
	intake, err := source.New(source.Options{Name: "main", Settings: source.Defaults(), Engine: d.store,
		Save: func(context.Context, []dlq.Entry) error { return nil }, Logger: log, Metrics: m,
		Now: func() time.Time { return d.now }})
	require.NoError(d.t, err)
	d.Receiver = NewReceiver(Options{Settings: Settings{Scrape: 15 * time.Second}, Engine: d.store,
		Units: func() []Unit { return d.units }, Counters: table, Until: d.store.until, Intake: intake,
		SizeLimits: event.SizeLimits{AllowedLateness: 24 * time.Hour}, HA: d.ha, Metrics: m, Logger: log,
		Longest: func() time.Duration { return 30 * 24 * time.Hour }})
	require.NoError(d.t, d.refresh(d.t.Context()))
}

// write sends samples in one request, at the time of the last of them.
func (d *door) write(samples ...sent) Written {
	for _, s := range samples {
		if s.at.After(d.now) {
			d.now = s.at
		}
	}
	out, err := d.Write(d.t.Context(), bodyV1(d.t, samples...), false, nil)
	require.NoError(d.t, err)
	again, err := d.Write(d.t.Context(), bodyV1(d.t, samples...), false, nil)
	require.NoError(d.t, err)
	require.Equal(d.t, out, again, "a resend is written, and changes nothing")
	return out
}

// pass lets the time pass in which first samples are baselines, and events of two counters wait for each other.
func (d *door) pass() {
	d.now = d.now.Add(pairing)
	require.NoError(d.t, d.refresh(d.t.Context()))
	d.storing <- struct{}{}
	require.NoError(d.t, d.Receiver.store(nil))
	<-d.storing
}

func (d *door) total() (n int) {
	for _, x := range d.store.sums {
		n += x
	}
	return n
}

func TestReceive(t *testing.T) {
	for _, v2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("v2=%v", v2), func(t *testing.T) {
			d := newDoor(t, nil, errors500)
			body := bodyV1
			if v2 {
				body = bodyV2
			}
			good, bad := `requests_total{job="web",instance="a",route="/",code="200"}`,
				`requests_total{job="web",instance="a",route="/",code="500"}`
			write := func(samples ...sent) Written {
				d.now = d.now.Add(15 * time.Second)
				for i := range samples {
					samples[i].at = d.now
				}
				var out Written
				for range 2 { // a resend changes nothing
					var err error
					out, err = d.Write(t.Context(), body(t, samples...), v2, nil)
					require.NoError(t, err)
					d.restart()
				}
				return out
			}
			require.Equal(t, Written{Samples: 3}, write(sent{series: good, n: 1e9}, sent{series: bad, n: 1e6},
				sent{series: `other{job="web"}`, n: 7}))
			require.Empty(t, d.store.sums)
			write(sent{series: good, n: 1e9 + 7}, sent{series: bad, n: 1e6 + 2})
			write(sent{series: good, n: math.Float64frombits(value.StaleNaN)}, sent{series: bad, n: 1})
			require.Equal(t, map[string]int{"shop~prometheus/availability route=/ success": 7,
				"shop~prometheus/availability route=/ failure": 3}, d.store.sums)
			var from int64
			for _, o := range d.store.seen {
				require.True(t, from == 0 || o.From == from, "without a gap")
				from = o.To
			}
			require.Equal(t, d.now.UnixNano(), from)
		})
	}
}

// Two counters come in two requests, in any order, with kills in between.
func TestReceiveTwoCounters(t *testing.T) {
	d := newDoor(t, nil, Unit{Stream: "main 2", Total: `d_bucket{le="+Inf"}`, Part: `d_bucket{le="0.4"}`, Good: true,
		SLOs: []SLO{{Service: "shop~prometheus", Type: "latency", GroupBy: []string{"route"},
			Attributes: []string{"route"}}}})
	for i := range 9 {
		all := sent{series: `d_bucket{instance="a",route="/",le="+Inf"}`, at: at(15 * i), n: 1e9 + float64(10*i)}
		fast := sent{series: `d_bucket{instance="a",route="/",le="0.4"}`, at: at(15 * i), n: 1e8 + float64(9*i)}
		if i%2 == 0 {
			all, fast = fast, all
		}
		d.write(all)
		if i%3 == 0 {
			d.restart()
		}
		d.write(fast)
		if i%4 == 0 {
			d.restart()
		}
	}
	d.pass()
	d.pass()
	require.Equal(t, map[string]int{"shop~prometheus/latency route=/ success": 72,
		"shop~prometheus/latency route=/ failure": 8}, d.store.sums)
	require.Empty(t, d.pending)
	notes := 0
	d.store.counters.Notes(newPlanOf(t, d.units[0]).class, func(counter.Key, string) { notes++ })
	require.Zero(t, notes)
}

func newPlanOf(t testing.TB, u Unit) *plan {
	p, err := newPlan(u, 0, nil)
	require.NoError(t, err)
	return p
}

// What was added in a gap counts in its middle, in a batch that no alert goes by, and what comes behind it as ever:
// in one request with it or in others, with kills in between.
func TestReceiveGap(t *testing.T) {
	good, bad := `requests_total{job="web",instance="a",route="/",code="200"}`,
		`requests_total{job="web",instance="a",route="/",code="500"}`
	for _, together := range []bool{false, true} {
		d := newDoor(t, nil, errors500)
		for i := range 3 {
			n := float64(i)
			d.write(sent{series: good, at: at(15 * i), n: 1e9 + n - 2}, sent{series: bad, at: at(15 * i), n: 1e6 + n - 2})
		}
		behind := []sent{{series: good, at: at(630), n: 1e9 + 100}, {series: bad, at: at(630), n: 1e6 + 50},
			{series: good, at: at(645), n: 1e9 + 103}, {series: bad, at: at(645), n: 1e6 + 51},
			{series: good, at: at(1245), n: 1e9 + 110}, {series: good, at: at(1260), n: 1e9 + 112}}
		if together {
			d.write(behind...)
		} else {
			for i := range behind {
				d.write(behind[i])
				d.restart()
			}
		}
		require.Equal(t, map[string]int{"shop~prometheus/availability route=/ success": 114,
			"shop~prometheus/availability route=/ failure": 53}, d.store.sums)
		require.Equal(t, map[int64]int{10: 2, 30: 2, 330: 150, 640: 4, 940: 7, 1260: 2}, d.store.times)
		require.Equal(t, 3, d.store.backfilled, "no alert goes by it")
	}
}

// What two counters added in a gap waits for each other, too.
func TestReceiveGapOfTwoCounters(t *testing.T) {
	d := newDoor(t, nil, Unit{Stream: "main 2", Total: `d_bucket{le="+Inf"}`, Part: `d_bucket{le="0.4"}`, Good: true,
		SLOs: []SLO{{Service: "shop~prometheus", Type: "latency", GroupBy: []string{"route"},
			Attributes: []string{"route"}}}})
	for i, seconds := range []int{0, 15, 30, 630, 645} {
		more := 0.0
		if seconds >= 630 {
			more = 1000
		}
		d.write(sent{series: `d_bucket{instance="a",route="/",le="+Inf"}`, at: at(seconds), n: 1e9 + more + float64(10*i)})
		d.restart()
		d.write(sent{series: `d_bucket{instance="a",route="/",le="0.4"}`, at: at(seconds), n: 1e8 + more/2 + float64(9*i)})
		d.restart()
	}
	d.pass()
	d.pass()
	require.Equal(t, map[string]int{"shop~prometheus/latency route=/ success": 536,
		"shop~prometheus/latency route=/ failure": 504}, d.store.sums)
	require.Equal(t, map[int64]int{10: 10, 30: 10, 330: 1010, 640: 10}, d.store.times)
	require.Equal(t, 2, d.store.backfilled)
	require.Empty(t, d.pending)
}

// A kill between two requests does not part what belongs together: the start knows of no sample that added nothing, so
// that one of two counters seems to have a gap.
func TestGapOfOneCounter(t *testing.T) {
	all, fast := `d_bucket{instance="a",route="/",le="+Inf"}`, `d_bucket{instance="a",route="/",le="0.4"}`
	for _, first := range []string{all, fast} {
		d := newDoor(t, nil, Unit{Stream: "main 2", Total: `d_bucket{le="+Inf"}`, Part: `d_bucket{le="0.4"}`, Good: true,
			SLOs: []SLO{{Service: "shop~prometheus", Type: "latency", GroupBy: []string{"route"},
				Attributes: []string{"route"}}}})
		other := map[string]string{all: fast, fast: all}[first]
		for i := range 4 {
			d.write(sent{series: other, at: at(15 * i), n: 1e9}, sent{series: first, at: at(15 * i), n: 1e9 + float64(i)/4})
		}
		d.write(sent{series: first, at: at(60), n: 1e9 + 100})
		d.restart()
		d.write(sent{series: other, at: at(60), n: 1e9 + 100})
		d.pass()
		d.pass()
		require.Equal(t, map[string]int{"shop~prometheus/latency route=/ success": 100}, d.store.sums, first)
		require.Empty(t, d.pending)
		notes := 0
		d.store.counters.Notes(newPlanOf(t, d.units[0]).class, func(counter.Key, string) { notes++ })
		require.Zero(t, notes)
	}
}

// Whatever happens to counters of a billion, nothing is counted that did not happen.
func TestNoPhantomEvents(t *testing.T) {
	good := func(instance, more string) string {
		return `requests_total{job="web",instance="` + instance + `",route="/"` + more + `}`
	}
	for name, tt := range map[string]struct {
		then func(d *door, from int)
		want int
	}{
		"engine start": {func(d *door, from int) {
			d.restart()
			d.write(sent{series: good("a", ""), at: at(from), n: 1e9 + 3})
		}, 3},
		"relabel": {func(d *door, from int) {
			d.write(sent{series: good("a", `,zone="x"`), at: at(from), n: 1e9 + 3},
				sent{series: good("a", ""), at: at(from), n: math.Float64frombits(value.StaleNaN)})
			d.write(sent{series: good("a", `,zone="x"`), at: at(from + 15), n: 1e9 + 4})
		}, 1},
		"relabel, of a slow counter": {func(d *door, from int) {
			d.write(sent{series: good("b", `,code="1"`), at: at(from), n: 5},
				sent{series: good("b", `,code="2"`), at: at(from), n: 7})
			d.write(sent{series: good("b", `,code="1"`), at: at(from + 15), n: 5},
				sent{series: good("b", `,code="3"`), at: at(from + 15), n: 7})
			d.write(sent{series: good("b", `,code="1"`), at: at(from + 30), n: 5},
				sent{series: good("b", `,code="3"`), at: at(from + 30), n: 8})
		}, 1},
		"target move": {func(d *door, from int) {
			d.write(sent{series: good("b", ""), at: at(from), n: 1e9 + 3})
			d.write(sent{series: good("b", ""), at: at(from + 15), n: 1e9 + 4})
		}, 1},
		"matcher change in the spec": {func(d *door, from int) {
			u := errors500
			u.Stream, u.Total = "main 77", `requests_total{job=~"web|api"}`
			d.units = []Unit{u}
			d.now = d.now.Add(time.Second)
			d.write(sent{series: good("a", ""), at: at(from), n: 1e9 + 3})
			d.write(sent{series: good("a", ""), at: at(from + 15), n: 1e9 + 4})
		}, 1},
		"matcher change in the Prometheus": {func(d *door, from int) {
			d.write(sent{series: good("a", ""), at: at(from), n: 1e9},
				sent{series: good("a", `,code="200"`), at: at(from), n: 1e9})
			d.write(sent{series: good("a", ""), at: at(from + 15), n: 1e9},
				sent{series: good("a", `,code="200"`), at: at(from + 15), n: 1e9 + 2})
		}, 2},
		"matcher change with start timestamps": {func(d *door, from int) {
			for i := range 2 {
				_, err := d.Write(d.t.Context(), bodyV2(d.t, sent{series: good("a", `,code="200"`), at: at(from + 15*i),
					n: 100 + float64(i), began: began.Add(-time.Hour)}), true, nil)
				require.NoError(d.t, err)
			}
		}, 1},
		"Prometheus restart": {func(d *door, from int) {
			d.write(sent{series: good("a", ""), at: at(from), n: math.Float64frombits(value.StaleNaN)})
			d.write(sent{series: good("a", ""), at: at(from + 300), n: 1e9 + 30})
		}, 30},
		"a target that begins again": {func(d *door, from int) {
			d.write(sent{series: good("a", ""), at: at(from), n: 2}, sent{series: good("a", `,code="500"`), at: at(from), n: 1})
			d.write(sent{series: good("a", ""), at: at(from + 15), n: 3},
				sent{series: good("a", `,code="500"`), at: at(from + 15), n: 1})
		}, 4},
		"a series that appears": {func(d *door, from int) {
			d.write(sent{series: good("a", `,code="500"`), at: at(from), n: 4})
			d.write(sent{series: good("a", ""), at: at(from), n: 1e9})
			d.write(sent{series: good("a", ""), at: at(from + 15), n: 1e9},
				sent{series: good("a", `,code="500"`), at: at(from + 15), n: 5})
		}, 5},
		"a pod that appears, with its start": {func(d *door, from int) {
			_, err := d.Write(d.t.Context(), bodyV2(d.t, sent{series: good("c", ""), at: at(from), n: 7, began: at(from - 20)}),
				true, nil)
			require.NoError(d.t, err)
		}, 7},
		"a start that is later without a fall": {func(d *door, from int) {
			for i, began := range []time.Time{at(from - 3000), at(from + 5)} {
				d.now = at(from + 15*i)
				_, err := d.Write(d.t.Context(),
					bodyV2(d.t, sent{series: good("a", ""), at: d.now, n: 1e9 + float64(i), began: began}), true, nil)
				require.NoError(d.t, err)
			}
		}, 1e9 + 1},
		"a series that appears beside idle ones": {func(d *door, from int) {
			d.write(sent{series: good("b", ""), at: at(from), n: 3})
			d.write(sent{series: good("b", ""), at: at(from + 15), n: 3})
			d.write(sent{series: good("b", `,code="500"`), at: at(from + 30), n: 4})
			d.write(sent{series: good("b", ""), at: at(from + 30), n: 3})
			d.write(sent{series: good("b", ""), at: at(from + 45), n: 3},
				sent{series: good("b", `,code="500"`), at: at(from + 45), n: 5})
		}, 5},
		"a late sample": {func(d *door, from int) {
			d.write(sent{series: good("a", ""), at: at(from), n: 1e9 + 6})
			d.write(sent{series: good("a", ""), at: at(from - 5), n: 1e9 + 5})
		}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDoor(t, nil, errors500)
			d.now = at(3000)
			for i := range 8 { // longer than the warm-up of a class
				d.write(sent{series: good("a", ""), at: at(15 * i), n: 1e9})
			}
			require.Empty(t, d.store.sums)
			d.now = at(120)
			tt.then(d, 120)
			require.Equal(t, tt.want, d.total(), "%v", d.store.sums)
		})
	}
}

// Two replicas of a Prometheus scrape at other instants, with clocks that are apart, and one of them fails a hundred
// times.
func TestFailovers(t *testing.T) {
	for offset := 0; offset <= 15; offset += 3 {
		for _, skew := range []time.Duration{-2 * time.Second, 0, 2 * time.Second} {
			ha := &HA{Cluster: "cluster", Replica: "__replica__"}
			d := newDoor(t, ha, errors500)
			random := rand.New(rand.NewPCG(uint64(offset), 7))
			truth, counts, startedAt := 0, map[string]float64{"200": 1e9, "500": 1e6}, 0
			down, failovers, elected := -1, 0, 0
			var last map[string]float64
			for s := 0; failovers < 100; s++ {
				now := at(s)
				for code := range counts {
					n := random.IntN(3)
					counts[code] += float64(n)
				}
				if s%200 == 199 { // the replica that is elected fails for a while
					down, elected, failovers = elected, 1-elected, failovers+1
				}
				if s%200 == 60 {
					down = -1
				}
				if s%777 == 776 { // the engine is killed
					d.now = now
					d.restart()
				}
				for replica := range 2 {
					if (s-replica*offset)%15 != 0 || replica == down {
						continue
					}
					clock := now
					if replica == 1 {
						clock = clock.Add(skew)
					}
					d.now = now
					var list []sent
					for code, n := range counts {
						list = append(list, sent{series: fmt.Sprintf(
							`requests_total{job="web",instance="a",route="/",code=%q,cluster="eu",__replica__="r%d"}`, code, replica),
							at: clock, n: n})
					}
					out, err := d.Write(t.Context(), bodyV1(t, list...), false, nil)
					require.NoError(t, err)
					require.Zero(t, out.Refused)
					if startedAt == 0 {
						startedAt, last = 1, maps.Clone(counts)
					}
				}
			}
			// Both replicas go on until what the elected one missed is read.
			for i := range 3 {
				d.now = d.now.Add(time.Minute)
				var list []sent
				for code, n := range counts {
					list = append(list, sent{series: fmt.Sprintf(
						`requests_total{job="web",instance="a",route="/",code=%q,cluster="eu",__replica__="r%d"}`, code, i%2),
						at: d.now, n: n})
				}
				_, err := d.Write(t.Context(), bodyV1(t, list...), false, nil)
				require.NoError(t, err)
			}
			for code, n := range counts {
				truth += int(n - last[code])
			}
			require.Equal(t, truth, d.total(), "%d s apart, clocks %s", offset, skew)
			require.GreaterOrEqual(t, strings.Count(d.log.String(), "another replica is elected"), 100)
		}
	}
}

// The replica that takes over lags, so that its first sample was scraped before the last one of the other, though its
// clock says that it was later.
func TestHandOverBack(t *testing.T) {
	d := newDoor(t, &HA{Cluster: "cluster", Replica: "__replica__"}, errors500)
	write := func(now, clock, replica int, n float64) {
		d.now = at(now)
		d.write(sent{series: fmt.Sprintf(`requests_total{job="web",instance="a",cluster="eu",__replica__="r%d"}`, replica),
			at: at(clock), n: n})
	}
	write(0, 0, 1, 1e9)
	write(10, 10, 2, 1e9+9)
	write(15, 15, 1, 1e9+10)
	d.restart()
	write(50, 16, 2, 1e9+9)
	require.Equal(t, 10, d.total())
	d.restart()
	write(51, 31, 2, 1e9+20)
	require.Equal(t, 20, d.total())
	write(66, 46, 2, 5) // it began again
	require.Equal(t, 25, d.total())
}

// What is read and what is written is the same.
func TestReadAndWritten(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	r := newRig(t, quick, errors500)
	d := newDoor(t, nil, errors500)
	sums := map[string]float64{}
	for i := range 200 {
		if i%40 == 39 {
			clear(sums) // it begins again
		}
		var list []sent
		for j := range 1 + min(i/20, 5) {
			series := fmt.Sprintf(`requests_total{job="web",instance="a",route="/%d",code="%d"}`, j%2, 200+300*(j%2))
			sums[series] += float64(random.IntN(50))
		}
		for series, n := range sums {
			r.prometheus.add(series, at(15*i), n)
			list = append(list, sent{series: series, at: at(15 * i), n: n})
		}
		r.round(t, 15*i+4)
		for len(list) > 0 { // in several requests
			n := 1 + random.IntN(len(list))
			d.write(list[:n]...)
			list = list[n:]
		}
	}
	require.Equal(t, r.store.sums, d.store.sums)
	require.Equal(t, r.store.times, d.store.times)
}

func TestReceiveRefuses(t *testing.T) {
	d := newDoor(t, nil, errors500)
	series := `requests_total{job="web",instance="a",route="/"}`
	d.write(sent{series: series, at: at(0), n: 1})
	out := d.write(sent{series: series, at: at(15), n: 2})
	require.Equal(t, Written{Samples: 1}, out)
	future, err := d.Write(t.Context(), bodyV1(t, sent{series: series, at: at(3600), n: 5},
		sent{series: series, at: at(16), n: 3}), false, nil)
	require.NoError(t, err)
	require.Equal(t, 1, future.Refused)
	require.Equal(t, 1, future.Samples)
	require.Contains(t, future.Reason, "requests_total")
	require.Contains(t, future.Reason, "in the future")
	require.Equal(t, 2, d.total(), "the good one is stored")

	twice, err := (&prompb.WriteRequest{
		Timeseries: []prompb.TimeSeries{{Labels: []prompb.Label{{Name: nameLabel, Value: "requests_total"},
			{Name: "job", Value: "web"}, {Name: "job", Value: "web"}},
			Samples: []prompb.Sample{{Value: 1, Timestamp: 1}}}}}).Marshal()
	require.NoError(t, err)
	bad, err := d.Write(t.Context(), twice, false, nil)
	require.NoError(t, err)
	require.Equal(t, 1, bad.Refused)
	require.Contains(t, bad.Reason, `series "requests_total": two labels "job"`)
	empty, err := d.Write(t.Context(), []byte("\x0a\x00"), false, nil)
	require.NoError(t, err)
	require.Equal(t, Written{Refused: 1, Reason: `series "": no label __name__`}, empty)

	none, err := d.Write(t.Context(), bodyV1(t, sent{series: series, at: at(17), n: 9}), false,
		func([]byte) bool { return false })
	require.NoError(t, err)
	require.Equal(t, Written{Samples: 1}, none)
	require.Equal(t, 2, d.total(), "the token may not write this service")
	var text strings.Builder
	d.set.WritePrometheus(&text)
	for _, line := range []string{`reason="forbidden"} 1`, `reason="invalid"} 3`, `reason="baseline"} 1`,
		`reason="known"} 2`} {
		require.Contains(t, text.String(), `sloengine_source_left_out_samples_total{source="main",`+line)
	}

	d.store.err = engine.ErrDiskFull
	_, err = d.Write(t.Context(), bodyV1(t, sent{series: series, at: at(20), n: 9}), false, nil)
	require.ErrorIs(t, err, engine.ErrDiskFull)
	require.Equal(t, source.TroubleEngine, d.o.Intake.Troubles()[0].Kind)
	d.store.err = nil
	d.write(sent{series: series, at: at(20), n: 9})
	require.Empty(t, d.o.Intake.Troubles())
	require.Equal(t, 8, d.total())
}

// A request that failed is sent again, whatever became of it.
func TestReceiveUnknownOutcome(t *testing.T) {
	two := errors500
	two.Total, two.Part = `requests_total{job="web"}`, `errors_total{job="web"}`
	for name, fail := range map[string]func(*store, error){
		"it is not stored":             func(s *store, err error) { s.err = err },
		"it is stored, without answer": func(s *store, err error) { s.lost = err },
		"it is stored and not read":    func(s *store, err error) { s.stalled = err },
	} {
		for _, unit := range []Unit{errors500, two} {
			d := newDoor(t, nil, unit)
			total, part := `requests_total{job="web",route="/"}`, `errors_total{job="web",route="/"}`
			scrape := func(i int, n float64) []sent {
				return []sent{{series: total, at: at(15 * i), n: n}, {series: part, at: at(15 * i), n: n / 2}}
			}
			d.write(scrape(0, 0)...)
			d.pass()
			d.write(scrape(3, 10)...)
			fail(d.store, context.DeadlineExceeded)
			_, err := d.Write(t.Context(), bodyV1(t, scrape(4, 30)...), false, nil)
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
			fail(d.store, nil)
			d.write(scrape(4, 30)...)
			d.write(scrape(5, 70)...)
			d.pass()
			require.Equal(t, 70, d.total(), name)
		}
	}
}

// Many senders write at a time, each sample once.
func TestReceiveTogether(t *testing.T) {
	d := newDoor(t, nil, errors500)
	var all sync.WaitGroup
	for sender := range 8 {
		all.Go(func() {
			for i := range 50 {
				_, err := d.Write(t.Context(),
					bodyV1(t, sent{series: fmt.Sprintf(`requests_total{job="web",instance="%d"}`, sender),
						at: at(i), n: float64(i)}), false, nil)
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	require.Equal(t, 8*49, d.total())
}

// A Receiver says what does not come, once.
func TestMissing(t *testing.T) {
	d := newDoor(t, nil, errors500)
	d.pass()
	d.missing(d.now)
	require.Empty(t, d.o.Intake.Troubles())
	d.now = d.now.Add(silence)
	d.missing(d.now)
	require.Equal(t, source.TroubleConnection, d.o.Intake.Troubles()[0].Kind)
	d.write(sent{series: `other{job="web"}`, at: d.now, n: 1})
	d.missing(d.now)
	require.Equal(t, source.TroubleTopic, d.o.Intake.Troubles()[0].Kind)
	d.write(sent{series: `requests_total{job="web"}`, at: d.now, n: 1})
	d.missing(d.now)
	require.Empty(t, d.o.Intake.Troubles())
	require.Equal(t, 2, strings.Count(d.log.String(), "source fails"), d.log.String())
}
