package deadletter

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/dlq"
)

func TestHolds(t *testing.T) {
	for _, tt := range []struct {
		event, raw string
		end        uint64
		want       Holding
	}{
		{event: `{"attributes":{"customer":"42"}}`, want: Value},
		{event: `{"attributes":{"customer":42}}`, want: Value},
		{event: `{"attributes":{"customer":"420"}}`},
		{event: `{"attributes":{"customer":true}}`},
		{event: `{"attributes":{"order":"42"},"id":"customer"}`},
		{event: `{"id":"42"}`},
		{raw: `{"attributes":{"customer":"42"`, want: Unclear},
		{raw: `{"order":"42"`},
		{raw: `customer=42`, end: 9, want: LogRange},
	} {
		e := dlq.Entry{Event: json.RawMessage(tt.event), Raw: []byte(tt.raw), SeqEnd: tt.end}
		require.Equal(t, tt.want, Holds(&e, "customer", "42"), "%+v", tt)
	}
	require.Equal(t, Value, Holds(&dlq.Entry{Event: json.RawMessage(`{"attributes":{"vip":true}}`)}, "vip", "true"))
	require.Equal(t, Value, Holds(&dlq.Entry{Event: json.RawMessage(`{"attributes":{"n":1.50}}`)}, "n", "1.50"))
}
