package chart

import (
	"time"

	"github.com/sloengine/sloengine/slo"
)

var noon = time.Date(2026, 11, 20, 12, 0, 7, 0, time.UTC)

// between is a span around noon.
func between(from, to time.Duration) slo.Span {
	return slo.Span{From: noon.Add(from), To: noon.Add(to)}
}
