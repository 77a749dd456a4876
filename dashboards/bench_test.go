package dashboards_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/dashboards"
)

// BenchmarkAll makes the dashboards of a thousand SLOs and agreements.
func BenchmarkAll(b *testing.B) {
	c := inputs(b)["a thousand SLOs"]
	b.ReportAllocs()
	for b.Loop() {
		ds, err := dashboards.All(c.in, c.o)
		require.NoError(b, err)
		require.Len(b, ds, 12)
	}
}
