package otlp_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/counter"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/otlp"
	"github.com/sloengine/sloengine/ingest/otlp/otlpwire"
	"github.com/sloengine/sloengine/internal/testkit"
)

// texts are the findings in short.
func texts(f *otlp.Findings) (out []string) {
	for _, x := range f.Snapshot() {
		out = append(out, fmt.Sprint(otlp.FindingReasons()[x.Reason], " ", x.Service, " ", x.Type))
		if !strings.Contains(x.Text(), x.Service) {
			out = append(out, x.Text())
		}
	}
	return out
}

// TestFindings sends spans of which some are missing, and looks which are found.
func TestFindings(t *testing.T) {
	in := func(fields, span string) []byte {
		return []byte(`{"resourceSpans":[{"resource":{` + attrs("service.name=shop") +
			`},"scopeSpans":[{"scope":{"name":"x",` +
			fields + `},"spans":[` + span + `]}]}]}`)
	}
	sampled, tail := []string{"sampled_work shop "}, []string{"sampled_by_outcome shop "}
	for name, c := range map[string]struct {
		body   []byte
		traced bool
		want   []string
	}{
		"sampled, work by trace": {request(attrs("service.name=shop"), span(`"kind":2,"traceState":"ot=th:8"`)), true,
			sampled},
		"sampled by otlp.sampling": {request(attrs("service.name=half"), span(`"kind":2`)), true,
			[]string{"sampled_work half "}},
		"sampled, no such SLO": {request(attrs("service.name=shop"), span(`"kind":2,"traceState":"ot=th:8"`)), false,
			nil},
		"all are kept": {request(attrs("service.name=shop"), span(`"kind":2,"traceState":"ot=th:0"`)), true, nil},
		"not counted":  {request(attrs("service.name=shop"), span(`"kind":3,"traceState":"ot=th:8"`)), true, nil},
		"unknown service": {request(attrs("service.name=other"), span(`"kind":2,"traceState":"ot=th:8"`)), true,
			nil},
		"a policy on the scope": {in(attrs("tailsampling.policy=errors"), span(`"kind":2`)), false, tail},
		"a cached decision": {in(`"attributes":[{"key":"tailsampling.cached_decision","value":{"boolValue":true}}]`,
			span(`"kind":2`)), false, tail},
		"a policy on the resource": {request(attrs("service.name=shop", "tailsampling.policy=slow"), span(`"kind":2`)), false,
			tail},
		"a policy on the span": {request(attrs("service.name=shop"), span(`"kind":2,`+attrs("tailsampling.policy=x"))),
			false, tail},
		"a rule of Refinery": {request(attrs("service.name=shop"),
			span(`"kind":2,`+attrs("meta.refinery.reason=rules/trace/errors"))), false, tail},
		"Refinery at random": {request(attrs("service.name=shop"),
			span(`"kind":2,`+attrs("meta.refinery.reason=deterministic/chance"))), false, nil},
		"a scope of another kind": {in(attrs("library=x", "tailsampling.policyx=y"), span(`"kind":2`)), false, nil},
		"both": {in(attrs("tailsampling.policy=errors"), span(`"kind":2,"traceState":"ot=th:8"`)), true,
			append(sampled[:1:1], tail...)},
	} {
		t.Run(name, func(t *testing.T) {
			f := otlp.NewFindings(otlp.FindingsOptions{Traced: func([]byte) bool { return c.traced }})
			m := otlp.NewMapper(&otlp.Settings{Services: map[string]string{"half": "half"},
				Sampling: map[string]float64{"half": 0.5}},
				nil, f)
			catalog := event.NewCatalog(map[string][]string{"shop": nil, "half": nil})
			wire := otlpwire.New(otlpwire.Limits{})
			for range 2 {
				m.Begin(catalog, nil)
				require.NoError(t, wire.TracesJSON(c.body, func(s *otlpwire.Span) error { m.Span(s); return nil }))
			}
			require.Equal(t, c.want, texts(f))
			// One resource or scope says nothing about the next.
			m.Begin(catalog, nil)
			require.NoError(t, wire.TracesJSON([]byte(strings.Replace(strings.Replace(string(in("", span(`"kind":2`))), `"x",`,
				`"x"`, 1), "shop", "half", 1)), func(s *otlpwire.Span) error { m.Span(s); return nil }))
			require.NotContains(t, texts(f), "sampled_by_outcome half ")
		})
	}
}

// TestTwoSignals finds an operation that spans and log records feed within an hour.
func TestTwoSignals(t *testing.T) {
	at := now
	var log testkit.Buffer
	f := otlp.NewFindings(otlp.FindingsOptions{Now: func() time.Time { return at },
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	settings := &otlp.Settings{Logs: []otlp.LogRule{{Event: "paid", Type: "server"}, {Event: "sent", Type: "mail"}},
		Metrics: []otlp.MetricRule{{Metric: "mails", Type: "mail"}}}
	m := otlp.NewMapper(settings, nil, f)
	wire := otlpwire.New(otlpwire.Limits{})
	spans := func() {
		m.Begin(nil, nil)
		require.NoError(t, wire.TracesJSON(request(attrs("service.name=shop"), span(`"kind":2`)),
			func(s *otlpwire.Span) error { m.Span(s); return nil }))
	}
	record := func(service, name string) {
		m.Begin(nil, nil)
		require.NoError(t, wire.LogsJSON(fmt.Appendf(nil, `{"resourceLogs":[{"resource":{%s},"scopeLogs":[{"logRecords":[`+
			`{"timeUnixNano":"1799999995000000000","eventName":%q}]}]}]}`, attrs("service.name="+service), name),
			func(r *otlpwire.LogRecord) error { m.Log(r); return nil }))
	}
	metric := func() {
		table := counter.NewTable()
		m.Begin(nil, nil)
		m.Counters(counter.NewBatch(table), func(string, string) []time.Duration { return nil }, nil)
		require.NoError(t,
			wire.MetricsJSON(fmt.Appendf(nil, `{"resourceMetrics":[{"resource":{%s},"scopeMetrics":[{"metrics":[`+
				`{"name":"mails","sum":{"aggregationTemporality":1,"isMonotonic":true,"dataPoints":[{"asInt":"3",`+
				`"startTimeUnixNano":"1799999990000000000","timeUnixNano":"1799999995000000000"}]}}]}]}]}`,
				attrs("service.name=shop")),
				func(p *otlpwire.Point) error { m.Point(p); return nil }))
	}
	spans()
	record("shop", "sent")
	record("pay", "paid")
	require.Empty(t, texts(f), "another type, another service")
	metric()
	require.Equal(t, []string{"two_signals shop mail"}, texts(f))
	at = at.Add(time.Hour)
	spans()
	require.Empty(t, texts(f))
	at = at.Add(59 * time.Minute)
	record("shop", "paid")
	require.Equal(t, []string{"two_signals shop server"}, texts(f))
	at = at.Add(30 * time.Minute)
	record("shop", "paid")
	require.Equal(t, []string{"two_signals shop server"}, texts(f))
	at = at.Add(31 * time.Minute)
	record("shop", "paid") // spans have ended more than an hour ago
	require.Empty(t, texts(f))
	spans()
	require.Equal(t, []string{"two_signals shop server"}, texts(f))
	at = at.Add(2 * time.Hour)
	spans()
	require.Empty(t, texts(f))
	require.Equal(t, 3, strings.Count(log.String(), "numbers of a service are wrong"))
	require.Equal(t, 3, strings.Count(log.String(), "numbers of a service are right again"))
}
