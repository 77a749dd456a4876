package otlpwire_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/otlp/otlpwire"
)

// inField is the protobuf message that has a field of bytes only.
func inField(number int, inside string) string {
	return fmt.Sprintf("%c%c%s", number<<3|2, len(inside), inside)
}

// item is a protobuf request of one item.
func item(inside string) string { return inField(1, inField(2, inField(2, inside))) }

func TestBadLogsAreRefusedWithTheirPlace(t *testing.T) {
	const at = "resourceLogs[0].scopeLogs[0].logRecords[0]"
	requireRefusals(t, func(body string) error {
		return otlpwire.New(otlpwire.Limits{MaxItems: 1}).Logs([]byte(body), func(*otlpwire.LogRecord) error { return nil })
	}, [][2]string{
		{item("\x09\x01"), at + " (byte 6): 8 bytes are expected, 1 are left"},
		{item("\x10\x80"), at + " (byte 6): a number does not end, or is too large"},
		{item("\x1a\x05x"), at + " (byte 6): 5 bytes are expected, 1 are left"},
		{item(inField(5, "\x0a\x02x")), at + ".body (byte 8): 2 bytes are expected, 1 are left"},
		{item(inField(5, inField(5, inField(1, "\x0a\x02x")))),
			at + ".body.arrayValue.values[0] (byte 12): 2 bytes are expected, 1 are left"},
		{item(inField(6, "") + inField(6, "\x0f")),
			at + ".attributes[1] (byte 10): a field of wire type 7 is not expected here"},
		{item("\x45\x01"), at + " (byte 6): 4 bytes are expected, 1 are left"},
		{item("\x00"), at + " (byte 6): 0 is not the number of a field"},
		{item("") + item(""), "resourceLogs[1].scopeLogs[0].logRecords[0] (byte 12): more than 1 in a request"},
	})
	record := func(fields string) string {
		return `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{` + fields + `}]}]}]}`
	}
	requireRefusals(t, func(body string) error {
		return otlpwire.New(otlpwire.Limits{MaxItems: 1}).LogsJSON([]byte(body),
			func(*otlpwire.LogRecord) error { return nil })
	}, [][2]string{
		{record(`"timeUnixNano":-1`),
			at + ".timeUnixNano (byte 62): an integer from 0 to 18446744073709551615 is expected"},
		{record(`"severityNumber":true`), at + `.severityNumber (byte 64): a number is expected, not 't'`},
		{record(`"severityText":7`), at + `.severityText (byte 62): a text is expected, not '7'`},
		{record(`"body":"x"`), at + `.body (byte 54): an object is expected, not '"'`},
		{record(`"body":{"intValue":1,"boolValue":true}`), at + `.body.boolValue (byte 68): intValue excludes it`},
		{record(`"body":{"bytesValue":"?"}`), at + `.body.bytesValue (byte 68): the text is not base64`},
		{record(`"attributes":{}`), at + `.attributes (byte 60): an array is expected, not '{'`},
		{record(`"flags":4294967296`), at + `.flags (byte 55): an integer from 0 to 4294967295 is expected`},
		{record(`"eventName":"a","event_name":"b"`), at + `.eventName (byte 63): the field occurs twice`},
		{record(`},{`), "resourceLogs[0].scopeLogs[0].logRecords[1] (byte 49): more than 1 in a request"},
	})
}

func TestBadMetricsAreRefusedWithTheirPlace(t *testing.T) {
	const at = "resourceMetrics[0].scopeMetrics[0].metrics[0]"
	requireRefusals(t, func(body string) error {
		return otlpwire.New(otlpwire.Limits{MaxItems: 1}).Metrics([]byte(body), func(*otlpwire.Point) error { return nil })
	}, [][2]string{
		{item("\x0a\x05x"), at + " (byte 6): 5 bytes are expected, 1 are left"},
		{item(inField(12, inField(2, "\x0f"))),
			at + ".metadata[0].value (byte 10): a field of wire type 7 is not expected here"},
		{item(inField(7, "\x10\x80")), at + ".sum (byte 8): a number does not end, or is too large"},
		{item(inField(7, inField(1, "\x21x"))),
			at + ".sum.dataPoints[0] (byte 10): 8 bytes are expected, 1 are left"},
		{item(inField(7, inField(1, inField(5, "\x0f"))) + inField(5, "")),
			at + ".sum.dataPoints[0].exemplars[0] (byte 12): a field of wire type 7 is not expected here"},
		{item(inField(9, inField(1, inField(6, "12345678x")))),
			at + ".histogram.dataPoints[0].bucketCounts (byte 20): 8 bytes are expected, 1 are left"},
		{item(inField(9, inField(1, inField(7, "x")))),
			at + ".histogram.dataPoints[0].explicitBounds (byte 12): 8 bytes are expected, 1 are left"},
		{item(inField(10, inField(1, inField(8, inField(2, "\x01\x80"))))), at + ".exponentialHistogram.dataPoints[0]" +
			".positive.bucketCounts (byte 15): a number does not end, or is too large"},
		{item(inField(11, inField(1, inField(6, "\x0f")))),
			at + ".summary.dataPoints[0].quantileValues[0] (byte 12): a field of wire type 7 is not expected here"},
		{item(inField(5, inField(1, "")+inField(1, ""))), at + ".gauge.dataPoints[1] (byte 12): more than 1 in a request"},
	})
	metric := func(fields string) string {
		return `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{` + fields + `}]}]}]}`
	}
	requireRefusals(t, func(body string) error {
		return otlpwire.New(otlpwire.Limits{MaxItems: 1}).MetricsJSON([]byte(body),
			func(*otlpwire.Point) error { return nil })
	}, [][2]string{
		{metric(`"sum":{},"gauge":{}`), at + ".gauge (byte 59): sum excludes it"},
		{metric(`"sum":{"dataPoints":[{"asInt":1,"asDouble":1}]}`),
			at + ".sum.dataPoints[0].asDouble (byte 82): asInt excludes it"},
		{metric(`"sum":{"isMonotonic":1}`), at + ".sum.isMonotonic (byte 71): true or false is expected, not '1'"},
		{metric(`"histogram":{"dataPoints":[{"bucketCounts":[1,-1]}]}`), at + ".histogram.dataPoints[0].bucketCounts[1] " +
			"(byte 96): an integer from 0 to 18446744073709551615 is expected"},
		{metric(`"histogram":{"dataPoints":[{"explicitBounds":["x"]}]}`), at +
			".histogram.dataPoints[0].explicitBounds[0] (byte 96): a number of 64 bits is expected"},
		{metric(`"exponentialHistogram":{"dataPoints":[{"scale":2147483648}]}`), at +
			".exponentialHistogram.dataPoints[0].scale (byte 97): an integer from -2147483648 to 2147483647 is expected"},
		{metric(`"gauge":{"dataPoints":[{},{}]}`), at + ".gauge.dataPoints[1] (byte 76): more than 1 in a request"},
	})
}

// requireRefusals requires that each body is refused with its error.
func requireRefusals(t *testing.T, decode func(body string) error, bodies [][2]string) {
	for _, c := range bodies {
		var err *otlpwire.Error
		require.ErrorAs(t, decode(c[0]), &err, "%q", c[0])
		require.Equal(t, c[1], err.Error(), "%q", c[0])
	}
}

func TestLogOfABadIDHasNone(t *testing.T) {
	body := `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"traceId":"5b8e","spanId":"eee19b7ec3c1b174"}]}]}]}`
	calls := 0
	require.NoError(t, otlpwire.New(otlpwire.Limits{}).LogsJSON([]byte(body), func(r *otlpwire.LogRecord) error {
		calls++
		require.True(t, r.BadID)
		require.Zero(t, r.TraceID)
		require.NotZero(t, r.SpanID)
		return nil
	}))
	require.Equal(t, 1, calls)
}

func TestBoundsHoldForLogs(t *testing.T) {
	record := logRecord()
	record.Body = text("", "0123456789").Value
	d, calls := otlpwire.New(otlpwire.Limits{MaxAttrs: 1, MaxValueBytes: 8}), 0
	require.NoError(t, d.Logs(marshal(t, serviceLogs("s", record)), func(r *otlpwire.LogRecord) error {
		calls++
		require.Len(t, r.Attrs, 1)
		require.Equal(t, "01234567", string(r.Body.Bytes))
		return nil
	}))
	require.Equal(t, 1, calls)
	require.Equal(t, 4, d.Losses().Cut, "two keys, an attribute and the body")
}
