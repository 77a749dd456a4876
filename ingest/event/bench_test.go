package event

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fastjson"
)

var now = time.Date(2026, 11, 20, 9, 0, 30, 0, time.UTC)

// typicalLine is 255 bytes, as most events are.
const typicalLine = `{"id":"pol-42-issued-000001","time":"2026-11-20T09:00:00.123Z","service":"insurance-unpaid",` +
	`"type":"application","outcome":"failure","severity":"critical","duration_ms":812,"attributes":{"product":"MEDCARE",` +
	`"stage":"CREATE_APPLICATION","channel":"front"}}`

// typicalBody is an NDJSON body of n different events.
func typicalBody(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		line := bytes.Replace([]byte(typicalLine), []byte("000001"), fmt.Appendf(nil, "%06d", i), 1)
		b.Write(line)
		b.WriteByte('\n')
	}
	return b.Bytes()
}

func TestTypicalLineIsTypical(t *testing.T) { require.Len(t, typicalLine, 255) }

// A body of ordinary events costs no allocation once the batch has grown.
func TestDecodeAllocatesNothing(t *testing.T) {
	catalog := NewCatalog(map[string][]string{"insurance-unpaid": {"application", "task"}})
	opt := DecodeOptions{Now: now, Catalog: catalog, AllowService: func(s []byte) bool { return len(s) > 0 }}
	var d Decoder
	var b Batch
	plain := typicalBody(100)
	array := append(append([]byte("["), bytes.ReplaceAll(bytes.TrimSpace(plain), []byte("\n"), []byte(","))...), ']')
	escaped := bytes.ReplaceAll(plain, []byte("MEDCARE"), []byte(`M\u0415\"Dж`))
	for _, c := range []struct {
		name   string
		format Format
		body   []byte
	}{{"ndjson", NDJSON, plain}, {"array", JSON, array}, {"escapes", NDJSON, escaped}} {
		t.Run(c.name, func(t *testing.T) {
			n := testing.AllocsPerRun(20, func() {
				if err := d.Decode(c.format, c.body, opt, &b); err != nil || len(b.Events) != 100 {
					t.Fatal(err, b.Errors)
				}
			})
			require.Zero(t, n)
		})
	}
}

func TestViewAllocatesNothing(t *testing.T) {
	b := AppendBinary(nil, sample())
	var v View
	sum := 0
	n := testing.AllocsPerRun(20, func() {
		_, err := v.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range v.Attrs {
			sum += len(name) + len(value)
		}
		for d, n := range v.Durations {
			sum += int(d) + int(n)
		}
		value, _ := v.Attr("product")
		sum += len(value)
	})
	require.Zero(t, n)
}

func BenchmarkDecodeNDJSON(b *testing.B) {
	const events = 1000
	body := typicalBody(events)
	catalog := NewCatalog(map[string][]string{"insurance-unpaid": {"application", "task"}})
	opt := DecodeOptions{Now: now, Catalog: catalog, AllowService: func(s []byte) bool { return len(s) > 0 }}
	var d Decoder
	var batch Batch
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Decode(NDJSON, body, opt, &batch); err != nil || len(batch.Events) != events {
			b.Fatal(err, batch.Errors)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/events, "ns/event")
}

// BenchmarkFastjsonParse is a yardstick: parsing alone into a tree, with no
// validation, no look at any field, and no output.
func BenchmarkFastjsonParse(b *testing.B) {
	var p fastjson.Parser
	line := []byte(typicalLine)
	for b.Loop() {
		if _, err := p.ParseBytes(line); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkViewParse(b *testing.B) {
	buf := AppendBinary(nil, sample())
	var v View
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Parse(buf); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkViewAttrs(b *testing.B) {
	buf := AppendBinary(nil, sample())
	var v View
	if _, err := v.Parse(buf); err != nil {
		b.Fatal(err)
	}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		for name, value := range v.Attrs {
			n += len(name) + len(value)
		}
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	e := sample()
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = e.AppendJSON(buf[:0])
	}
}

func BenchmarkParseTime(b *testing.B) {
	text := []byte("2026-11-20T09:00:00.123+03:00")
	for b.Loop() {
		if _, ok := ParseTime(text); !ok {
			b.Fatal("refused")
		}
	}
}

func sample() *Event {
	return &Event{
		ID: "pol-42-issued", Time: now, Service: "insurance-unpaid", Type: "application",
		Outcome: Failure, Severity: "critical", Count: 3,
		Attributes: []Attr{{"product", "MEDCARE"}, {"channel", "front"}, {"stage", "CREATE_APPLICATION"}},
		Durations:  []DurationCount{{812 * time.Millisecond, 1}, {time.Second, 2}},
	}
}
