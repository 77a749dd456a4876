package otlpwire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/otlp/otlpwire"
)

// The examples of the protocol's repository have this shape: capital hexadecimal ids, 64-bit integers as numbers, a
// resource and a scope with attributes, and a value of each kind.
const (
	exampleHead = `"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},`
	exampleLib  = `"scope":{"name":"lib","version":"1.0.0","attributes":[{"key":"of","value":{"stringValue":"scope"}}]},`
	exampleAttr = `"attributes":[{"key":"text","value":{"stringValue":"x"}},{"key":"yes","value":{"boolValue":true}},` +
		`{"key":"whole","value":{"intValue":10}},{"key":"part","value":{"doubleValue":637.704}},{"key":"list","value":` +
		`{"arrayValue":{"values":[{"stringValue":"a"},{"stringValue":"b"}]}}},{"key":"map","value":{"kvlistValue":` +
		`{"values":[{"key":"k","value":{"stringValue":"v"}}]}}}]`
	exampleTrace = `"traceId":"5B8EFFF798038103D269B633813FC60C","spanId":"EEE19B7EC3C1B174"`
	exampleTimes = `"startTimeUnixNano":1544712660300000000,"timeUnixNano":1544712660300000000`

	exampleSpan = `{"resourceSpans":[{` + exampleHead + `"scopeSpans":[{` + exampleLib + `"spans":[{` + exampleTrace +
		`,"parentSpanId":"EEE19B7EC3C1B173","name":"server","startTimeUnixNano":1544712660000000000,` +
		`"endTimeUnixNano":1544712661000000000,"kind":2,` + exampleAttr + `}]}]}]}`
	exampleLog = `{"resourceLogs":[{` + exampleHead + `"scopeLogs":[{` + exampleLib + `"logRecords":[{` +
		`"timeUnixNano":1544712660300000000,"observedTimeUnixNano":1544712660300000000,"severityNumber":10,` +
		`"severityText":"Information",` + exampleTrace + `,"body":{"stringValue":"text"},` + exampleAttr + `}]}]}]}`
	exampleMetrics = `{"resourceMetrics":[{` + exampleHead + `"scopeMetrics":[{` + exampleLib + `"metrics":[` +
		`{"name":"a.sum","unit":"1","description":"d","sum":{"aggregationTemporality":1,"isMonotonic":true,"dataPoints":[{` +
		`"asDouble":5,` + exampleTimes + `,` + exampleAttr + `}]}},` +
		`{"name":"a.gauge","gauge":{"dataPoints":[{"asDouble":10,` + exampleTimes + `,` + exampleAttr + `}]}},` +
		`{"name":"a.histogram","histogram":{"aggregationTemporality":1,"dataPoints":[{` + exampleTimes +
		`,"count":2,"sum":2,` +
		`"bucketCounts":[1,1],"explicitBounds":[1],"min":0,"max":2,` + exampleAttr + `}]}},` +
		`{"name":"an.exponential","exponentialHistogram":{"aggregationTemporality":1,"dataPoints":[{` + exampleTimes +
		`,"count":3,"sum":10,"scale":0,"zeroCount":1,"positive":{"offset":1,"bucketCounts":[0,2]},"min":0,"max":5,` +
		`"zeroThreshold":0,` + exampleAttr + `}]}}]}]}]}`
)

func TestExamplesOfTheProtocol(t *testing.T) {
	d := otlpwire.New(exact)
	compareTraces(t, d, []byte(exampleSpan), true)
	compareLogs(t, d, []byte(exampleLog), true)
	compareMetrics(t, d, []byte(exampleMetrics), true)

	spans, records, points := 0, 0, 0
	require.NoError(t, d.TracesJSON([]byte(exampleSpan), func(s *otlpwire.Span) error {
		spans++
		require.Equal(t, byte(0x5b), s.TraceID[0], "capital hexadecimal")
		require.EqualValues(t, 1_000_000_000, s.End-s.Start)
		return nil
	}))
	require.NoError(t, d.LogsJSON([]byte(exampleLog), func(*otlpwire.LogRecord) error { records++; return nil }))
	require.NoError(t, d.MetricsJSON([]byte(exampleMetrics), func(*otlpwire.Point) error { points++; return nil }))
	require.Equal(t, [3]int{1, 1, 4}, [3]int{spans, records, points})
	require.Zero(t, d.Losses(), "each attribute of an example fits")

	// The same as text, which is how the Collector writes 64-bit integers.
	compareTraces(t, d, []byte(strings.ReplaceAll(exampleSpan, "1544712661000000000", `"1544712661000000000"`)), true)
}
