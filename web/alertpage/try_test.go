package alertpage

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo/spec"
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
