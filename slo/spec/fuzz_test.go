package spec

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamlgen"
)

// Whatever the file holds, reading it ends, and says where every problem is.
func FuzzLoad(f *testing.F) {
	seed(f, "")
	f.Add(Starter("shop"))
	f.Fuzz(checkLoad)
}

// The same for the other formats: whatever stands where a spec of theirs would.
func FuzzObjectives(f *testing.F) {
	for _, name := range []string{"pyrra", "slo-generator", "nobl9", "openslo-alpha"} {
		seed(f, name)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, head := range []string{PyrraAPIVersion + "\nkind: " + kindObjective,
			GeneratorAPIVersion + "\nkind: " + kindObjective, Nobl9Version + "\nkind: SLO", OpenSLOAlpha + "\nkind: SLO"} {
			checkLoad(t, append([]byte("apiVersion: "+head+"\nmetadata: {name: x, labels: {service_name: shop}}\n"), data...))
		}
	})
}

func FuzzSloth(f *testing.F) {
	seed(f, "sloth")
	f.Fuzz(func(t *testing.T, data []byte) {
		checkLoad(t, append([]byte("version: prometheus/v1\nservice: shop\n"), data...))
		checkLoad(
			t, append([]byte("apiVersion: sloth.slok.dev/v1\nkind: PrometheusServiceLevel\nmetadata: {name: x}\n"), data...))
	})
}

func FuzzOpenSLO(f *testing.F) {
	seed(f, "openslo")
	f.Fuzz(func(t *testing.T, data []byte) {
		checkLoad(t, append([]byte("apiVersion: openslo/v1\nkind: SLO\nmetadata: {name: x}\n"), data...))
	})
}

// Any query is either refused or still PromQL when its window is filled in.
func FuzzQuery(f *testing.F) {
	for _, c := range lowered {
		f.Add(c.bad, c.total)
	}
	f.Fuzz(func(t *testing.T, bad, total string) {
		doc := map[string]any{
			"version": SlothVersion, "service": "shop",
			"slos": []any{map[string]any{"name": "a", "objective": 99, "sli": map[string]any{"events": map[string]any{
				"error_query": yamlgen.Text(bad), "total_query": yamlgen.Text(total),
			}}}},
		}
		checkLoad(t, yamlgen.Document("", doc))
	})
}

// seed adds the example files whose names hold the word. Of those for a format
// everything below the head of their documents is added as well.
func seed(f *testing.F, word string) {
	for _, pattern := range []string{"testdata/*" + word + "*.yaml", specs + "*" + word + "*.yaml"} {
		names, err := filepath.Glob(pattern)
		require.NoError(f, err)
		for _, n := range names {
			data, err := os.ReadFile(n)
			require.NoError(f, err)
			f.Add(data)
			if word == "" {
				continue
			}
			for _, doc := range bytes.Split(data, []byte("---\n")) {
				for _, head := range []string{"\nslos:", "\nspec:"} {
					if i := bytes.Index(doc, []byte(head)); i >= 0 {
						f.Add(doc[i+1:])
					}
				}
			}
		}
	}
}

func checkLoad(t *testing.T, data []byte) {
	began := time.Now()
	s, ps := Load([]File{{Name: "f.yaml", Data: data}})
	require.Less(t, time.Since(began), 10*time.Second)
	checkProblems(t, data, ps)
	if s == nil {
		require.Error(t, ps.Err())
		return
	}
	require.NoError(t, ps.Err())
	ids := map[slo.ID]bool{}
	sp := slo.Span{From: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), To: time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)}
	for _, o := range s.SLOs {
		require.False(t, ids[o.ID])
		ids[o.ID] = true
		checkSLO(t, o)
		slo.Excluded(o.Corrections, sp)
	}
	for _, a := range s.Agreements {
		require.NotEmpty(t, a.Components)
		for _, c := range a.Components {
			require.True(t, ids[c.SLO], c.SLO)
			require.Positive(t, c.Weight)
		}
	}
	requireRoundTrip(t, s)
}

// checkSLO checks what the other packages rely on.
func checkSLO(t testing.TB, o *slo.SLO) {
	require.Regexp(t, namePattern, o.ID.Service())
	require.Regexp(t, namePattern, o.ID.Name())
	require.Positive(t, o.Objective.Budget())
	if o.Window.Calendar == "" {
		require.GreaterOrEqual(t, o.Window.Rolling, minWindow)
	} else {
		require.NotNil(t, o.Window.Location)
	}
	for _, g := range o.Expect {
		require.Len(t, g, len(o.GroupBy))
	}
	if len(o.GroupBy) > 0 {
		require.Positive(t, o.MaxGroups)
	}
	switch o.Indicator.Kind {
	case slo.KindEvents:
		require.NotEmpty(t, o.Indicator.Bad)
	case slo.KindLatency:
		require.Positive(t, o.Indicator.Threshold)
	case slo.KindThroughput:
		require.Positive(t, o.Indicator.AtLeast)
		require.Positive(t, o.Indicator.Per)
		require.Equal(t, slo.Occurrences, o.Budgeting.Method)
	case slo.KindRatio:
		require.NotEqual(t, o.Indicator.Numerator.String(), o.Indicator.Valid.String())
	case slo.KindApdex:
		require.Positive(t, o.Indicator.Satisfied)
		require.Greater(t, o.Indicator.Tolerating, o.Indicator.Satisfied)
	case slo.KindVolume:
		require.Positive(t, o.Indicator.AtLeast)
		require.NotNil(t, o.Indicator.Location)
		require.Contains(t, volumeUnits, string(o.Indicator.Calendar))
	case slo.KindCompletion:
		require.NotEmpty(t, o.Indicator.Completion.Started)
		require.NotEmpty(t, o.Indicator.Completion.Finished)
		require.NotEmpty(t, o.Indicator.Completion.Key)
		require.Positive(t, o.Indicator.Completion.Within)
		require.Positive(t, o.Indicator.Completion.MaxInFlight)
		require.Equal(t, slo.Occurrences, o.Budgeting.Method)
	case slo.KindPrometheus:
		checkPrometheus(t, &o.Indicator)
	default:
		t.Fatalf("%s: kind %q", o.ID, o.Indicator.Kind)
	}
	if _, only := occurrencesOnly[o.Indicator.Kind]; only {
		require.Equal(t, slo.Occurrences, o.Budgeting.Method)
	}
	if o.Budgeting.Method != slo.Occurrences {
		require.Positive(t, o.Budgeting.Slice)
	}
	require.Equal(t, o.Budgeting.Method == slo.Timeslices, !o.Budgeting.Target.IsZero())
	for _, x := range o.Alerting.Tiers {
		require.Positive(t, x.Share)
		require.Positive(t, x.Short)
		require.LessOrEqual(t, x.Short, x.Long)
	}
}

// checkPrometheus checks that exactly one form is filled in, and that its queries
// are PromQL for any window.
func checkPrometheus(t testing.TB, i *slo.Indicator) {
	parses := func(query string) {
		require.Contains(t, query, slo.PromWindow)
		_, err := promql.ParseExpr(slo.PromAt(query, 5*time.Minute))
		require.NoError(t, err, query)
	}
	empty := *i
	empty.Kind = ""
	switch i.PromForm() {
	case slo.PromCounters:
		require.Equal(t, i.PromBad == "", i.PromGood != "")
		for _, s := range []string{i.PromBad + i.PromGood, i.PromTotal} {
			_, err := promql.ParseMetricSelector(s)
			require.NoError(t, err, s)
		}
		empty.PromBad, empty.PromGood, empty.PromTotal = "", "", ""
	case slo.PromQueries:
		require.Equal(t, i.PromBadQuery == "", i.PromGoodQuery != "")
		parses(i.PromBadQuery + i.PromGoodQuery)
		parses(i.PromTotalQuery)
		empty.PromBadQuery, empty.PromGoodQuery, empty.PromTotalQuery = "", "", ""
	case slo.PromRatio:
		parses(i.PromErrorRatioQuery)
		empty.PromErrorRatioQuery = ""
	case slo.PromThreshold:
		_, err := promql.ParseExpr(i.PromQuery)
		require.NoError(t, err, i.PromQuery)
		require.NotEmpty(t, i.PromOp)
		empty.PromQuery, empty.PromOp, empty.PromValue = "", "", 0
	}
	require.Equal(t, slo.Indicator{}, empty)
}
