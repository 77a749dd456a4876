package series

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRecordedNames(t *testing.T) {
	name := regexp.MustCompile(`^((slo|sla):[a-z0-9_]+:[a-z0-9_]+|slo:(info|observed|engines)|sloth_slo_info)$`)
	seen := map[string]bool{}
	for _, n := range RecordedNames("5m", "1h30m", "month") {
		require.Regexp(t, name, n)
		require.False(t, seen[n], "%s is there twice", n)
		seen[n] = true
	}
	require.Equal(t, "slo:sli_error:ratio_rate30d", ErrorRatio("30d"))
	require.Equal(t, "slo:sli_error:ratio_rate_month", ErrorRatio("month"))
}
