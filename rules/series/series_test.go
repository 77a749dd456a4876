package series

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSeriesAreWellFormed(t *testing.T) {
	name := regexp.MustCompile(`^(slo|sla|sloengine)_[a-z_]+[a-z]$`)
	seen := map[string]bool{}
	for _, s := range All() {
		require.Regexp(t, name, s.Name)
		require.False(t, seen[s.Name], "%s is there twice", s.Name)
		seen[s.Name] = true
		require.Equal(t, s.Type == Counter, strings.HasSuffix(s.Name, "_total"), s.Name)
		require.True(t, strings.HasSuffix(s.Help, "."), s.Name)
		require.Contains(t, s.Labels, LabelService, s.Name)
	}
}

func TestLabelNames(t *testing.T) {
	for _, c := range []struct {
		name  string
		s     Series
		extra []string
		want  []string
	}{
		{"none", Violations, nil, []string{"sla_type", "severity", "service"}},
		{"groups follow", SLIRatio, []string{"product", "stage"}, []string{"slo_id", "service", "slo", "product", "stage"}},
		{"taken by the series", ComponentScore, []string{"component"}, []string{"service", "sla", "component", "exported_component"}},
		{"not a label name", SLIRatio, []string{"http.code", "2nd", "код"}, []string{"slo_id", "service", "slo", "http_code", "_2nd", "exported_______"}},
		{"alike once made valid", SLIRatio, []string{"a.b", "a-b"}, []string{"slo_id", "service", "slo", "a_b", "exported_a_b"}},
		{"kept by Prometheus", SLIRatio, []string{"le", "__name__"}, []string{"slo_id", "service", "slo", "exported_le", "exported___name__"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(c.s.Labels)
			require.Equal(t, c.want, c.s.LabelNames(c.extra...))
			require.Len(t, c.s.Labels, before)
		})
	}
}
