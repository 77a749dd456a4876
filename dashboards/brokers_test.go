package dashboards_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/dashboards"
)

// brokered are the series of an engine that reads a topic with growing lag and two queues, whose workers stand still,
// and that delivers to both brokers.
var brokered = map[string]func(s float64) float64{
	`sloengine_source_messages_total{source="orders"}`:                       growing(200),
	`sloengine_source_messages_total{source="work"}`:                         growing(20),
	`sloengine_source_bytes_total{source="orders"}`:                          growing(50_000),
	`sloengine_source_empty_messages_total{source="orders"}`:                 growing(1),
	`sloengine_source_events_total{source="orders",result="accepted"}`:       growing(190),
	`sloengine_source_events_total{source="orders",result="rejected"}`:       growing(10),
	`sloengine_source_dead_letters_total{source="orders",reason="rejected"}`: growing(9),
	`sloengine_source_discarded_total{source="orders"}`:                      growing(1),
	`sloengine_source_trouble{source="orders",kind="rate_limit"}`: func(s float64) float64 {
		return float64(int(s/600) % 2)
	},
	`sloengine_source_trouble{source="orders",kind="connection"}`:                         constant(0),
	`sloengine_source_trouble{source="work",kind="topic"}`:                                constant(1),
	`sloengine_source_failures_total{source="orders",kind="connection"}`:                  constant(0),
	`sloengine_source_failures_total{source="work",kind="topic"}`:                         growing(0.1),
	`sloengine_source_busy_seconds_total{source="orders"}`:                                growing(0.95),
	`sloengine_source_busy_seconds_total{source="work"}`:                                  growing(0.1),
	`sloengine_source_paused_seconds_total{source="orders",kind="rate_limit"}`:            growing(0.2),
	`sloengine_outbox_source_behind_rows{source="table"}`:                                 constant(1200),
	`sloengine_outbox_source_oldest_seconds{source="table"}`:                              constant(75),
	`sloengine_outbox_source_held_back_rows{source="table"}`:                              constant(1100),
	`sloengine_outbox_source_held_back_seconds{source="table"}`:                           constant(70),
	`sloengine_kafka_source_lag_messages{source="orders",topic="t",partition="0"}`:        growing(3),
	`sloengine_kafka_source_lag_messages{source="orders",topic="t",partition="3"}`:        constant(5),
	`sloengine_kafka_source_lost_messages_total{source="orders"}`:                         constant(0),
	`sloengine_kafka_source_commits_total{source="orders",result="ok"}`:                   growing(0.2),
	`sloengine_kafka_source_commits_total{source="orders",result="failed"}`:               constant(0),
	`sloengine_kafka_source_rebalances_total{source="orders"}`:                            growing(0.001),
	`sloengine_kafka_source_sampled_ids_total{source="orders",result="first"}`:            growing(1),
	`sloengine_kafka_source_sampled_ids_total{source="orders",result="other_partition"}`:  growing(0.1),
	`sloengine_kafka_request_seconds_bucket{client="sink:s",request="produce",le="0.01"}`: growing(9),
	`sloengine_kafka_request_seconds_bucket{client="sink:s",request="produce",le="+Inf"}`: growing(10),
	`sloengine_kafka_request_seconds_bucket{client="sink:s",request="group",le="0.01"}`:   constant(0),
	`sloengine_kafka_request_seconds_bucket{client="sink:s",request="group",le="+Inf"}`:   constant(0),
	`sloengine_kafka_request_failures_total{client="sink:s",request="produce"}`:           growing(0.1),
	`sloengine_kafka_throttled_seconds_total{client="sink:s"}`:                            growing(0.01),
	`sloengine_kafka_connects_total{client="source:orders",result="success"}`:             growing(0.01),
	`sloengine_kafka_disconnects_total{client="source:orders"}`:                           growing(0.01),
	`sloengine_kafka_buffered_records{client="sink:s"}`:                                   constant(300),
	`sloengine_kafka_buffered_bytes{client="sink:s"}`:                                     constant(60_000),
	`sloengine_rabbitmq_connected{client="sink:bus"}`:                                     constant(4),
	`sloengine_rabbitmq_connected{client="source:work"}`:                                  constant(0),
	`sloengine_rabbitmq_blocked{client="sink:bus"}`:                                       constant(1),
	`sloengine_rabbitmq_blocked{client="source:work"}`:                                    constant(0),
	`sloengine_rabbitmq_connects_total{client="source:work",result="failure"}`:            growing(0.1),
	`sloengine_rabbitmq_disconnects_total{client="source:work"}`:                          constant(1),
	`sloengine_rabbitmq_redelivered_total{source="work"}`:                                 growing(0.1),
	`sloengine_rabbitmq_cancelled_total{source="work"}`:                                   constant(0),
	`sloengine_rabbitmq_topology_problems{source="work"}`:                                 constant(1),
	`sloengine_rabbitmq_queue_messages{source="work",queue="jobs"}`:                       growing(1),
	`sloengine_rabbitmq_queue_consumers{source="work",queue="jobs"}`:                      constant(0),
	`sloengine_rabbitmq_dead_letter_depth{source="dead"}`:                                 growing(0.1),
	`sloengine_rabbitmq_dead_letters_handled_total{source="dead"}`:                        growing(0.3),
	`sloengine_rabbitmq_requeued_total{source="dead"}`:                                    constant(0),
	`sloengine_rabbitmq_dead_letters_total{source="dead",queue="jobs",type="job",reason="expired",` +
		`outcome="failure"}`: growing(0.2),
	`sloengine_rabbitmq_dead_letters_total{source="dead",queue="jobs",type="job",reason="rejected",` +
		`outcome="retried"}`: growing(0.1),
	`sloengine_rabbitmq_dead_letters_overdue_seconds{source="dead",queue="jobs"}`: constant(7),
	`sloengine_rabbitmq_dead_letter_age_seconds_bucket{source="dead",le="1"}`:     growing(0.2),
	`sloengine_rabbitmq_dead_letter_age_seconds_bucket{source="dead",le="+Inf"}`:  growing(0.3),
}

// The dashboard Brokers leads to the lag of sinks, and shows all else that engines export about brokers.
func TestBrokersIsWhole(t *testing.T) {
	boards := every(t)
	i := slices.IndexFunc(boards, func(d dashboards.Dashboard) bool { return d.UID == "sloengine-brokers" })
	require.GreaterOrEqual(t, i, 0)
	g := read(t, boards[i])
	require.Contains(t, g.Links, grafanaLink{Title: "Sinks", Type: "link", URL: "/d/" + "sloengine-reliability"})
	n := requireWhole(t, boards[i], func(family string) bool {
		return slices.ContainsFunc([]string{"sloengine_source_", "sloengine_kafka_", "sloengine_rabbitmq_",
			"sloengine_outbox_source_"}, func(prefix string) bool {
			return strings.HasPrefix(family, prefix)
		})
	})
	require.Greater(t, n, 30)
}
