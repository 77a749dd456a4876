package otlpwire_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// requireNoAllocations requires that a request of a thousand items costs no more than one of ten, in protobuf and in
// JSON. decoded counts the items.
func requireNoAllocations(t *testing.T, request func(items int) proto.Message, decoded *int,
	decode, decodeJSON func(body []byte) error) {
	allocations := func(decode func([]byte) error, body []byte, items int) float64 {
		read := func() { require.NoError(t, decode(body)) }
		*decoded = 0
		read()
		require.Equal(t, items, *decoded)
		return testing.AllocsPerRun(20, read)
	}
	few, many := request(10), request(1000)
	require.InDelta(t, allocations(decode, marshal(t, few), 10), allocations(decode, marshal(t, many), 1000), 2)
	require.InDelta(t, allocations(decodeJSON, toJSON(t, few, protojson.MarshalOptions{}), 10),
		allocations(decodeJSON, toJSON(t, many, protojson.MarshalOptions{}), 1000), 2)
}

// benchmark decodes a request of items in protobuf and in JSON.
func benchmark(b *testing.B, data proto.Message, items int, decode, decodeJSON func(body []byte) error) {
	run := func(name string, body []byte, decode func([]byte) error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				require.NoError(b, decode(body))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*items), "ns/item")
		})
	}
	run("protobuf", marshal(b, data), decode)
	run("JSON", toJSON(b, data, protojson.MarshalOptions{}), decodeJSON)
}
