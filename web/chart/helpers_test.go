package chart

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
)

var noon = time.Date(2026, 11, 20, 12, 0, 7, 0, time.UTC)

func objective(t testing.TB, percent string) slo.Objective {
	o, err := slo.ParsePercent(percent)
	require.NoError(t, err)
	return o
}

// between is a span around noon.
func between(from, to time.Duration) slo.Span {
	return slo.Span{From: noon.Add(from), To: noon.Add(to)}
}
