package oracle

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/internal/testkit/spectest"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/spec"
	examples "github.com/sloengine/sloengine/testdata/specs"
)

// healthyType is the healthy traffic of one type of event of a service: half of the budget of every SLO is in use.
type healthyType struct {
	service, name    string
	labels           map[string][]string // values of the attributes that SLOs are grouped by, or match on
	failing, refused float64             // share with a failure, and with one of severity business
	slow             float64             // share that takes longer than every threshold
	within, longest  time.Duration       // below every threshold, and above
	keyed            string              // attribute that identifies work; "" if it is none
	finished         string              // type that ends it
	numerator        string              // type that most of it becomes, as a ratio wants
	becomes          float64             // share of it that does
	derived          bool                // it follows from another type
}

// healthyTypes finds what an SLO counts, and what of it may be bad.
func healthyTypes(sp *spec.Spec, used float64) map[string]*healthyType {
	out := map[string]*healthyType{}
	of := func(s *slo.SLO, sel slo.Selector) *healthyType {
		name := "request"
		for _, m := range sel {
			if m.Name == "type" {
				name, _, _ = strings.Cut(m.Value, "|")
			}
		}
		key := s.ID.Service() + "/" + name
		h := out[key]
		if h == nil {
			h = &healthyType{service: s.ID.Service(), name: name, labels: map[string][]string{}, within: time.Hour}
			out[key] = h
		}
		add := func(label, value string) {
			if !slices.Contains(h.labels[label], value) {
				h.labels[label] = append(h.labels[label], value)
			}
		}
		for _, m := range sel {
			if (m.Op == slo.OpEqual || m.Op == slo.OpRegexp) && m.Name != "type" && m.Name != "outcome" {
				for _, v := range strings.Split(m.Value, "|") {
					add(m.Name, v)
				}
			}
		}
		for i, label := range s.GroupBy {
			for _, g := range s.Expect {
				add(label, g[i])
			}
			if len(h.labels[label]) == 0 {
				h.labels[label] = []string{"a", "b"}
			}
		}
		return h
	}
	least := func(p *float64, share float64) {
		if *p == 0 || share < *p {
			*p = share
		}
	}
	for _, s := range sp.SLOs {
		share := used * s.Objective.Budget()
		in := &s.Indicator
		switch in.Kind {
		case slo.KindPrometheus:
		case slo.KindEvents:
			h := of(s, in.Valid)
			if slices.ContainsFunc(in.Bad, func(m slo.Matcher) bool { return m.Name == "severity" && m.Op == slo.OpEqual }) {
				least(&h.refused, share)
			} else {
				least(&h.failing, share)
			}
		case slo.KindLatency, slo.KindApdex:
			h := of(s, in.Valid)
			least(&h.slow, share)
			h.within = min(h.within, max(in.Threshold, in.Satisfied)/2)
			h.longest = max(h.longest, 2*max(in.Threshold, in.Tolerating))
		case slo.KindRatio:
			h, n := of(s, in.Valid), of(s, in.Numerator)
			n.derived, h.numerator, h.becomes = true, n.name, 1-share
		case slo.KindCompletion:
			h, f := of(s, in.Completion.Started), of(s, in.Completion.Finished)
			f.derived, h.keyed, h.finished, h.failing = true, in.Completion.Key, f.name, share
		default: // throughput and volume are about how much comes
			of(s, in.Valid)
		}
	}
	return out
}

// combinations are the values that events of a type have together.
func (h *healthyType) combinations() []event.Event {
	out := []event.Event{{Service: h.service, Type: h.name}}
	for _, label := range slices.Sorted(maps.Keys(h.labels)) {
		var next []event.Event
		for _, x := range out {
			for _, v := range h.labels[label] {
				y := x
				y.Attributes = slices.Clone(x.Attributes)
				y.Set(label, v)
				next = append(next, y)
			}
		}
		out = next
	}
	return out
}

// healthyWeek plays traffic through the evaluator and the alert states, and returns which pages fired. With once,
// the first event of each type after it fails, and no other.
func healthyWeek(t *testing.T, sp *spec.Spec, used, perHour float64, length, once time.Duration) (pages []string) {
	types := healthyTypes(sp, used)
	for _, s := range sp.SLOs {
		if s.Indicator.Kind == slo.KindThroughput || s.Indicator.Kind == slo.KindVolume {
			s.Alerting.Page.Disabled = true // so little traffic is no healthy one for them
		}
	}
	e := newOracleEngine(t, sp, oracleStart)
	machine, err := state.New(state.Options{Alerts: alerts.Options{NoEngine: true}, Grace: time.Hour})
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(uint64(perHour), 24))
	var payload []byte
	n, key, evaluated, bad := 0, 0, time.Duration(0), false
	failed := map[string]bool{}
	add := func(x event.Event, count int, took time.Duration) {
		if count == 0 {
			return
		}
		x.Count = uint32(count)
		if took > 0 {
			x.Durations = []event.DurationCount{{Duration: took, Count: x.Count}}
		}
		payload = event.AppendBinary(payload, &x)
		n++
	}
	traffic := func(h *healthyType, x event.Event, mean float64, fails bool) {
		good, failing, refused, slow := poissonOf(r, mean), 0, 0, 0
		switch {
		case once == 0:
			failing, refused, slow = poissonOf(r, mean*h.failing), poissonOf(r, mean*h.refused), poissonOf(r, mean*h.slow)
		case fails && good > 0 && !failed[h.name]:
			failed[h.name], failing, good = true, 1, good-1
		}
		bad = bad || failing+refused+slow > 0
		if h.keyed != "" {
			for i := range good + failing {
				key++
				x.Set(h.keyed, fmt.Sprint(key))
				add(x, 1, 0)
				if x.Type = h.finished; i < good { // else it never ends
					add(x, 1, 0)
				}
				x.Type = h.name
			}
			return
		}
		add(x, good, h.within)
		add(x, slow, h.longest)
		if h.numerator != "" {
			y := x
			y.Type = h.numerator
			add(y, int(float64(good)*h.becomes+r.Float64()), 0)
		}
		x.Outcome = event.Failure
		add(x, failing, h.within)
		x.Severity = "business"
		add(x, refused, h.within)
	}
	const step = 5 * time.Minute
	for now := step; now <= length; now += step {
		payload, n = payload[:0], 0
		at := oracleStart.Add(now - step/2)
		for _, name := range slices.Sorted(maps.Keys(types)) {
			h := types[name]
			if h.derived {
				continue
			}
			most := perHour
			if h.keyed != "" {
				most = min(most, 100) // each piece of work is an event
			}
			all := h.combinations()
			for _, x := range all {
				x.Time = at
				traffic(h, x, most*step.Hours()/float64(len(all)), now >= once)
			}
		}
		if n > 0 {
			e.apply(record.TypeEvents, at, append(append(binary.AppendUvarint(nil, uint64(n)), 0), payload...))
		}
		for beat := now - step + 30*time.Second; beat <= now; beat += 30 * time.Second { // up without a gap
			e.apply(record.TypeHeartbeat, oracleStart.Add(beat-time.Nanosecond), []byte{byte(record.BeatTick)})
		}
		if since := now - evaluated; !bad && since < 30*time.Minute {
			continue // only a bad event can make a page begin
		}
		evaluated, bad = now, false
		_, report := e.take(nil, -1, now)
		for _, tr := range machine.Step(report) {
			if tr.To == state.Firing && tr.Alert.Urgent {
				pages = append(pages, fmt.Sprintf("%s %v after %v", alertKey(tr.Alert.Label), tr.Alert.Group, now))
			}
		}
	}
	require.Equal(t, once > 0, len(failed) > 0)
	return pages
}

func poissonOf(r *rand.Rand, mean float64) (n int) {
	if mean > 30 {
		return int(max(0, mean+r.NormFloat64()*math.Sqrt(mean)+0.5))
	}
	for left := mean; ; n++ {
		if left -= r.ExpFloat64(); left < 0 {
			return n
		}
	}
}

// TestHealthyTrafficNeverPages plays a week of traffic that uses half of each budget through every example spec, the
// two of the demo together, and the starter.
func TestHealthyTrafficNeverPages(t *testing.T) {
	t.Parallel()
	specs := map[string][]spec.File{"starter": {{Name: "starter.yaml", Data: spec.Starter("shop")}}}
	for _, name := range []string{"minimal", "fulfilment", "conversion", "capacity", "sloengine", "insurance"} {
		file := filepath.Join("..", "..", "testdata", "specs", name+".yaml")
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		specs[name] = []spec.File{{Name: file, Data: data}}
	}
	specs["insurance"] = append(specs["insurance"], spec.File{Name: "insurance-sales.yaml", Data: examples.InsuranceSales})
	rates := []float64{5, 100, 10_000}
	if testing.Short() {
		rates = rates[1:2]
	}
	for name, files := range specs {
		for _, perHour := range rates {
			t.Run(fmt.Sprintf("%s/%v per hour", name, perHour), func(t *testing.T) {
				t.Parallel()
				sp, problems := spec.Load(files)
				require.NoError(t, problems.Err())
				length := 7 * 24 * time.Hour
				if perHour > 1000 {
					length = 3 * 24 * time.Hour
				}
				require.Empty(t, healthyWeek(t, sp, 0.5, perHour, length, 0))
			})
		}
	}
}

// The same traffic pages when it uses thirty times the budget.
func TestUnhealthyTrafficPages(t *testing.T) {
	t.Parallel()
	sp := spectest.Spec(t, "starter.yaml", string(spec.Starter("shop")))
	require.NotEmpty(t, healthyWeek(t, sp, 30, 100, 24*time.Hour, 0))
}

// TestStarterBearsOneFailure: among 30 requests a day, and at other rates, a single failure is no reason to call
// anybody.
func TestStarterBearsOneFailure(t *testing.T) {
	t.Parallel()
	for _, perHour := range []float64{1.25, 5, 100, 4320 / 24} {
		sp := spectest.Spec(t, "starter.yaml", string(spec.Starter("shop")))
		require.Empty(t, healthyWeek(t, sp, 0.5, perHour, 36*time.Hour, 26*time.Hour), "%v per hour", perHour)
	}
}
