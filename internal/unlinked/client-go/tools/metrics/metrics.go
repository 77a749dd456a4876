// Package metrics declares what Prometheus names of the package of client-go: see internal/unlinked/README.md.
package metrics

import (
	"context"
	"net/url"
	"time"
)

// A LatencyMetric observes the durations of requests.
type LatencyMetric interface {
	Observe(ctx context.Context, verb string, u url.URL, latency time.Duration)
}

// A ResultMetric counts the answers to requests.
type ResultMetric interface {
	Increment(ctx context.Context, code, method, host string)
}

// RegisterOpts are the metrics of the client.
type RegisterOpts struct {
	RequestLatency LatencyMetric
	RequestResult  ResultMetric
}

// Register does nothing: no request is made.
func Register(RegisterOpts) {}
