package spec

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

func TestExamplesRoundTrip(t *testing.T) {
	names, err := filepath.Glob(specs + "*.yaml")
	require.NoError(t, err)
	for _, n := range names {
		t.Run(filepath.Base(n), func(t *testing.T) {
			s, ps, err := LoadPaths([]string{n}, nil)
			require.NoError(t, err)
			require.Empty(t, ps.Errors().String())
			requireRoundTrip(t, s)
		})
	}
}

// All formats can be loaded together, and written as one file.
func TestFormatsTogether(t *testing.T) {
	paths, err := filepath.Glob(specs + "*.yaml")
	require.NoError(t, err)
	s, ps, err := LoadPaths(paths, nil)
	require.NoError(t, err)
	require.Empty(t, ps.Errors().String())
	kinds := map[string]bool{}
	for _, src := range s.Sources {
		kinds[filepath.Base(src.File)] = true
	}
	require.GreaterOrEqual(t, len(kinds), 7)
	requireRoundTrip(t, s)
}

// Whatever can be said in a spec is read again as it was.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { requireRoundTrip(t, drawSpec(t)) })
}

var (
	nameGen  = rapid.StringMatching(`[a-z][a-z0-9._-]{0,10}`)
	labelGen = rapid.StringMatching(`[a-km-rt-z_]x[a-z0-9_]{0,6}`)
	textGen  = rapid.StringOfN(rapid.RuneFrom([]rune("abc 12:#'\"\\-{}[],&*!|>%@\n\té…\u2028\ufeff😀~=.")), 1, 20, -1)
	words    = rapid.OneOf(
		textGen, rapid.SampledFrom([]string{"yes", "null", "1e3", "two words", "a\nb", "it's", " ", "on-call"}))
)

func drawSpec(t *rapid.T) *Spec {
	var out *Spec
	var docs yamlMapList
	for _, service := range rapid.SliceOfNDistinct(nameGen, 1, 2, rapid.ID[string]).Draw(t, "services") {
		docs = append(docs, drawService(t, service))
	}
	s := &Spec{}
	for _, d := range docs {
		s.Services = append(s.Services, d.service)
		s.SLOs = append(s.SLOs, d.slos...)
		s.Thresholds = append(s.Thresholds, d.thresholds...)
		s.Agreements = append(s.Agreements, d.slas...)
		s.Baselines = append(s.Baselines, d.baselines...)
	}
	// What the generator builds need not be in the order that reading gives.
	out, ps := Load([]File{{Name: "drawn.yaml", Data: Encode(s)}})
	require.Empty(t, ps.Errors().String(), "%s", Encode(s))
	require.Len(t, out.SLOs, len(s.SLOs))
	require.ElementsMatch(t, s.Baselines, out.Baselines)
	for _, o := range s.SLOs {
		for _, p := range out.SLOs {
			if o.ID == p.ID {
				a, b := *o, *p
				if a.Window.Location != nil {
					require.Equal(t, a.Window.String(), b.Window.String())
				}
				a.Window, b.Window, a.Corrections, b.Corrections, a.Labels, b.Labels = slo.Window{},
					slo.Window{}, nil, nil, nil, nil
				require.Equal(t, a, b, "%s", Encode(s))
				for k, v := range o.Labels {
					require.Equal(t, v, p.Labels[k])
				}
			}
		}
	}
	return out
}

type yamlMapList []drawn

type drawn struct {
	service    Service
	slos       []*slo.SLO
	thresholds []*slo.Threshold
	slas       []*sla.Agreement
	baselines  []*slo.Baseline
}

func drawService(t *rapid.T, name string) drawn {
	d := drawn{service: Service{Name: name, Dimensions: DefaultDimensions}}
	if rapid.Bool().Draw(t, "bounds") {
		d.service.Buckets = []time.Duration{}
		for i := range rapid.IntRange(0, 3).Draw(t, "bounds number") {
			d.service.Buckets = append(d.service.Buckets, time.Duration(i+1)*7*time.Millisecond)
		}
	} else {
		d.service.Buckets = DefaultBuckets
	}
	if rapid.Bool().Draw(t, "described") {
		d.service.Description = words.Draw(t, "description")
	}
	d.service.Labels = drawTexts(t, "labels")
	var fixes []slo.Correction
	for i, n := range rapid.SliceOfNDistinct(words, 0, 2, rapid.ID[string]).Draw(t, "corrections") {
		zone, err := time.LoadLocation(
			rapid.SampledFrom([]string{"UTC", "Europe/Moscow", "America/New_York"}).Draw(t, "zone"))
		require.NoError(t, err)
		fixes = append(fixes, slo.Correction{
			Name: n, Author: words.Draw(t, "author"), Reason: words.Draw(t, "reason"),
			Start:    time.Unix(1.8e9+int64(i)*86400, 0).In(zone),
			Duration: time.Duration(rapid.IntRange(1, 1e6).Draw(t, "length")) * time.Second,
		})
	}
	for _, n := range rapid.SliceOfNDistinct(nameGen, 1, 4, rapid.ID[string]).Draw(t, "slos") {
		o := drawSLO(t, slo.NewID(name, n))
		o.Corrections = fixes
		d.slos = append(d.slos, o)
	}
	for _, n := range rapid.SliceOfNDistinct(nameGen, 0, 2, rapid.ID[string]).Draw(t, "limits") {
		l := &slo.Threshold{Service: name, Name: n, Match: drawSelector(t),
			Warning: time.Duration(rapid.IntRange(1, 1e9).Draw(t, "warning")) * time.Millisecond}
		if rapid.Bool().Draw(t, "grouped") {
			l.GroupBy, l.MaxGroups = []string{"mx", "nx"}, rapid.SampledFrom([]int{DefaultMaxGroups, 7}).Draw(t, "most")
		}
		d.thresholds = append(d.thresholds, l)
	}
	for _, n := range rapid.SliceOfNDistinct(nameGen, 0, 2, rapid.ID[string]).Draw(t, "baselines") {
		b := &slo.Baseline{Service: name, Name: n, Goal: rapid.SampledFrom([]float64{slo.DefaultGoal, 0.25}).Draw(t, "goal")}
		b.Detection = slo.Before{From: time.Minute, To: time.Duration(rapid.IntRange(60, 1e5).Draw(t, "to")) * time.Second}
		if rapid.Bool().Draw(t, "response") {
			b.Response = slo.Before{From: time.Hour, To: 2 * time.Hour, Target: 30 * time.Minute}
		}
		if rapid.Bool().Draw(t, "narrow") {
			b.SLOs = []string{d.slos[0].ID.Name()}
		}
		d.baselines = append(d.baselines, b)
	}
	for _, n := range rapid.SliceOfNDistinct(nameGen, 0, 2, rapid.ID[string]).Draw(t, "slas") {
		a := &sla.Agreement{
			Service: name, Name: n, Description: words.Draw(t, "description"), Window: drawWindow(t),
			Method: rapid.SampledFrom([]sla.Method{sla.Attainment, sla.Ratio}).Draw(t, "method"),
			NoData: rapid.SampledFrom([]sla.NoData{sla.NoDataBad, sla.NoDataExclude, sla.NoDataGood}).Draw(t, "no data"),
		}
		onSeries := d.slos[0].Indicator.Kind == slo.KindPrometheus
		for _, o := range d.slos {
			if (o.Indicator.Kind == slo.KindPrometheus) == onSeries {
				a.Components = append(a.Components,
					sla.Component{Name: "c." + o.ID.Name(), SLO: o.ID, Weight: rapid.Float64Range(0.001, 1000).Draw(t, "weight")})
				a.Components[len(a.Components)-1].Weight = float64(int(a.Components[len(a.Components)-1].Weight*1000)) / 1000
			}
		}
		if rapid.Bool().Draw(t, "alerts") {
			a.Warning, a.Critical, a.AlertWindow = 95.5, 90.25, 10*time.Minute
			a.SeedSeverities = rapid.Bool().Draw(t, "severities")
			for _, c := range rapid.SliceOfDistinct(rapid.SampledFrom(sla.CatalogueNames()),
				rapid.ID[string]).Draw(t, "catalogue") {
				x := sla.CatalogueAlert{Name: c}
				if rapid.Bool().Draw(t, "narrow") {
					x.SLOs = []slo.ID{d.slos[0].ID}
				}
				a.Catalogue = append(a.Catalogue, x)
			}
		}
		d.slas = append(d.slas, a)
	}
	return d
}

func drawSLO(t *rapid.T, id slo.ID) *slo.SLO {
	o := &slo.SLO{ID: id, Labels: drawTexts(t, "labels"), Window: drawWindow(t),
		Budgeting: slo.Budgeting{Method: slo.Occurrences}}
	if rapid.Bool().Draw(t, "described") {
		o.Description = words.Draw(t, "description")
	}
	var err error
	o.Objective, err = slo.ParsePercent(rapid.StringMatching(`[5-9][0-9](\.[0-9]{0,11}[1-9])?`).Draw(t, "objective"))
	require.NoError(t, err)
	in := &o.Indicator
	in.Kind = rapid.SampledFrom([]slo.IndicatorKind{slo.KindEvents, slo.KindLatency, slo.KindThroughput, slo.KindRatio,
		slo.KindApdex, slo.KindVolume, slo.KindPrometheus}).Draw(t, "kind")
	switch in.Kind {
	case slo.KindEvents:
		in.Valid, in.Bad = drawSelector(t), drawSelector(t)
	case slo.KindLatency:
		in.Valid, in.Threshold = drawSelector(t), time.Duration(rapid.IntRange(1, 1e9).Draw(t, "threshold"))*time.Millisecond
	case slo.KindThroughput:
		in.Valid, in.AtLeast, in.Per = drawSelector(t), uint64(rapid.Uint32Range(1, 1<<31).Draw(t, "at least")), time.Minute
		if rapid.Bool().Draw(t, "hours") {
			in.During, err = slo.ParseSchedule("Mon-Fri 09:00-18:00 Europe/Moscow")
			require.NoError(t, err)
		}
		if rapid.Bool().Draw(t, "capacity") {
			in.Capacity = slo.Capacity{Events: uint64(rapid.Uint32Range(1, 1<<32-1).Draw(t, "events")),
				Per: time.Duration(rapid.IntRange(1, 86400).Draw(t, "seconds")) * time.Second}
		}
	case slo.KindRatio:
		in.Valid, in.Numerator = drawSelector(t),
			append(drawSelector(t), slo.Matcher{Name: "type", Op: slo.OpEqual, Value: "connected"})
	case slo.KindApdex:
		in.Valid, in.Satisfied = drawSelector(t), time.Duration(rapid.IntRange(1, 1e9).Draw(t, "satisfied"))*time.Millisecond
		in.Tolerating = in.Satisfied + time.Duration(rapid.IntRange(1, 1e9).Draw(t, "tolerating"))*time.Millisecond
	case slo.KindVolume:
		in.Valid, in.AtLeast = drawSelector(t), uint64(rapid.Uint32Range(1, 1<<31).Draw(t, "at least"))
		in.Calendar, in.Location = slo.Day, time.UTC
		if rapid.Bool().Draw(t, "hours") {
			in.During, err = slo.ParseSchedule("Mon-Fri 09:00-18:00 Europe/Moscow")
			require.NoError(t, err)
			in.Location = in.During.Location()
		} else {
			in.Calendar = slo.CalendarUnit(rapid.SampledFrom(volumeUnits).Draw(t, "unit"))
		}
		o.Window = slo.Window{Calendar: slo.Quarter, Location: time.UTC}
	case slo.KindPrometheus:
		drawPrometheus(t, in)
	}
	if _, only := occurrencesOnly[in.Kind]; !only && rapid.Bool().Draw(t, "sliced") {
		o.Budgeting = slo.Budgeting{Method: slo.RatioTimeslices, Slice: time.Minute}
		if rapid.Bool().Draw(t, "judged") {
			o.Budgeting = slo.Budgeting{Method: slo.Timeslices, Slice: 30 * time.Second, Target: o.Objective}
		}
	}
	if in.Kind != slo.KindPrometheus {
		o.GroupBy = rapid.SliceOfNDistinct(labelGen, 0, 2, rapid.ID[string]).Draw(t, "group by")
	}
	if len(o.GroupBy) > 0 {
		o.MaxGroups = rapid.SampledFrom([]int{3, DefaultMaxGroups}).Draw(t, "max groups")
		for _, v := range rapid.SliceOfNDistinct(words, 0, 3, rapid.ID[string]).Draw(t, "expect") {
			g := slo.Group{v, "x"}
			o.Expect = append(o.Expect, g[:len(o.GroupBy)])
		}
	} else {
		o.GroupBy = nil
	}
	o.Alerting = drawAlerting(t)
	if in.Kind != slo.KindPrometheus && in.Kind != slo.KindVolume && rapid.Bool().Draw(t, "exhausted soon") {
		o.Alerting.Soon = drawSoon(t)
		o.Alerting.Left = drawLeft(t)
	}
	for _, x := range []*slo.AlertSettings{&o.Alerting.Page, &o.Alerting.Ticket, &o.Alerting.NoData,
		&o.Alerting.Soon.AlertSettings} {
		for _, l := range o.GroupBy {
			if delete(x.Labels, l); len(x.Labels) == 0 {
				x.Labels = nil // alerts of two groups would be one
			}
		}
	}
	// The default is not written, and reads as 0.
	if x := &o.Alerting.NoData; x.For == 10*time.Minute {
		x.For = 0
	}
	if x := &o.Alerting.Soon; x.For == 5*time.Minute {
		x.For = 0
	}
	for _, unit := range []slo.CostUnit{slo.PerBad, slo.PerMinute} {
		if o.HasCostUnit(unit) && rapid.Bool().Draw(t, "cost") {
			o.Cost = drawCost(t, unit)
		}
	}
	return o
}

func drawCost(t *rapid.T, unit slo.CostUnit) *slo.Cost {
	draw := func() slo.Amount {
		a, err := slo.ParseAmount(rapid.StringMatching(`[1-9][0-9]{0,11}(\.[0-9]{1,6})?`).Draw(t, "amount"))
		require.NoError(t, err)
		return a
	}
	c := &slo.Cost{Unit: unit, Price: draw(), Currency: rapid.SampledFrom([]string{"EUR", "JPY"}).Draw(t, "currency")}
	if rapid.Bool().Draw(t, "baseline") {
		c.Baseline = slo.Payment{Amount: draw(), Per: 30 * day}
		if rapid.Bool().Draw(t, "investment") {
			c.Investment = slo.Payment{Amount: draw(), Per: time.Hour}
		}
	}
	return c
}

func drawPrometheus(t *rapid.T, in *slo.Indicator) {
	switch rapid.IntRange(0, 4).Draw(t, "form") {
	case 0:
		in.PromBad, in.PromTotal = `a_total{code=~"5.."}`, "a_total"
	case 1:
		in.PromGood, in.PromTotal = `a_bucket{le="0.4"}`, "a_count"
	case 2:
		in.PromGoodQuery, in.PromTotalQuery = "max(a[$window:])\n  or vector(0)", "max_over_time(max(b)[$window:])"
		in.PromGoodQuery = strings.Replace(in.PromGoodQuery, "max(a[$window:])", "max_over_time(max(a)[$window:])", 1)
	case 3:
		in.PromErrorRatioQuery = rapid.SampledFrom(
			[]string{"1 - avg(avg_over_time(up[$window]))", "(\n  max(x:ratio$window)\n\n)"}).Draw(t, "ratio")
	case 4:
		in.PromQuery = `sum(lag{topic="it's"})`
		in.PromOp = rapid.SampledFrom([]slo.Comparison{slo.Less, slo.NotAbove, slo.Greater, slo.NotBelow}).Draw(t, "op")
		in.PromValue = rapid.Float64Range(-1e9, 1e9).Draw(t, "value") + 0
	}
}

func drawAlerting(t *rapid.T) slo.Alerting {
	var a slo.Alerting
	if rapid.Bool().Draw(t, "usual alerts") {
		return a
	}
	a.Name = "Checkout errors"
	a.MinEvents = rapid.Uint64Range(0, 1000).Draw(t, "min events")
	a.FalsePages = rapid.SampledFrom([]float64{0, 0.001, 0.5, 12, 365}).Draw(t, "false pages")
	for i := range rapid.IntRange(0, 3).Draw(t, "tiers") {
		a.Tiers = append(a.Tiers, slo.Tier{
			Page: rapid.Bool().Draw(t, "page"), Long: time.Duration(i+1) * time.Hour, Short: 5 * time.Minute,
			Share: rapid.Float64Range(1e-9, 9).Draw(t, "share"),
		})
	}
	for _, s := range []*slo.AlertSettings{&a.Page, &a.Ticket, &a.NoData} {
		s.Disabled = rapid.Bool().Draw(t, "disabled")
		s.For = time.Duration(rapid.IntRange(0, 3600).Draw(t, "for")) * time.Second
		s.Labels, s.Annotations = drawTexts(t, "labels"), drawTexts(t, "annotations")
	}
	return a
}

func drawLeft(t *rapid.T) (out []slo.LeftAlert) {
	for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(1, 999), 0, 4, rapid.ID).Draw(t, "budget_left") {
		out = append(out, slo.LeftAlert{Share: float64(n) / 1000, Page: rapid.Bool().Draw(t, "page")})
	}
	return out
}

func drawSoon(t *rapid.T) slo.SoonAlert {
	probability, err := slo.ParsePercent(rapid.StringMatching(`[1-9][0-9](\.[0-9]{0,3}[1-9])?`).Draw(t, "probability"))
	require.NoError(t, err)
	return slo.SoonAlert{
		Within: time.Duration(rapid.IntRange(1, 7*24).Draw(t, "within")) * time.Hour, Probability: probability.Ratio(),
		AlertSettings: slo.AlertSettings{For: time.Duration(rapid.IntRange(0, 3600).Draw(t, "for")) * time.Second,
			Labels: drawTexts(t, "labels"), Annotations: drawTexts(t, "annotations")},
	}
}

func drawWindow(t *rapid.T) slo.Window {
	if rapid.Bool().Draw(t, "rolling") {
		return slo.Window{Rolling: time.Duration(rapid.IntRange(24, 366*24).Draw(t, "hours")) * time.Hour}
	}
	zone, err := time.LoadLocation(rapid.SampledFrom([]string{"UTC", "Europe/Moscow"}).Draw(t, "zone"))
	require.NoError(t, err)
	return slo.Window{Calendar: rapid.SampledFrom(
		[]slo.CalendarUnit{slo.Day, slo.Week, slo.Month, slo.Quarter, slo.Year}).Draw(t, "unit"), Location: zone}
}

func drawSelector(t *rapid.T) slo.Selector {
	var out slo.Selector
	for _, n := range rapid.SliceOfNDistinct(labelGen, 1, 3, rapid.ID[string]).Draw(t, "matchers") {
		op := rapid.SampledFrom([]slo.MatchOp{slo.OpEqual, slo.OpNotEqual, slo.OpRegexp, slo.OpNotRegexp}).Draw(t, "op")
		v := textGen.Draw(t, "value")
		if op == slo.OpRegexp || op == slo.OpNotRegexp {
			v = "a|b.*"
		}
		m, err := slo.NewMatcher(n, op, v)
		require.NoError(t, err)
		out = append(out, m)
	}
	return out
}

func drawTexts(t *rapid.T, what string) map[string]string {
	m := rapid.MapOfN(labelGen, words, 0, 2).Draw(t, what)
	if len(m) == 0 {
		return nil
	}
	return m
}
