package outbox

import (
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	table "github.com/sloengine/sloengine/reliability/outbox"
)

// TestTheStatementsOfTheDocumentation runs the SQL that docs/outbox.md has for other languages, as it stands there.
func TestTheStatementsOfTheDocumentation(t *testing.T) {
	text, err := os.ReadFile("../../docs/outbox.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n### SQL\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := strings.Split(section, "```sql\n")[1:]
	require.Len(t, blocks, 2)
	for i, partitioned := range []bool{false, true} {
		statement, _, closed := strings.Cut(blocks[i], "```")
		require.True(t, closed)
		conn, _, _ := database(t, table.Options{}, table.Layout{Partitioned: partitioned})
		for _, want := range []int64{1, 0} { // the second time, the key is known
			tag, err := conn.Exec(t.Context(), statement, pgx.QueryExecModeSimpleProtocol)
			require.NoError(t, err)
			require.Equal(t, want, tag.RowsAffected())
		}
		w := newWriter(t, Options{Partitioned: partitioned})
		rows, err := table.List(t.Context(), conn, w.table, table.Filter{})
		require.NoError(t, err)
		require.Len(t, rows, 1)
		require.Equal(t, []string{"order-created-42", "Order", "42", "OrderCreated", "order-events", "42", `{"total": 12.5}`},
			[]string{rows[0].IdempotencyKey, rows[0].AggregateType, rows[0].AggregateID, rows[0].EventType, rows[0].Topic,
				rows[0].Key, string(rows[0].Payload)})
		h, err := table.ParseHeaders(rows[0].Headers)
		require.NoError(t, err)
		require.Equal(t, !partitioned, validTraceparent(h[traceHeader]))
		// Save and the statement know each other's keys.
		require.NoError(t, pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			e := order("order-created-42")
			saved, err := w.Save(t.Context(), tx, e)
			require.False(t, saved)
			return err
		}))
	}
}

// TestTheDocumentationNamesAllColumns of the table that migrate creates.
func TestTheDocumentationNamesAllColumns(t *testing.T) {
	text, err := os.ReadFile("../../docs/outbox.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## The table\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n| flag ")
	conn, _, _ := database(t, table.Options{}, table.Layout{})
	columns := value[[]string](
		t, conn, "SELECT array_agg(attname::text) FROM pg_attribute WHERE attrelid = 'outbox'::regclass AND attnum > 0")
	require.Len(t, columns, 18)
	for _, c := range columns {
		require.Contains(t, section, "`"+c+"`")
	}
}
