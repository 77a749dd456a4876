package alertpage

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/web/chart"
)

// Each SLO can be tried with the values that it has, whatever other SLOs its causes and corrections name.
func TestAsItIsCanBeTried(t *testing.T) {
	var files []spec.File
	for _, name := range []string{"insurance", "insurance-sales", "sloengine"} {
		data, err := os.ReadFile("../../testdata/specs/" + name + ".yaml")
		require.NoError(t, err)
		files = append(files, spec.File{Name: name, Data: data})
	}
	sp, problems := spec.Load(files)
	require.NoError(t, problems.Err())
	causes, corrections := 0, 0
	for _, s := range sp.SLOs {
		if s.Indicator.RulesOnly() {
			continue
		}
		causes, corrections = causes+len(s.CausedBy), corrections+len(s.Corrections)
		f := formOf(s)
		got, yaml, wrong := f.candidate(s)
		require.Empty(t, wrong, s.ID)
		require.Equal(t, s, got)
		require.NotContains(t, string(yaml), "corrections:")
		require.Equal(t, len(s.CausedBy) > 0, strings.Contains(string(yaml), "caused_by:"))
	}
	require.Positive(t, causes)
	require.Positive(t, corrections)
}

// The chart of a log that began lately shows the time of which the budget is known, and a day at least.
func TestObservedPartIsShown(t *testing.T) {
	to := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	sp := slo.Span{From: to.Add(-30 * 24 * time.Hour), To: to}
	for known, want := range map[int]time.Duration{1: 24 * time.Hour, 100: 99 * time.Hour, 720: 719 * time.Hour,
		721: 720 * time.Hour} {
		line := chart.TriedLine{}
		for i := range 721 {
			left := math.NaN()
			if i >= 721-known {
				left = 0.5
			}
			line.Left = append(line.Left, chart.TriedPoint{At: sp.From.Add(time.Duration(i) * time.Hour), Left: left})
		}
		all := []chart.TriedLine{line}
		got := observed(sp, all)
		require.Equal(t, slo.Span{From: to.Add(-want), To: to}, got, known)
		require.False(t, all[0].Left[0].At.Before(got.From))
		require.Len(t, all[0].Left, int(want/time.Hour)+1)
	}
}
