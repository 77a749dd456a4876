package event

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An event without an id takes that of its transport and counts once by it. An id that no sender may use is not taken.
func TestDefaultID(t *testing.T) {
	given := ""
	opt := DecodeOptions{Now: now, DefaultID: func(dst []byte, _ int) []byte {
		return append(dst, given...)
	}, AssignID: func(int) string { return "assigned" }}
	decode := func(body string) (id string, item Item) {
		t.Helper()
		var d Decoder
		var b Batch
		require.NoError(t, d.Decode(JSON, []byte(body), opt, &b))
		require.Len(t, b.Events, 1)
		var v View
		_, err := v.Parse(b.Event(0))
		require.NoError(t, err)
		return string(v.ID), b.Events[0]
	}
	const plain = `{"service":"shop","type":"order"}`
	given = "message-1"
	id, item := decode(plain)
	require.Equal(t, "message-1", id)
	require.True(t, item.HasKey)
	require.Equal(t, Key([]byte("shop"), []byte("message-1")), item.Key, "as if the sender had written it")
	id, _ = decode(`{"id":"own","service":"shop","type":"order"}`)
	require.Equal(t, "own", id)
	for _, given = range []string{"", "a\nb", "\xff", strings.Repeat("x", maxIDBytes+1)} {
		id, item = decode(plain)
		require.Equal(t, "assigned", id)
		require.False(t, item.HasKey)
	}
}
