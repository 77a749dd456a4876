package sla

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/internal/testkit/slotest"
	"github.com/sloengine/sloengine/slo"
)

var classicBands = []Band{
	{Quantile: 0.95, Threshold: 5 * time.Minute, Score: 100},
	{Quantile: 0.95, Threshold: 15 * time.Minute, Score: 80},
	{Quantile: 0.95, Threshold: 30 * time.Minute, Score: 50},
	{Score: 20},
}

// classic is the agreement of an insurance process: 99.9 % available, 95 %
// within 15 minutes, 100 applications per minute at peak, errors under 1 %.
func classic(m Method) *Agreement {
	return &Agreement{
		Service: "insurance", Name: "unpaid", Method: m, NoData: NoDataExclude, Warning: 95, Critical: 90,
		Components: []Component{
			{Name: "availability", SLO: "insurance/availability", Weight: 40},
			{Name: "latency", SLO: "insurance/latency", Weight: 30, Bands: classicBands},
			{Name: "throughput", SLO: "insurance/throughput", Weight: 20},
			{Name: "quality", SLO: "insurance/quality", Weight: 10},
		},
	}
}

// process is the input of classic with no fault at all in 100,000 applications
// and 1,000 minutes.
func process(t testing.TB) []ComponentInput {
	const n, minutes = 100_000, 1_000
	return []ComponentInput{
		{Objective: slotest.Objective(t, "99.9"), Kind: slo.KindEvents, Counts: slo.Counts{Good: n}},
		{Objective: slotest.Objective(t, "95"), Kind: slo.KindLatency, Counts: slo.Counts{Good: n},
			Within: []uint64{n, n, n, 0}, Measured: n},
		{Objective: slotest.Objective(t, "99"), Kind: slo.KindThroughput, Counts: slo.Counts{Good: minutes},
			Achieved: 100 * minutes, Target: 100 * minutes},
		{Objective: slotest.Objective(t, "99"), Kind: slo.KindEvents, Counts: slo.Counts{Good: n}},
	}
}

func bad(in *ComponentInput, n uint64) { in.Counts.Good -= n; in.Counts.Bad += n }

// within sets how many of the 100,000 applications took at most 5, 15 and 30 minutes.
func within(in *ComponentInput, m5, m15, m30 uint64) {
	in.Within = []uint64{m5, m15, m30, 0}
	in.Counts = slo.Counts{Good: m15, Bad: in.Measured - m15}
}

func TestScoreHandComputed(t *testing.T) {
	type want struct {
		score    float64
		breached bool
		worst    string
		level    Level
	}
	for _, c := range []struct {
		name   string
		change func(in []ComponentInput)
		want   map[Method]want
	}{
		{"nothing wrong", func([]ComponentInput) {}, map[Method]want{
			Attainment: {100, false, "", LevelOK}, Ratio: {100, false, "", LevelOK}, Bands: {100, false, "", LevelOK},
		}},
		{"p95 is 15 minutes, all else perfect", func(in []ComponentInput) {
			within(&in[1], 50_000, 95_000, 100_000)
		}, map[Method]want{
			Attainment: {100, false, "", LevelOK},
			Ratio:      {98.5, false, "latency", LevelOK}, // 40 + 30 x .95 + 20 + 10
			Bands:      {94, false, "latency", LevelWarning},
		}},
		{"every SLA just met", func(in []ComponentInput) {
			bad(&in[0], 100)                       // 99.9 %
			within(&in[1], 94_999, 95_000, 99_000) // p95 = 15m
			bad(&in[2], 10)                        // 99 % of the minutes
			bad(&in[3], 1_000)                     // errors 1 %
		}, map[Method]want{
			Attainment: {100, false, "", LevelOK},
			Ratio:      {98.36, false, "latency", LevelOK},      // 39.96 + 28.5 + 20 + 9.9
			Bands:      {93.86, false, "latency", LevelWarning}, // 39.96 + 24 + 20 + 9.9: 94 as shown
		}},
		{"ten budgets of availability burned", func(in []ComponentInput) {
			bad(&in[0], 1_000) // 99.0 % against 99.9 %
		}, map[Method]want{
			Attainment: {64, true, "availability", LevelCritical}, // 40 x .1 + 60
			Ratio:      {99.6, true, "availability", LevelOK},
			Bands:      {99.6, true, "availability", LevelOK},
		}},
		{"a full day of outage in thirty", func(in []ComponentInput) {
			in[0].Counts = slo.Counts{Good: 29, Bad: 1}
		}, map[Method]want{
			Attainment: {61.2, true, "availability", LevelCritical}, // 40 x .001/(1/30) = 1.2
			Ratio:      {100 - 40./30, true, "availability", LevelOK},
			Bands:      {100 - 40./30, true, "availability", LevelOK},
		}},
		{"p95 is half an hour", func(in []ComponentInput) {
			within(&in[1], 10_000, 90_000, 95_000)
		}, map[Method]want{
			Attainment: {85, true, "latency", LevelCritical}, // 30 x .05/.10 = 15
			Ratio:      {97, true, "latency", LevelOK},
			Bands:      {85, true, "latency", LevelCritical},
		}},
		{"p95 is above half an hour", func(in []ComponentInput) {
			within(&in[1], 10_000, 90_000, 94_999)
		}, map[Method]want{
			Attainment: {85, true, "latency", LevelCritical},
			Ratio:      {97, true, "latency", LevelOK},
			Bands:      {76, true, "latency", LevelCritical}, // 70 + 30 x .2
		}},
		{"one event too slow for the SLA", func(in []ComponentInput) {
			within(&in[1], 10_000, 94_999, 100_000)
		}, map[Method]want{
			Attainment: {70 + 30*0.05/0.05001, true, "latency", LevelOK},
			Ratio:      {98.4997, true, "latency", LevelOK},
			Bands:      {85, true, "latency", LevelCritical},
		}},
		{"a tenth of the peak minutes at half the volume", func(in []ComponentInput) {
			bad(&in[2], 100)
			in[2].Achieved -= 100 * 50
		}, map[Method]want{
			Attainment: {82, true, "throughput", LevelCritical}, // 20 x .01/.1 = 2
			Ratio:      {99, true, "throughput", LevelOK},       // 20 x .95
			Bands:      {99, true, "throughput", LevelOK},
		}},
		{"errors at two per cent", func(in []ComponentInput) {
			bad(&in[3], 2_000)
		}, map[Method]want{
			Attainment: {95, true, "quality", LevelOK}, // 10 x .5, and 95 is not below 95
			Ratio:      {99.8, true, "quality", LevelOK},
			Bands:      {99.8, true, "quality", LevelOK},
		}},
		{"everything failed", func(in []ComponentInput) {
			bad(&in[0], 100_000)
			within(&in[1], 0, 0, 0)
			in[2].Counts, in[2].Achieved = slo.Counts{Bad: 1_000}, 0
			bad(&in[3], 100_000)
		}, map[Method]want{
			Attainment: {0.04 + 1.5 + 0.2 + 0.1, true, "availability", LevelCritical},
			Ratio:      {0, true, "availability", LevelCritical},
			Bands:      {6, true, "availability", LevelCritical}, // 30 x .2
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := process(t)
			c.change(in)
			for method, w := range c.want {
				r := Score(classic(method), slo.Span{}, in)
				require.InDelta(t, w.score, r.Score, 1e-9, method)
				require.Equal(t, w.breached, r.Breached, method)
				require.Equal(t, w.level, r.Level, method)
				require.Equal(t, r.Score, r.Low, method)
				require.Equal(t, r.Score, r.High, method)
				require.Zero(t, r.Missing)
				require.True(t, r.HasData)
				worst := ""
				if r.Worst >= 0 {
					worst = r.Components[r.Worst].Name
				}
				require.Equal(t, w.worst, worst, method)
			}
		})
	}
}

func TestScoresAreNotSpoiltByFloats(t *testing.T) {
	in := process(t)
	within(&in[1], 50_000, 95_000, 100_000)
	r := Score(classic(Bands), slo.Span{}, in)
	require.Equal(t, 94.0, r.Score)

	in = process(t)
	bad(&in[0], 1_000)
	r = Score(classic(Attainment), slo.Span{}, in)
	require.Equal(t, 0.1, r.Components[0].Attainment)
	require.Equal(t, 64.0, r.Score)
}

func TestAttainIsExactAtTheObjective(t *testing.T) {
	for _, c := range []struct {
		objective  string
		bad, valid uint64
	}{
		{"99.9", 1, 1_000}, {"99.9", 1_000_000, 1_000_000_000}, {"95", 1, 20}, {"99.99", 7, 70_000},
		{"99.999", 3, 300_000}, {"33.3", 667, 1_000}, {"99.95", 11, 22_000},
	} {
		o := slotest.Objective(t, c.objective)
		met := ComponentInput{Counts: slo.Counts{Good: c.valid - c.bad, Bad: c.bad}}
		e, ok := met.ErrorRatio()
		require.True(t, ok)
		require.Equal(t, 1.0, Attain(o, e), "%s: %d of %d", c.objective, c.bad, c.valid)

		missed := ComponentInput{Counts: slo.Counts{Good: c.valid - c.bad - 1, Bad: c.bad + 1}}
		e, _ = missed.ErrorRatio()
		require.Less(t, Attain(o, e), 1.0, "%s: one more than %d of %d", c.objective, c.bad, c.valid)
	}
	require.Equal(t, 1.0, Attain(slotest.Objective(t, "99.9"), 0))
}

func TestRatioTimeslicesUseTheMean(t *testing.T) {
	in := ComponentInput{
		Objective: slotest.Objective(t, "99"), Method: slo.RatioTimeslices,
		Counts: slo.Counts{Good: 4}, RatioSum: 3_960_000_000, // 1, 1, 1 and .96
	}
	a := &Agreement{Method: Ratio, Components: []Component{{Name: "x", Weight: 1}}}
	r := Score(a, slo.Span{}, []ComponentInput{in})
	require.InDelta(t, 99, r.Score, 1e-9)
	require.Equal(t, 1.0, r.Components[0].Attainment)
	require.False(t, r.Breached)
}

func TestMissingComponents(t *testing.T) {
	type want struct {
		score, low, high float64
		hasData          bool
		level            Level
		breached         bool
	}
	all := func(in []ComponentInput) {
		for i := range in {
			in[i] = ComponentInput{Objective: in[i].Objective, Kind: in[i].Kind, Within: make([]uint64, 4)}
		}
	}
	absent := func(in []ComponentInput) { in[2].Counts, in[2].Achieved, in[2].Target = slo.Counts{}, 0, 0 }
	one := func(in []ComponentInput) {
		bad(&in[0], 1_000) // attains .1
		absent(in)
	}
	for _, c := range []struct {
		name   string
		policy NoData
		change func(in []ComponentInput)
		want   want
	}{
		{"one left out", NoDataExclude, one, want{100 * 44. / 80, 44, 64, true, LevelCritical, true}},
		{"one counted as good", NoDataGood, one, want{64, 44, 64, true, LevelCritical, true}},
		{"one counted as bad", NoDataBad, one, want{44, 44, 64, true, LevelCritical, true}},
		{"only one missing, left out", NoDataExclude, absent, want{100, 80, 100, true, LevelOK, false}},
		{"only one missing, good", NoDataGood, absent, want{100, 80, 100, true, LevelOK, false}},
		{"only one missing, bad", NoDataBad, absent, want{80, 80, 100, true, LevelCritical, true}},
		{"all left out", NoDataExclude, all, want{0, 0, 100, false, LevelNoData, false}},
		{"all counted as good", NoDataGood, all, want{100, 0, 100, true, LevelOK, false}},
		{"all counted as bad", NoDataBad, all, want{0, 0, 100, true, LevelCritical, true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := classic(Attainment)
			a.NoData = c.policy
			in := process(t)
			c.change(in)
			r := Score(a, slo.Span{}, in)
			got := want{r.Score, r.Low, r.High, r.HasData, r.Level, r.Breached}
			require.InDelta(t, c.want.score, got.score, 1e-9)
			require.InDelta(t, c.want.low, got.low, 1e-9)
			require.InDelta(t, c.want.high, got.high, 1e-9)
			require.Equal(t, c.want.hasData, got.hasData)
			require.Equal(t, c.want.level, got.level)
			require.Equal(t, c.want.breached, got.breached)
			for i, comp := range r.Components {
				if in[i].Counts.Valid() == 0 {
					require.False(t, comp.HasData)
					require.Contains(t, comp.Note, "no data")
				}
			}
		})
	}
}

func TestBandsWithoutTheirOwnCountsAreMissing(t *testing.T) {
	in := process(t)
	within(&in[1], 0, 90_000, 100_000)
	in[1].Within, in[1].Measured = make([]uint64, 4), 0 // as right after bands were added to a spec
	r := Score(classic(Bands), slo.Span{}, in)
	require.Equal(t, 1, r.Missing)
	require.Equal(t, 0.5, r.Components[1].Attainment)
	require.True(t, r.Breached, "the objective is missed whether or not the bands can be told")
}

func TestBandNotes(t *testing.T) {
	for _, c := range []struct {
		m5, m15, m30 uint64
		points       float64
		note         string
	}{
		{95_000, 100_000, 100_000, 1, "p95 within 5m"},
		{94_999, 95_000, 100_000, 0.8, "p95 within 15m"},
		{0, 94_999, 95_000, 0.5, "p95 within 30m"},
		{0, 0, 94_999, 0.2, "p95 above 30m"},
	} {
		in := process(t)
		within(&in[1], c.m5, c.m15, c.m30)
		r := Score(classic(Bands), slo.Span{}, in)
		require.Equal(t, c.points, r.Components[1].Points)
		require.Equal(t, c.note, r.Components[1].Note)
	}

	a := &Agreement{Method: Bands,
		Components: []Component{{Name: "x", Weight: 1, Bands: []Band{{Quantile: 0.999, Threshold: time.Second, Score: 100}}}}}
	in := ComponentInput{Objective: slotest.Objective(t, "99"), Counts: slo.Counts{Good: 998, Bad: 2},
		Within: []uint64{998}, Measured: 1000}
	r := Score(a, slo.Span{}, []ComponentInput{in})
	require.Zero(t, r.Score)
	require.Equal(t, "outside every band", r.Components[0].Note)
}

func TestFractionIsExact(t *testing.T) {
	for _, c := range []struct {
		x         float64
		part, all uint64
		want      bool
	}{
		{0.95, 19, 20, true}, {0.95, 949, 1000, false}, {0.95, 950, 1000, true},
		{0.999, 999, 1000, true}, {0.999, 998, 1000, false}, {0.5, 1, 2, true}, {1, 5, 5, true},
		{1, 4, 5, false}, {0, 0, 5, true},
		{0.95, math.MaxUint64 / 20 * 19, math.MaxUint64 / 20 * 20, true},
		{0.95, math.MaxUint64/20*19 - 1, math.MaxUint64 / 20 * 20, false},
		{0.9999999999999999, math.MaxUint64, math.MaxUint64, true},
		{1e-300, 0, 7, true},
	} {
		require.Equal(t, c.want, newFraction(c.x).reached(c.part, c.all), "%d/%d >= %v", c.part, c.all, c.x)
	}
}

func TestFractionAgreesWithDecimals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		permille := rapid.Uint64Range(0, 1000).Draw(t, "permille")
		all := rapid.Uint64Range(1, 1<<40).Draw(t, "all")
		part := rapid.Uint64Range(0, all).Draw(t, "part")
		f := newFraction(float64(permille) / 1000)
		require.Equal(t, part*1000 >= permille*all, f.reached(part, all))
	})
}

func TestContributionsSumToWhatIsLost(t *testing.T) {
	objectives := []string{"99.9", "95", "99", "99.5", "50"}
	rapid.Check(t, func(t *rapid.T) {
		a := &Agreement{
			Method: rapid.SampledFrom([]Method{Attainment, Ratio, Bands}).Draw(t, "method"),
			NoData: rapid.SampledFrom([]NoData{NoDataExclude, NoDataGood, NoDataBad}).Draw(t, "policy"),
		}
		var in []ComponentInput
		missing := false
		for range rapid.IntRange(1, 6).Draw(t, "components") {
			c := Component{Weight: rapid.Float64Range(0.01, 100).Draw(t, "weight")}
			o, err := slo.ParsePercent(rapid.SampledFrom(objectives).Draw(t, "objective"))
			require.NoError(t, err)
			i := ComponentInput{Objective: o}
			if i.Counts.Good = rapid.Uint64Range(0, 1000).Draw(t, "good"); i.Counts.Good > 0 || rapid.Bool().Draw(t, "some") {
				i.Counts.Bad = rapid.Uint64Range(1, 1000).Draw(t, "bad")
			}
			missing = missing || i.Counts.Valid() == 0
			if rapid.Bool().Draw(t, "banded") {
				c.Bands = classicBands
				i.Measured = i.Counts.Valid()
				w := rapid.Uint64Range(0, i.Measured)
				i.Within = []uint64{w.Draw(t, "5m"), w.Draw(t, "15m"), w.Draw(t, "30m"), 0}
			}
			a.Components = append(a.Components, c)
			in = append(in, i)
		}
		r := Score(a, slo.Span{}, in)

		lost, weights, breached := 0.0, 0.0, false
		for _, c := range r.Components {
			lost += c.Lost
			weights += c.Weight
			breached = breached || c.HasData && c.Attainment < 1 || !c.HasData && a.NoData == NoDataBad
			require.GreaterOrEqual(t, c.Lost, 0.0)
			if r.Worst >= 0 {
				require.LessOrEqual(t, c.Lost, r.Components[r.Worst].Lost)
			}
		}
		require.InDelta(t, 1, weights, 1e-9)
		require.Equal(t, breached, r.Breached)
		if !missing || a.NoData != NoDataExclude {
			require.InDelta(t, 100-r.Score, lost, 1e-9)
		}
		if r.HasData {
			require.LessOrEqual(t, r.Low, r.Score+1e-9)
			require.LessOrEqual(t, r.Score, r.High+1e-9)
		}
		require.Equal(t, r.Worst < 0, lost == 0)
	})
}

func TestIDsCannotCollideWithSLOs(t *testing.T) {
	require.Equal(t, "insurance/latency#bands:unpaid", BandsID("insurance/latency", "unpaid"))
	require.Equal(t, "insurance/throughput#events", EventsID("insurance/throughput"))
	require.Equal(t, "insurance/limit:createApplication", ThresholdID("insurance", "createApplication"))
}

func TestTheOtherGroupIsNoVerdict(t *testing.T) {
	for _, c := range []struct {
		group slo.Group
		level Level
		want  SLAReport
	}{
		{slo.Group{"A"}, LevelCritical, SLAReport{Breached: true, Level: LevelCritical}},
		{nil, LevelWarning, SLAReport{Breached: true, Level: LevelWarning}},
		{slo.Group{slo.OtherGroup}, LevelCritical, SLAReport{Informative: true, Level: LevelOK}},
		{slo.Group{slo.OtherGroup}, LevelNoData, SLAReport{Informative: true, Level: LevelNoData}},
	} {
		r := SLAReport{Breached: true, Level: c.level, Score: 12}
		r.SetGroup(c.group)
		c.want.Group, c.want.Score = c.group, 12
		require.Equal(t, c.want, r)
	}
}

// The score with the rest of the window good is that of as many more good events.
func TestObservedScore(t *testing.T) {
	a := &Agreement{Method: Attainment, NoData: NoDataExclude,
		Components: []Component{{Name: "x", Weight: 60}, {Name: "y", Weight: 30}, {Name: "none", Weight: 10}}}
	in := func(valid, bad uint64, observed float64) ComponentInput {
		return ComponentInput{Objective: slotest.Objective(t, "99"), Counts: slo.Counts{Good: valid - bad, Bad: bad},
			Observed: observed}
	}
	score := func(in ...ComponentInput) SLAReport { return Score(a, slo.Span{}, in) }
	for _, policy := range []NoData{NoDataExclude, NoDataGood, NoDataBad} {
		for _, method := range []Method{Attainment, Ratio} {
			a.NoData, a.Method = policy, method
			for _, observed := range []float64{0.01, 0.1, 0.5, 1} {
				n := uint64(1000 / observed)
				part := score(in(1000, 200, observed), in(1000, 5, observed), in(0, 0, 0))
				whole := score(in(n, 200, 1), in(n, 5, 1), in(0, 0, 0))
				require.InDelta(t, whole.Score, part.ObservedScore(), 1e-9, "%s %s %v", policy, method, observed)
				require.InDelta(t, whole.Score, whole.ObservedScore(), 1e-9)
			}
		}
	}
	never := score(in(1000, 1000, 0), in(0, 0, 0), in(0, 0, 0))
	require.InDelta(t, 60, never.ObservedScore(), 1e-9,
		"what was not observed is good; what has no data is bad by the policy")
}
