package series

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestErrorRatioNames(t *testing.T) {
	require.Equal(t, "slo:sli_error:ratio_rate30d", ErrorRatio("30d"))
	require.Equal(t, "slo:sli_error:ratio_rate_month", ErrorRatio("month"))
}
