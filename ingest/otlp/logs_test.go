package otlp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/otlp"
	"github.com/sloengine/sloengine/ingest/otlp/otlpwire"
)

// logged are the events, errors and reasons of the log records of a service, in their order.
func logged(t *testing.T, s *otlp.Settings, named []string, service string, records ...string) (out []string) {
	t.Helper()
	for i := range records {
		if !strings.Contains(records[i], "timeUnixNano") {
			records[i] += `,"timeUnixNano":"1799999995000000000"`
		}
		records[i] = "{" + strings.TrimPrefix(records[i], ",") + "}"
	}
	body := fmt.Sprintf(`{"resourceLogs":[{"resource":{%s},"scopeLogs":[{"logRecords":[%s]}]}]}`,
		attrs("service.name="+service), strings.Join(records, ","))
	m := otlp.NewMapper(s, nil, nil)
	catalog := event.NewCatalog(map[string][]string{"shop": nil, "strict": {"request"}})
	var d event.Decoder
	var b event.Batch
	d.Begin(event.DecodeOptions{Now: now, Catalog: catalog}, &b)
	m.Begin(catalog, func([]byte) []string { return named })
	require.NoError(t, otlpwire.New(otlpwire.Limits{}).LogsJSON([]byte(body), func(r *otlpwire.LogRecord) error {
		if draft, why := m.Log(r); draft == nil {
			out = append(out, otlp.Reasons()[why])
		} else {
			d.Add(draft)
		}
		return nil
	}))
	d.End()
	for _, e := range b.Errors {
		out = append(out, string(e.Code)+": "+e.Detail)
	}
	for i := range b.Events {
		var v event.View
		_, err := v.Parse(b.Event(i))
		require.NoError(t, err)
		out = append(out, string(v.AppendJSON(nil)))
	}
	return out
}

func TestLogs(t *testing.T) {
	s := &otlp.Settings{Keep: []string{"job"}, Logs: []otlp.LogRule{
		{Service: "shop", Event: "invoice.sent", Type: "invoice", Duration: "took"},
		{Body: "import * finished", Match: map[string]string{"job": "import"}, Type: "import"},
		{Event: "x", Type: "request"},
	}}
	const begin = `{"id":"1","time":"2027-01-15T07:59:55Z","service":"shop",`
	uid := "log.record.uid=1"
	for record, want := range map[string]string{
		`"body":{"stringValue":"hello"}`: "no_rule",
		`"eventName":"invoice.sent",` + attrs(uid, "took:250"): begin +
			`"type":"invoice","duration_ms":250}`,
		attrs(uid, "event.name=invoice.sent", "took=1.5"): begin +
			`"type":"invoice","duration_ms":1.5}`,
		`"eventName":"invoice.sent",` +
			attrs(uid): "bad_duration: The attribute of duration_ms in the rule is missing, or no number between 0 and " +
			"366 days.",
		`"eventName":"invoice.paid",` + attrs(uid, "event.name=invoice.sent", "took:1"): "no_rule",
		`"body":{"stringValue":"import of 12 rows finished"},"severityNumber":9,` + attrs(uid, "job=import"): begin +
			`"type":"import","attributes":{"job":"import"}}`,
		`"body":{"stringValue":"import of 12 rows finished"},"severityNumber":17,` + attrs(uid, "job=import"): begin +
			`"type":"import","outcome":"failure","attributes":{"job":"import"}}`,
		`"body":{"stringValue":"import finished early"},` + attrs(uid, "job=import"): "no_rule",
		`"body":{"intValue":"1"},` + attrs(uid, "job=import"):                        "no_rule",
		`"eventName":"x","timeUnixNano":"0","observedTimeUnixNano":"1799999995000000000",` + attrs(uid): begin +
			`"type":"request"}`,
		`"eventName":"x","timeUnixNano":"0",` +
			attrs(uid): "bad_time: The log record has no time, or one after the year 2261.",
	} {
		require.Equal(t, []string{want}, logged(t, s, nil, "shop", record), record)
	}
	require.Equal(t, []string{"unknown_service"}, logged(t, s, nil, "cart", `"eventName":"x"`))
	require.Equal(t, []string{"unknown_type"}, logged(t, s, nil, "strict", `"body":{"stringValue":"import a finished"},`+
		attrs("job=import")))
	got := logged(t, s, []string{"trace_id"}, "shop",
		`"eventName":"x","traceId":"0af7651916cd43dd8448eb211c80319c",`+attrs(uid))
	require.Contains(t, got[0], `"attributes":{"trace_id":"0af7651916cd43dd8448eb211c80319c"}`)
}

// Without an id of its own, a record has one by what it says.
func TestIDsOfLogs(t *testing.T) {
	s := &otlp.Settings{Logs: []otlp.LogRule{{Event: "x", Type: "x"}}}
	seen := map[string]string{}
	for _, record := range []string{
		`"eventName":"x"`, `"eventName":"x","timeUnixNano":"1799999995000000001"`, `"eventName":"x","severityNumber":1`,
		`"eventName":"x","body":{"stringValue":"a"}`, `"eventName":"x","body":{"bytesValue":"YQ=="}`,
		`"eventName":"x",` + attrs("a=b"), `"eventName":"x",` + attrs("ab="), `"eventName":"x",` + attrs("=ab"),
		`"eventName":"x",` + attrs("log.record.uid=a\tb"),
	} {
		one, two := logged(t, s, nil, "shop", record), logged(t, s, nil, "shop", record)
		require.Equal(t, one, two, "a resend")
		id, _, _ := strings.Cut(one[0], ",")
		require.Empty(t, seen[id], "%s and %s", record, seen[id])
		require.Len(t, id, len(`{"id":""`)+32)
		seen[id] = record
	}
}
