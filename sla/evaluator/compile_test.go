package evaluator

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

const day = 24 * time.Hour

// process is a spec with one of everything.
func process(t tb) Inputs {
	hours, err := slo.ParseSchedule("Mon-Fri 09:00-18:00 Europe/Moscow")
	require.NoError(t, err)
	moscow, err := time.LoadLocation("Europe/Moscow")
	require.NoError(t, err)
	rolling := slo.Window{Rolling: 30 * day}
	applications := sel(t, "type", "application")
	return Inputs{
		SLOs: []*slo.SLO{
			{
				ID: "unpaid/availability", Was: "unpaid/uptime", Objective: percent(t, "99.9"), Window: rolling,
				GroupBy:   []string{"product"},
				Indicator: slo.Indicator{Kind: slo.KindEvents, Valid: applications, Bad: sel(t, "outcome", "failure")},
				MaxGroups: 10,
				Expect:    []slo.Group{{"MEDCARE"}},
			},
			{
				ID: "unpaid/latency", Was: "unpaid/speed", Objective: percent(t, "95"),
				Window: slo.Window{Calendar: slo.Month, Location: moscow}, GroupBy: []string{"product"},
				Indicator: slo.Indicator{Kind: slo.KindLatency, Valid: applications, Threshold: 15 * time.Minute},
			},
			{
				ID: "unpaid/throughput", Objective: percent(t, "99"), Window: slo.Window{Rolling: 7 * day},
				GroupBy: []string{"product"},
				Indicator: slo.Indicator{Kind: slo.KindThroughput, Valid: applications, AtLeast: 100,
					Per: time.Minute, During: hours},
			},
			{
				ID: "unpaid/minutes", Objective: percent(t, "99"), Window: slo.Window{Rolling: day},
				Budgeting: slo.Budgeting{Method: slo.Timeslices, Slice: time.Minute, Target: percent(t, "95")},
				Indicator: slo.Indicator{Kind: slo.KindLatency, Valid: applications, Threshold: 30 * time.Second},
			},
			{
				ID: "unpaid/api", Objective: percent(t, "99.5"), Window: rolling,
				Indicator: slo.Indicator{Kind: slo.KindPrometheus, PromBad: "bad", PromTotal: "total"},
			},
		},
		Thresholds: []*slo.Threshold{
			{Service: "unpaid", Name: "processing", Match: applications, Warning: 15 * time.Minute, Critical: 30 * time.Minute},
			{Service: "unpaid", Name: "createApplication", Match: sel(t, "task", "createApplication"), Warning: time.Minute},
			{Service: "unpaid", Name: "lost", Match: sel(t, "type", "lost"), Each: "critical"},
			{Service: "unpaid", Name: "anything", Each: "warning"},
		},
		Agreements: []*sla.Agreement{{
			Service: "unpaid", Name: "unpaid", GroupBy: []string{"product"}, Method: sla.Bands, NoData: sla.NoDataExclude,
			Window: slo.Window{Rolling: 60 * day}, Warning: 95, Critical: 90,
			Components: []sla.Component{
				{Name: "availability", SLO: "unpaid/availability", Weight: 40},
				{Name: "latency", SLO: "unpaid/latency", Weight: 30, Bands: []sla.Band{
					{Quantile: .95, Threshold: 5 * time.Minute, Score: 100},
					{Quantile: .95, Threshold: 15 * time.Minute, Score: 80},
					{Quantile: .95, Threshold: 30 * time.Minute, Score: 50},
					{Score: 20},
				}},
				{Name: "throughput", SLO: "unpaid/throughput", Weight: 20},
			},
		}},
		Services: []fold.Service{
			{Name: "unpaid", Types: []string{"application", "task"}, Dimensions: []string{"error_type"}}, {Name: "idle"}},
		Warnings: []string{"weights were normalised"},
	}
}

func TestCompile(t *testing.T) {
	in := process(t)
	cfg, err := Compile(in)
	require.NoError(t, err)
	require.Equal(t, fold.ConfigVersion, cfg.Version)

	byID := map[string]fold.Indicator{}
	var ids []string
	for _, ind := range cfg.Indicators {
		ids = append(ids, ind.ID)
		byID[ind.ID] = ind
		require.Equal(t, "unpaid", ind.Service)
	}
	require.Equal(t, []string{
		"unpaid/availability",
		"unpaid/latency", "unpaid/latency#bands:unpaid",
		"unpaid/limit:anything", "unpaid/limit:createApplication", "unpaid/limit:lost", "unpaid/limit:processing",
		"unpaid/minutes", "unpaid/minutes#events",
		"unpaid/throughput", "unpaid/throughput#events",
	}, ids)

	app := fold.Matcher{Name: "type", Op: slo.OpEqual, Value: "application"}
	require.Equal(t, fold.Indicator{
		ID: "unpaid/availability", Was: "unpaid/uptime", Service: "unpaid", Kind: fold.Events,
		Valid: []fold.Matcher{app}, Bad: []fold.Matcher{{Name: "outcome", Op: slo.OpEqual, Value: "failure"}},
		GroupBy: []string{"product"}, MaxGroups: 10, Expect: [][]string{{"MEDCARE"}}, Retention: 60*day + 10*time.Minute,
	}, byID["unpaid/availability"])

	bands := byID["unpaid/latency#bands:unpaid"]
	require.Equal(t, "unpaid/speed#bands:unpaid", bands.Was)
	require.Equal(t, []time.Duration{5 * time.Minute, 15 * time.Minute, 30 * time.Minute}, bands.Edges)
	require.Equal(t, fold.Latency, bands.Kind)
	require.Equal(t, []string{"product"}, bands.GroupBy)

	require.Equal(t, &fold.Slice{Per: time.Minute, AtLeast: 100, During: "Mon-Fri 09:00-18:00 Europe/Moscow"},
		byID["unpaid/throughput"].Slice)
	require.Nil(t, byID["unpaid/throughput#events"].Slice)
	require.Equal(t, 7*day+10*time.Minute, byID["unpaid/throughput#events"].Retention)
	require.Equal(t, &fold.Slice{Per: time.Minute, Target: 0.95}, byID["unpaid/minutes"].Slice)
	require.Equal(t, 3*day+10*time.Minute, byID["unpaid/minutes"].Retention, "burn rates look back three days")

	require.Equal(t, []time.Duration{15 * time.Minute, 30 * time.Minute}, byID["unpaid/limit:processing"].Edges)
	require.Equal(t, []time.Duration{time.Minute}, byID["unpaid/limit:createApplication"].Edges)
	service := fold.Matcher{Name: "service", Op: slo.OpEqual, Value: "unpaid"}
	lost := fold.Matcher{Name: "type", Op: slo.OpEqual, Value: "lost"}
	require.Equal(t, []fold.Matcher{lost, service}, byID["unpaid/limit:lost"].Bad)
	require.Equal(t, []fold.Matcher{service}, byID["unpaid/limit:anything"].Bad)

	require.Equal(t, []fold.Service{
		{Name: "idle"},
		{
			Name: "unpaid", Types: []string{"application", "task"}, Dimensions: []string{"error_type"},
			Buckets: []time.Duration{30 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute},
		},
	}, cfg.Services)
}

// An SLO on counters that a source reads is counted by events of its own, which no other indicator takes.
func TestCompileCountersOfASource(t *testing.T) {
	in := process(t)
	api := in.SLOs[slices.IndexFunc(in.SLOs, func(s *slo.SLO) bool { return s.ID == "unpaid/api" })]
	api.Indicator.PromSource, api.GroupBy = "main", []string{"route", "type"}
	cfg, err := Compile(in)
	require.NoError(t, err)
	i := slices.IndexFunc(cfg.Indicators, func(ind fold.Indicator) bool { return ind.ID == "unpaid/api" })
	require.GreaterOrEqual(t, i, 0)
	ind := cfg.Indicators[i]
	require.Equal(t, "unpaid~prometheus", ind.Service)
	require.Equal(t, api.PromStream(), ind.Source)
	require.Equal(t, []string{"route", "label_type"}, ind.GroupBy)
	require.Equal(t, []fold.Matcher{{Name: "type", Op: slo.OpEqual, Value: "api"}}, ind.Valid)
	renamed := in
	renamed.SLOs = slices.Clone(in.SLOs)
	next := *api
	next.ID, next.Was = "unpaid/requests", api.ID
	renamed.SLOs[slices.Index(in.SLOs, api)] = &next
	after, err := Compile(renamed)
	require.NoError(t, err)
	f, err := fold.New(fold.Options{})
	require.NoError(t, err)
	require.NoError(t, f.SetConfig(cfg, 1))
	require.NoError(t, f.SetConfig(after, 2))
	require.Empty(t, f.LastChange().Started, "a renamed SLO goes on")
	require.Empty(t, f.LastChange().Parked)

	other := *api
	other.Indicator.PromGood, other.Indicator.PromBad = "bad", ""
	require.NotEqual(t, api.PromStream(), other.PromStream())
	for _, x := range cfg.Indicators {
		require.Equal(t, x.ID == "unpaid/api", x.Source != "", x.ID)
	}
}

func TestCompileDoesNotDependOnOrder(t *testing.T) {
	in := process(t)
	cfg, err := Compile(in)
	require.NoError(t, err)
	want, err := json.Marshal(cfg)
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		rng.Shuffle(len(in.SLOs), func(i, j int) { in.SLOs[i], in.SLOs[j] = in.SLOs[j], in.SLOs[i] })
		rng.Shuffle(len(in.Thresholds), func(i, j int) {
			in.Thresholds[i], in.Thresholds[j] = in.Thresholds[j], in.Thresholds[i]
		})
		slices.Reverse(in.Services)
		cfg, err := Compile(in)
		require.NoError(t, err)
		got, err := json.Marshal(cfg)
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(got))
	}
}

func TestCompileNamesEveryProblem(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(in *Inputs)
		want   string
	}{
		{"twice", func(in *Inputs) { in.SLOs = append(in.SLOs, in.SLOs[0]) }, "SLO unpaid/availability is there twice"},
		{"no threshold", func(in *Inputs) { in.SLOs[1].Indicator.Threshold = 0 }, "a latency threshold must be above zero"},
		{"no target number", func(in *Inputs) { in.SLOs[2].Indicator.AtLeast = 0 }, "throughput needs a number"},
		{"no slice", func(in *Inputs) { in.SLOs[3].Budgeting.Slice = 0 }, "a slice must be longer than zero"},
		{"kind", func(in *Inputs) { in.SLOs[0].Indicator.Kind = "magic" }, `unknown kind of indicator "magic"`},
		{"method", func(in *Inputs) { in.SLOs[0].Budgeting.Method = "magic" }, `unknown budgeting method "magic"`},
		{"limit without level", func(in *Inputs) { in.Thresholds[1].Warning = 0 }, "neither a warning nor a critical"},
		{"limit with an odd severity", func(in *Inputs) { in.Thresholds[2].Each = "fatal" }, `unknown severity "fatal"`},
		{"limit twice", func(in *Inputs) {
			in.Thresholds = append(in.Thresholds, in.Thresholds[0])
		}, "unpaid/limit:processing is there twice"},
		{"unknown SLO", func(in *Inputs) { in.Agreements[0].Components[0].SLO = "unpaid/x" }, "there is no SLO unpaid/x"},
		{"weight", func(in *Inputs) { in.Agreements[0].Components[0].Weight = 0 }, "the weight must be above zero"},
		{"grouping", func(in *Inputs) { in.SLOs[0].GroupBy = nil }, "SLO unpaid/availability is not grouped by product"},
		{"bands on events", func(in *Inputs) {
			in.Agreements[0].Components[0].Bands = in.Agreements[0].Components[1].Bands
		}, "bands need a latency SLO"},
		{"bands without threshold", func(in *Inputs) {
			in.Agreements[0].Components[1].Bands = []sla.Band{{Score: 1}}
		}, "no band has a threshold"},
		{"no components", func(in *Inputs) { in.Agreements[0].Components = nil }, "SLA unpaid/unpaid has no components"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := process(t)
			c.change(&in)
			_, err := Compile(in)
			require.ErrorContains(t, err, c.want)
			e, err := New(Options{Source: nothing})
			require.NoError(t, err)
			require.Error(t, e.SetSpec(in))
			require.Empty(t, e.plan.slos, "a refused spec changes nothing")
		})
	}
	in := process(t)
	in.SLOs[1].Indicator.Threshold, in.Thresholds[1].Warning = 0, 0
	_, err := Compile(in)
	require.ErrorContains(t, err, "threshold")
	require.ErrorContains(t, err, "neither")
}

func TestLimitLevels(t *testing.T) {
	for _, c := range []struct {
		name              string
		warning, critical time.Duration
		want              []level
	}{
		{"both", 1, 2, []level{{"warning", 1}, {"critical", 2}}},
		{"warning", 1, 0, []level{{"warning", 1}}},
		{"critical", 0, 2, []level{{"critical", 2}}},
		{"equal", 2, 2, []level{{"critical", 2}}},
		{"a warning that comes too late", 3, 2, []level{{"critical", 2}}},
	} {
		got, err := thresholdLevels(&slo.Threshold{Warning: c.warning, Critical: c.critical})
		require.NoError(t, err)
		require.Equal(t, c.want, got, c.name)
	}
}

func TestComponentsOfOneSLOShareTheirBands(t *testing.T) {
	in := process(t)
	a := in.Agreements[0]
	a.Components = append(a.Components, sla.Component{
		Name: "strict", SLO: "unpaid/latency", Weight: 10,
		Bands: []sla.Band{
			{Quantile: .5, Threshold: time.Minute, Score: 100}, {Quantile: .99, Threshold: 15 * time.Minute, Score: 50}},
	})
	cfg, err := Compile(in)
	require.NoError(t, err)
	i := slices.IndexFunc(cfg.Indicators, func(i fold.Indicator) bool { return i.ID == "unpaid/latency#bands:unpaid" })
	require.Equal(t, []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute},
		cfg.Indicators[i].Edges)

	p, err := newPlan(in)
	require.NoError(t, err)
	for _, s := range p.slos {
		if s.slo.ID == "unpaid/latency" {
			require.Equal(t, []int{2, 3, 4, 0}, s.usages[0].bands.bins)
			require.Equal(t, []int{1, 3}, s.usages[1].bands.bins)
		}
	}
}
