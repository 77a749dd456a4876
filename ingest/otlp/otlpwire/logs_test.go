package otlpwire_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/proto"

	"github.com/sloengine/sloengine/ingest/otlp/otlpwire"
)

func serviceLogs(name string, records ...*logs.LogRecord) *logs.LogsData {
	return &logs.LogsData{ResourceLogs: []*logs.ResourceLogs{{
		Resource:  &resource.Resource{Attributes: []*common.KeyValue{text("service.name", name)}},
		ScopeLogs: []*logs.ScopeLogs{{Scope: &common.InstrumentationScope{Name: "lib"}, LogRecords: records}},
	}}}
}

// logRecord has every field.
func logRecord() *logs.LogRecord {
	return &logs.LogRecord{TimeUnixNano: 1544712660000000000, ObservedTimeUnixNano: 1544712661000000000,
		SeverityNumber: logs.SeverityNumber_SEVERITY_NUMBER_ERROR2, SeverityText: "Error",
		Body: text("", "payment failed").Value, TraceId: []byte("0123456789abcdef"), SpanId: []byte("01234567"), Flags: 1,
		EventName: "payment", Attributes: []*common.KeyValue{text("http.route", "/cart"), text("order.id", "o-1")}}
}

func TestLogRecordHasItsFields(t *testing.T) {
	calls := 0
	err := otlpwire.New(otlpwire.Limits{}).Logs(marshal(t, serviceLogs("shop", logRecord())),
		func(r *otlpwire.LogRecord) error {
			calls++
			name, _ := otlpwire.Lookup(r.Resource, "service.name")
			route, _ := otlpwire.Lookup(r.Attrs, "http.route")
			require.Equal(t, "shop lib /cart Error payment failed payment", fmt.Sprintf("%s %s %s %s %s %s", name.Bytes,
				r.ScopeName, route.Bytes, r.SeverityText, r.Body.Bytes, r.EventName))
			require.Equal(t, uint8(18), r.Severity)
			require.Equal(t, []uint64{1544712660000000000, 1544712661000000000}, []uint64{r.Time, r.ObservedTime})
			require.Equal(t, "0123456789abcdef01234567", string(r.TraceID[:])+string(r.SpanID[:]))
			require.False(t, r.BadID)
			require.Equal(t, uint32(1), r.Flags)
			return nil
		})
	require.NoError(t, err)
	require.Equal(t, 1, calls)
}

func renderLog(r *otlpwire.LogRecord) string {
	ids := fmt.Sprintf("%x/%x", r.TraceID, r.SpanID)
	if r.BadID {
		ids = "bad"
	}
	return fmt.Sprintf("%s flags %d severity %d %q at %d, %d event %q body %s", ids, r.Flags, r.Severity,
		plain(r.SeverityText), r.Time, r.ObservedTime, plain(r.EventName), render(asOfficial(r.Body)))
}

func renderOfficialLog(r *logs.LogRecord) string {
	ids := "bad"
	if traces, spans := len(r.TraceId), len(r.SpanId); (traces == 0 || traces == 16) && (spans == 0 || spans == 8) {
		ids = fmt.Sprintf("%x/%x", append(r.TraceId, make([]byte, 16-traces)...), append(r.SpanId, make([]byte, 8-spans)...))
	}
	return fmt.Sprintf("%s flags %d severity %d %q at %d, %d event %q body %s", ids, r.Flags, defined(r.SeverityNumber),
		plain(r.SeverityText), r.TimeUnixNano, r.ObservedTimeUnixNano, plain(r.EventName), render(r.Body))
}

func officialLogs(data *logs.LogsData) (out []seen) {
	for i, r := range data.ResourceLogs {
		for _, sc := range r.ScopeLogs {
			for _, l := range sc.LogRecords {
				out = append(out, seen{fmt.Sprint(i, "/", len(out)), renderAttrs(r.Resource.GetAttributes()),
					renderAttrs(l.Attributes), plain(sc.Scope.GetName()), renderOfficialLog(l)})
			}
		}
	}
	return out
}

func compareLogs(t require.TestingT, d *otlpwire.Decoder, body []byte, inJSON bool) {
	var data logs.LogsData
	officialErr := officialIn(body, inJSON, &data)
	decode := d.Logs
	if inJSON {
		decode = d.LogsJSON
	}
	var ours []seen
	err := decode(body, func(r *otlpwire.LogRecord) error {
		ours = append(ours, seenAs(r.Origin, r.Attrs, renderLog(r)))
		return nil
	})
	sameAnswer(t, body, ours, err, d.Losses(), officialLogs(&data), officialErr)
}

func TestLogRecordsAreThoseOfTheOfficialDecoder(t *testing.T) {
	checkRandom(t, func() proto.Message { return &logs.LogsData{} }, compareLogs)
}

func FuzzLogs(f *testing.F) {
	f.Add(marshal(f, serviceLogs("shop", logRecord())))
	f.Fuzz(func(t *testing.T, body []byte) { compareLogs(t, otlpwire.New(exact), body, false) })
}

func FuzzLogsJSON(f *testing.F) {
	f.Add([]byte(`{"resourceLogs":[{"resource":{"attributes":[{"key":"a","value":{"boolValue":true}}]},"scopeLogs":[{` +
		`"scope":{"name":"lib"},"logRecords":[{"timeUnixNano":"1","observed_time_unix_nano":2,"severityNumber":` +
		`"SEVERITY_NUMBER_INFO2","severityText":"I","body":{"kvlistValue":{"values":[{"key":"k",` +
		`"value":{"intValue":"1"}}]}},"attributes":[],"flags":1,"traceId":"5b8efff798038103d269b633813fc60c",` +
		`"spanId":"eee19b7ec3c1b174","eventName":"e"}]}]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) { compareLogs(t, otlpwire.New(exact), body, true) })
}

func TestLogRecordsCostNoAllocation(t *testing.T) {
	d := otlpwire.New(otlpwire.Limits{})
	n := 0
	count := func(*otlpwire.LogRecord) error { n++; return nil }
	requireNoAllocations(t, manyLogs, &n, func(b []byte) error { return d.Logs(b, count) },
		func(b []byte) error { return d.LogsJSON(b, count) })
}

func manyLogs(n int) proto.Message {
	list := make([]*logs.LogRecord, n)
	for i := range list {
		list[i] = logRecord()
	}
	return serviceLogs("shop", list...)
}

func BenchmarkLogs(b *testing.B) {
	d := otlpwire.New(otlpwire.Limits{})
	drop := func(*otlpwire.LogRecord) error { return nil }
	benchmark(b, manyLogs(1000), 1000, func(body []byte) error { return d.Logs(body, drop) },
		func(body []byte) error { return d.LogsJSON(body, drop) })
}
