package outbox

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	table "github.com/sloengine/sloengine/reliability/outbox"
)

// BenchmarkSave is what Save costs over a bare INSERT of the same row into the same table, in the same transaction. The
// two take turns, so that a busy machine slows down both, and medians are compared.
func BenchmarkSave(b *testing.B) {
	for _, x := range []struct {
		name string
		o    Options
		l    table.Layout
	}{
		{"plain", Options{}, table.Layout{}},
		{"by day", Options{Partitioned: true}, table.Layout{Partitioned: true}},
		{"plain, notify", Options{Notify: "outbox"}, table.Layout{}},
	} {
		b.Run(x.name, func(b *testing.B) {
			conn, _, _ := database(b, table.Options{}, x.l)
			w := newWriter(b, x.o)
			tx, err := conn.Begin(b.Context())
			require.NoError(b, err)
			defer func() { _ = tx.Rollback(b.Context()) }()
			var took [2][]time.Duration
			for n := 0; b.Loop(); n++ {
				began := time.Now()
				_, err := tx.Exec(b.Context(),
					`INSERT INTO outbox (idempotency_key, aggregate_type, aggregate_id, event_type, topic, key, payload, headers)
					VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, fmt.Sprint("bare-", n), "Order", "42", "OrderCreated", "order-events",
					"42", `{"total":  12.50}`, `{"tenant": "ü"}`)
				took[0] = append(took[0], time.Since(began))
				require.NoError(b, err)
				began = time.Now()
				saved, err := w.Save(b.Context(), tx, order(fmt.Sprint("order-created-", n)))
				took[1] = append(took[1], time.Since(began))
				require.NoError(b, err)
				require.True(b, saved)
			}
			median := func(d []time.Duration) float64 {
				slices.Sort(d)
				return float64(d[len(d)/2].Nanoseconds()) / 1e6
			}
			b.ReportMetric(median(took[0]), "ms/insert")
			b.ReportMetric(median(took[1]), "ms/save")
			b.ReportMetric(median(took[1])-median(took[0]), "ms/over")
		})
	}
}
