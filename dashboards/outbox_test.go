package dashboards_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/dashboards"
	"github.com/sloengine/sloengine/reliability/metric"
)

// relayed are the series of a relay whose broker refuses some rows.
var relayed = map[string]func(s float64) float64{
	`sloengine_outbox_published_total{destination="kafka",topic="orders",event_type="created"}`: growing(250),
	`sloengine_outbox_sent_total{destination="kafka",topic="orders",event_type="created"}`:      growing(240),
	`sloengine_outbox_send_failures_total{destination="kafka",topic="orders",event_type="created",` +
		`error_class="transient"}`: growing(10),
	`sloengine_outbox_failed_total{destination="kafka",topic="orders",event_type="created"}`: growing(0.2),
	`sloengine_outbox_http_requests_total{code="4xx"}`:                                       growing(10),
	`sloengine_outbox_retries_total`:                                                         growing(9),
	`sloengine_outbox_pending_rows`:                                                          constant(1200),
	`sloengine_outbox_failed_rows`:                                                           growing(0.2),
	`sloengine_outbox_oldest_pending_seconds`:                                                constant(40),
	`sloengine_outbox_latency_seconds_bucket{le="0.1"}`:                                      growing(200),
	`sloengine_outbox_latency_seconds_bucket{le="+Inf"}`:                                     growing(240),
	`sloengine_outbox_batch_seconds_bucket{le="0.1"}`:                                        growing(2),
	`sloengine_outbox_batch_seconds_bucket{le="+Inf"}`:                                       growing(3),
	`sloengine_outbox_lost_claims_total{way="lease"}`:                                        growing(0.01),
	`sloengine_outbox_lost_claims_total{way="optimistic"}`:                                   growing(0.01),
	`sloengine_outbox_duplicates_total`:                                                      growing(0.01),
	`sloengine_outbox_buckets`:                                                               constant(64),
	`sloengine_outbox_stale_leases_total`:                                                    constant(1),
	`sloengine_outbox_ready{part="database"}`:                                                constant(1),
	`sloengine_outbox_ready{part="broker"}`: func(s float64) float64 {
		return float64(int(s/600) % 2)
	},
	`sloengine_outbox_deleted_rows_total`: growing(20),
}

// The dashboard Outbox shows all that relays export.
func TestOutboxIsWhole(t *testing.T) {
	boards := every(t)
	i := slices.IndexFunc(boards, func(d dashboards.Dashboard) bool { return d.UID == "sloengine-outbox" })
	require.GreaterOrEqual(t, i, 0)
	n := requireWhole(t, boards[i], func(family string) bool {
		return strings.HasPrefix(family, "sloengine_outbox_") && !strings.HasPrefix(family, "sloengine_outbox_source_")
	})
	require.Greater(t, n, 15)
}

// requireWhole demands a panel for every family that the dashboard is about, and returns their number.
func requireWhole(t *testing.T, d dashboards.Dashboard, about func(family string) bool) int {
	t.Helper()
	shown := map[string]bool{}
	for _, p := range read(t, d).Panels {
		for _, q := range p.Targets {
			for _, n := range names(parse(t, q.Expr)) {
				if f := metric.Lookup(n); f != nil {
					shown[f.Name] = true
				}
			}
		}
	}
	n := 0
	for _, p := range metric.Parts() {
		for _, f := range p.Families {
			if about(f.Name) {
				require.True(t, shown[f.Name], "no panel shows %s", f.Name)
				n++
			}
		}
	}
	return n
}
