package source

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/mapping"
)

const at = "2026-11-20T11:59:00Z"

func TestFormats(t *testing.T) {
	const one = `{"id":"a","service":"shop","type":"order"}`
	const cloud = `{"specversion":"1.0","id":"7","source":"shop","type":"order","data":{"duration_ms":5}}`
	cases := map[string]struct {
		format  Format
		value   string
		headers headerList
		ids     []string
	}{
		"object": {FormatAuto, one, nil, []string{"a"}},
		"array": {FormatAuto, `[` + one + `,{"service":"shop","type":"order"}]`, nil,
			[]string{"a", "orders@g/3/42/1"}},
		"lines, guessed": {FormatAuto, one + "\n" + strings.Replace(one, "a", "b", 1) + "\n",
			nil, []string{"a", "b"}},
		"lines, by header": {
			FormatAuto, one + "\n", headerList{{"Content-Type", "application/x-ndjson; charset=utf-8"}}, []string{"a"}},
		"lines":               {FormatNDJSON, one + "\n" + one, nil, []string{"a", "a"}},
		"CloudEvent, guessed": {FormatAuto, cloud, nil, []string{"7"}},
		"CloudEvent":          {FormatCloudEvents, cloud, nil, []string{"7"}},
		"CloudEvent, by header": {
			FormatAuto, cloud, headerList{{"content-type", "application/cloudevents+json"}}, []string{"7"}},
		"CloudEvents, guessed": {FormatAuto, `[` + cloud + `]`, nil, []string{"7"}},
		"CloudEvents":          {FormatCloudEventsBatch, `[` + cloud + `,` + cloud + `]`, nil, []string{"7", "7"}},
		"CloudEvents, by header": {
			FormatAuto, `[` + cloud + `]`, headerList{{"content-type", "application/cloudevents-batch+json"}}, []string{"7"}},
		"binary CloudEvent, Kafka": {FormatAuto, `{"duration_ms":5}`,
			headerList{{"ce_specversion", "1.0"}, {"ce_id", "7"}, {"ce_source", "/shop"}, {"ce_type", "order"}, {"ce_time", at},
				{"content-type", "application/json"}}, []string{"7"}},
		"binary CloudEvent, AMQP": {FormatCloudEvents, `{}`,
			headerList{{"cloudEvents:specversion", "1.0"}, {"cloudEvents:id", "8"}, {"cloudEvents:source", "/shop"},
				{"cloudEvents_type", "order"}}, []string{"8"}},
		"without an id":   {FormatJSON, `{"service":"shop","type":"order"}`, nil, []string{"orders@g/3/42"}},
		"byte order mark": {FormatAuto, "\xef\xbb\xbf" + one + "\n" + one, nil, []string{"a", "a"}},
		"a tombstone":     {FormatAuto, "", nil, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, func(o *Options) { o.Settings.Format = c.format })
			m := Message{Value: []byte(c.value), Partition: 3, Offset: 42, Generation: "g", Time: now.Add(-time.Minute)}
			if c.headers != nil {
				m.Headers = c.headers
			}
			var ids []string
			for _, e := range f.take(t, m) {
				ids = append(ids, e["id"].(string))
				require.Equal(t, "shop", e["service"])
				require.Equal(t, at, e["time"])
			}
			require.Empty(t, f.dead)
			require.Equal(t, c.ids, ids)
		})
	}
}

func TestHeadersAsAttributes(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.Settings.Headers = map[string]string{"tenant": "X-Tenant", "trace": "traceparent"}
	})
	got := f.take(t, Message{Value: []byte(`{"service":"shop","type":"order","attributes":{"product":"p"}}`),
		Headers: headerList{{"x-tenant", "old"}, {"x-tenant", "t1"}}})
	require.Equal(t, map[string]any{"tenant": "t1", "product": "p"}, got[0]["attributes"])
}

func TestMapping(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.Settings.Map = &mapping.Settings{
			Service: "order-service", Type: ".payload.kind", ID: ".meta.number", Time: ".meta.at", DurationMS: ".payload.took",
			FailureIf: `number(text(".payload.status"), 0) >= 500 or has(".error")`, Severity: ".level",
			Attributes: map[string]string{"product": ".payload.items.0.sku", "region": "eu", "odd": `.payload."a.b"`,
				"absent": ".nothing"},
		}
	})
	got := f.take(t,
		Message{
			Value: []byte(
				`{"meta":{"number":17,"at":1795175940},"level":"critical","payload":{"kind":"paid","took":12.5,"status":503,` +
					`"items":[{"sku":"s-1"}],"a.b":true}}`)},
		Message{Value: []byte(`[{"payload":{"kind":"paid","status":"200"}},{"payload":{"kind":"paid"},"error":null}]`),
			Offset: 5, Time: now.Add(-time.Minute)},
	)
	require.Equal(t, map[string]any{
		"id": "17", "service": "order-service", "type": "paid", "time": "2026-11-20T11:59:00Z", "duration_ms": 12.5,
		"outcome": "failure", "severity": "critical",
		"attributes": map[string]any{"product": "s-1", "region": "eu", "odd": "true"},
	}, got[0])
	require.Equal(t, map[string]any{"id": "orders/0/5", "service": "order-service", "type": "paid", "time": at,
		"attributes": map[string]any{"region": "eu"}}, got[1])
	require.Equal(t, "failure", got[2]["outcome"])

	// A mapped event is checked like any event, and the dead letter holds its source.
	require.Empty(
		t, f.take(t, Message{Value: []byte(`{"payload":{"status":1}}`), Offset: 6}, Message{Value: []byte(`{"x`), Offset: 7}))
	require.Len(t, f.dead, 2)
	var reasons []string
	for _, e := range f.saved {
		reasons = append(reasons, e.Reason+" "+e.Class+" "+string(e.Raw))
	}
	require.Equal(t, []string{`rejected missing_field {"payload":{"status":1}}`, `unreadable invalid_json {"x`}, reasons)
}

// The data of CloudEvents that are the producer's own object are mapped in every mode, as over HTTP.
func TestMappedCloudEvents(t *testing.T) {
	const own = `{"took":12.5,"product":"p-1"}`
	const cloud = `{"specversion":"1.0","id":"7","source":"shop","type":"order","time":"` + at + `","data":` + own + `}`
	binary := headerList{{"ce_specversion", "1.0"}, {"ce_id", "7"}, {"ce_source", "/shop"},
		{"ce_type", "order"}, {"ce_time", at}}
	own0 := mapping.Settings{DurationMS: ".took", Attributes: map[string]string{"product": ".product"}}
	named := own0
	named.Service, named.Type = "shop", "order"
	for name, c := range map[string]struct {
		format  Format
		mapping mapping.Settings
		value   string
		headers Headers
	}{
		"structured":      {FormatCloudEvents, own0, cloud, nil},
		"batch":           {FormatCloudEventsBatch, own0, "[" + cloud + "]", nil},
		"binary":          {FormatCloudEvents, own0, own, binary},
		"binary, guessed": {FormatAuto, named, own, binary},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, func(o *Options) { o.Settings.Format, o.Settings.Map = c.format, &c.mapping })
			require.Equal(t, []map[string]any{{
				"id": "7", "service": "shop", "type": "order", "time": at, "duration_ms": 12.5,
				"attributes": map[string]any{"product": "p-1"},
			}}, f.take(t, Message{Value: []byte(c.value), Headers: c.headers}))
			require.Empty(t, f.dead)
			// A message that cannot be mapped to an event becomes a whole dead letter, and those behind it are read.
			bad := Message{Value: []byte(strings.Replace(c.value, "12.5", `"x"`, 1)), Headers: c.headers, Offset: 1}
			require.Len(t, f.take(t, bad, Message{Value: []byte(c.value), Headers: c.headers, Offset: 2}), 1)
			require.Len(t, f.saved, 1)
			require.Contains(t, string(f.saved[0].Raw), `"took":"x"`)
		})
	}
}

func TestBadSettings(t *testing.T) {
	for want, change := range map[string]func(s *Settings){
		`map.type: invalid path ".a..b"`:     func(s *Settings) { s.Map = &mapping.Settings{Service: "s", Type: ".a..b"} },
		`map.type: invalid path "."`:         func(s *Settings) { s.Map = &mapping.Settings{Service: "s", Type: "."} },
		`map.type: invalid path ".\"a"`:      func(s *Settings) { s.Map = &mapping.Settings{Service: "s", Type: `."a`} },
		`map: service and type are required`: func(s *Settings) { s.Map = &mapping.Settings{Service: "s"} },
		`map.duration_ms: "fast" is neither`: func(s *Settings) {
			s.Map = &mapping.Settings{Service: "s", Type: "t", DurationMS: "fast"}
		},
		`map.failure_if: outcome and failure_if`: func(s *Settings) {
			s.Map = &mapping.Settings{Service: "s", Type: "t", Outcome: ".o", FailureIf: "true"}
		},
		`map.duration: duration and duration_ms`: func(s *Settings) {
			s.Map = &mapping.Settings{Service: "s", Type: "t", Duration: ".o", DurationMS: ".p"}
		},
		`map.failure_if: line 1, column 1`: func(s *Settings) {
			s.Map = &mapping.Settings{Service: "s", Type: "t", FailureIf: "status > 5"}
		},
		`map.attributes.slo_x: "slo_x" cannot`: func(s *Settings) {
			s.Map = &mapping.Settings{Service: "s", Type: "t", Attributes: map[string]string{"slo_x": ".a"}}
		},
		`headers.1a: "1a" cannot be the name`: func(s *Settings) { s.Headers = map[string]string{"1a": "X"} },
		`headers.a: the name of a header has`: func(s *Settings) { s.Headers = map[string]string{"a": ""} },
	} {
		s := Defaults()
		change(&s)
		require.ErrorContains(t, s.Validate(false), want)
	}
}

func TestBackfill(t *testing.T) {
	value := []byte(`{"service":"shop","type":"order"}`)
	old := now.Add(-25 * time.Hour)
	cases := []struct {
		mode     BackfillMode
		time     time.Time
		refold   bool
		backfill bool
	}{
		{BackfillAuto, now, false, false},
		{BackfillAuto, now.Add(-24 * time.Hour), false, false},
		{BackfillAuto, old, false, true},
		{BackfillAuto, now, true, true},
		{BackfillAuto, time.Time{}, false, false},
		{BackfillAlways, now, false, true},
	}
	for _, c := range cases {
		f := newFixture(t, func(o *Options) { o.Settings.Backfill = c.mode })
		f.take(t, Message{Value: value, Time: c.time, Refold: c.refold})
		require.Equal(t, []bool{c.backfill}, f.engine.backfill, "%+v", c)
	}
	// Without backfill, old events are dead letters with advice. In a backfill, those that are older than any window
	// are only counted.
	f := newFixture(t, func(o *Options) { o.Settings.Backfill = BackfillNever })
	require.Empty(t, f.take(t, Message{Value: value, Time: old}))
	require.Contains(t, f.saved[0].Error, "Set backfill of the source to auto or always.")
	require.Equal(t, string(event.CodeTimeTooOld), f.saved[0].Class)
	f = newFixture(t, func(o *Options) { o.MaxBackfill = func() time.Duration { return 48 * time.Hour } })
	require.Empty(t, f.take(t, Message{Value: value, Time: now.Add(-49 * time.Hour)}))
	require.Empty(t, f.saved)
	require.EqualValues(t, 1, f.Totals().Expired)
	require.Zero(t, f.Totals().DeadLetters)
}
