package spec

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
)

// Whatever the file holds, reading it ends, and says where every problem is.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/*.yaml", specs + "*.yaml"} {
		names, err := filepath.Glob(pattern)
		require.NoError(f, err)
		for _, n := range names {
			data, err := os.ReadFile(n)
			require.NoError(f, err)
			f.Add(data)
		}
	}
	f.Add(Starter("shop"))
	f.Fuzz(func(t *testing.T, data []byte) {
		began := time.Now()
		s, ps := Load([]File{{Name: "f.yaml", Data: data}})
		require.Less(t, time.Since(began), 10*time.Second)
		checkProblems(t, data, ps)
		if s == nil {
			require.Error(t, ps.Err())
			return
		}
		require.NoError(t, ps.Err())
		again, _ := Load([]File{{Name: "f.yaml", Data: data}})
		require.Len(t, again.SLOs, len(s.SLOs))
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
	})
}

// checkSLO checks what the other rooms rely on.
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
	case slo.KindPrometheus:
		require.NotEmpty(t, o.Indicator.PromTotal)
		require.NotEmpty(t, o.Indicator.PromBad+o.Indicator.PromGood)
	default:
		t.Fatalf("%s: kind %q", o.ID, o.Indicator.Kind)
	}
	if o.Budgeting.Method != slo.Occurrences {
		require.Positive(t, o.Budgeting.Slice)
	}
	require.Equal(t, o.Budgeting.Method == slo.Timeslices, !o.Budgeting.Target.IsZero())
}
