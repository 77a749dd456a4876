package subscription

import (
	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/metric"
)

// series are the metrics of the subscriptions.
type series struct {
	confirmed, unconfirmed, refused *metrics.Counter
	sent, failed                    *metrics.Counter
	unsubscribed, gone, failing     *metrics.Counter
}

func newSeries(set *metrics.Set, w *Webhooks) *series {
	count := func(counts func(*webhook) bool) func() float64 {
		return func() float64 {
			w.mu.Lock()
			defer w.mu.Unlock()
			n := 0
			for i := range w.state.Webhooks {
				if counts(&w.state.Webhooks[i]) {
					n++
				}
			}
			return float64(n)
		}
	}
	metric.Subscriptions.Read(set, count(func(*webhook) bool { return true }))
	metric.SubscriptionsFailing.Read(set, count(func(h *webhook) bool { return !h.Failing.IsZero() }))
	requests := func(result string) *metrics.Counter { return metric.SubscriptionRequests.Counter(set, result) }
	deliveries := func(result string) *metrics.Counter { return metric.SubscriptionDeliveries.Counter(set, result) }
	removed := func(reason string) *metrics.Counter { return metric.SubscriptionsRemoved.Counter(set, reason) }
	return &series{
		confirmed: requests("confirmed"), unconfirmed: requests("unconfirmed"), refused: requests("refused"),
		sent: deliveries("sent"), failed: deliveries("failed"),
		unsubscribed: removed("unsubscribed"), gone: removed("gone"), failing: removed("failing"),
	}
}

func (s *series) removed(gone bool) *metrics.Counter {
	if gone {
		return s.gone
	}
	return s.failing
}
