package series

import (
	"regexp"
	"strings"
	"testing"

	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/stretchr/testify/require"
)

func TestSeriesAreWellFormed(t *testing.T) {
	name := regexp.MustCompile(`^(slo|sla|sloengine)_[a-z_]+[a-z]$`)
	seen := map[string]bool{}
	for _, s := range All() {
		require.Regexp(t, name, s.Name)
		require.False(t, seen[s.Name], "%s is there twice", s.Name)
		seen[s.Name] = true
		require.Equal(t, s.Type == metric.Counter, strings.HasSuffix(s.Name, "_total"), s.Name)
		require.True(t, strings.HasSuffix(s.Help, "."), s.Name)
		require.Contains(t, s.LabelNames(), LabelService, s.Name)
	}
}
