package web

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/otlp"
	"github.com/sloengine/sloengine/ingest/rejects"
	"github.com/sloengine/sloengine/web/api"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

func someRejects() []status.RejectedCode {
	sender := func(token, address, sample string, n uint64) status.RejectedSender {
		return status.RejectedSender{Sender: rejects.Sender{Token: token, Address: address}, Service: hostile[0], Count: n,
			First: noon.Add(-time.Hour), Last: noon.Add(-time.Minute), Detail: "service " + hostile[0], Sample: sample}
	}
	many := status.RejectedCode{Code: "unknown_type", Events: 60, Last: noon, Others: 40,
		Senders: []status.RejectedSender{}}
	for range 10 {
		many.Senders = append(many.Senders, sender("t", "", "", 2))
	}
	return []status.RejectedCode{
		many,
		{Code: "unknown_service", Events: 1234, Last: noon,
			Senders: []status.RejectedSender{sender("shop", "", `{"service":"`+hostile[0]+`"}`, 1234)}},
		{Code: "unauthorized", Requests: 3, Last: noon, Senders: []status.RejectedSender{sender("", "192.0.2.7", "", 3)}},
	}
}

func TestRejectsAreOnTheEnginePage(t *testing.T) {
	b := newBench(t)
	require.NotContains(t, b.get("/engine").Body.String(), `id="rejects"`)
	b.web.Opt.Rejects, b.web.Opt.Unknown = someRejects, func() []status.UnknownType { return nil }
	page := b.get("/engine").Body.String()
	check(t, page)
	_, section, _ := strings.Cut(page, `id="rejects"`)
	for _, want := range []string{"token shop", "192.0.2.7", "unknown_service", "1,234", "others"} {
		require.Contains(t, section, want)
	}
	require.NotContains(t, section, hostile[0], "what a sender wrote is escaped")
	rows := strings.Count(section[:strings.Index(section, "</table>")], "<tr>") - 1
	require.Equal(t, 5+1+1+1, rows, "five senders of a code, the others together, and the other codes")
}

func someUnknown() []status.UnknownType {
	row := func(code event.Code, typ string, n, dead uint64) status.UnknownType {
		return status.UnknownType{Code: code, Service: "shop", Type: typ, Events: n, DeadLetters: dead,
			First: noon.Add(-24 * time.Hour), Last: noon.Add(-time.Minute)}
	}
	return []status.UnknownType{row(event.CodeUnknownService, hostile[0], 1234, 0),
		row(event.CodeUnknownType, "ordr", 7, 3),
		row(event.CodeUnknownType, "job", 7, 7), row(rejects.Uncounted, "visit", 9, 0)}
}

func TestUnknownTypesAreOnTheEnginePage(t *testing.T) {
	b := newBench(t)
	b.web.Opt.Rejects, b.web.Opt.Unknown = someRejects, func() []status.UnknownType { return nil }
	require.NotContains(t, b.get("/engine").Body.String(), `id="unknown"`)
	b.web.Opt.Unknown = someUnknown
	page := b.get("/engine").Body.String()
	check(t, page)
	_, section, _ := strings.Cut(page, `id="unknown"`)
	section, _, _ = strings.Cut(section, "</section>")
	for _, want := range []string{"1,234", "rejected: unknown service", "rejected, 3 as dead letters", "dead letters",
		"stored, not counted", "2026-11-20"} {
		require.Contains(t, section, want)
	}
	require.NotContains(t, section, hostile[0], "what a sender wrote is escaped")
	b.web.Opt.Unknown = func() (list []status.UnknownType) { return slices.Repeat(someUnknown(), 10) }
	require.Contains(t, b.get("/engine").Body.String(), "and 10 more")
}

func someSeen() []status.SeenService {
	return []status.SeenService{
		{Name: hostile[0], Spans: 1200, Failures: 12, P95Seconds: 0.256, Spec: "# " + hostile[0],
			Operations: []status.SeenOperation{{Name: "GET " + hostile[0], Type: "server", Spans: 1200}}},
		{Name: "shop", Known: true, Spans: 3,
			Operations: []status.SeenOperation{{Name: "nightly", Type: "internal", Spans: 3}}},
		{Name: "bank", Known: true, Spans: 2, Operations: []status.SeenOperation{{Name: "x", Type: "consumer", Spans: 2}}},
		{Name: "(no service.name)", Spans: 1, Operations: []status.SeenOperation{{Name: "x", Type: "server", Spans: 1}}},
	}
}

func TestTrafficThatNoSpecCounts(t *testing.T) {
	b := newBench(t)
	require.NotContains(t, b.get("/engine").Body.String(), `id="seen"`)
	b.web.Opt.Seen = someSeen
	require.NotContains(t, b.get("/").Body.String(), "OpenTelemetry")
	page := b.get("/engine").Body.String()
	check(t, page)
	_, section, _ := strings.Cut(page, `id="seen"`)
	section, _, _ = strings.Cut(section, "</section>")
	for _, want := range []string{"1,200", "1.0%", "A spec to copy", "sloengine init --from-traffic",
		"kind: internal, name: &#34;nightly&#34;, type: job}", "no type consumer", "OTEL_SERVICE_NAME"} {
		require.Contains(t, section, want)
	}
	require.NotContains(t, section, hostile[0], "what a sender wrote is escaped")
	empty(b)
	page = b.get("/").Body.String()
	check(t, page)
	require.Contains(t, page, "4 services sent OpenTelemetry spans that no spec counts")
}

// TestWrongNumbers shows what senders do to the numbers of a service, on the pages that show these.
func TestWrongNumbers(t *testing.T) {
	b := newBench(t)
	const shown = "/slo?id=mdm/availability"
	b.web.Opt.Findings = func() []status.Finding {
		return []status.Finding{
			{Reason: otlp.SampledByOutcome, Service: "mdm"}, {Reason: otlp.SampledWork, Service: "mdm"},
			{Reason: otlp.TwoSignals, Service: "other", Type: "job"},
		}
	}
	page := b.get("/engine").Body.String()
	check(t, page)
	_, section, _ := strings.Cut(page, `id="findings"`)
	section, _, _ = strings.Cut(section, "</section>")
	require.Equal(t, 3, strings.Count(section, "<li>"))
	require.Contains(t, section, "more than one signal (spans, log records, metrics) of other has the type job.")
	page = b.get(shown).Body.String()
	check(t, page)
	require.Contains(t, page, "Ratios are biased: spans of mdm were sampled by outcome.")
	require.NotContains(t, page, "Completion is unreliable", "it follows no work")
	require.NotContains(t, page, "Operations may count twice")
	b.web.Opt.Findings = func() []status.Finding { return nil }
	require.NotContains(t, b.get("/engine").Body.String(), `id="findings"`)
	limited := newScope([]string{"other"}).restrict(site.Options{Condition: site.Condition{
		Findings: func() []status.Finding { return []status.Finding{{Service: "mdm"}, {Service: "other"}} }}})
	require.Equal(t, []status.Finding{{Service: "other"}}, limited.Findings())
}

// uncounted holds what is said about spans that no spec counts to the contract.
func (k *contract) uncounted(b *bench) {
	defer func() { b.web.Opt.Seen = nil }()
	k.answer(b, http.MethodGet, api.SeenPath, 501)
	b.web.Opt.Seen = func() []status.SeenService { return nil }
	require.JSONEq(k.t, `{"items":[]}`, string(k.answer(b, http.MethodGet, api.SeenPath, 200)))
	b.web.Opt.Seen = someSeen
	k.answer(b, http.MethodGet, api.SeenPath, 200)
}

// rejects holds what is said about rejected events to the contract.
func (k *contract) rejects(b *bench) {
	defer func() { b.web.Opt.Rejects = nil }()
	k.answer(b, http.MethodGet, api.RejectsPath, 501)
	b.web.Opt.Rejects = func() []status.RejectedCode { return nil }
	b.web.Opt.Unknown = func() []status.UnknownType { return nil }
	require.JSONEq(k.t, `{"items":[],"types":[]}`, string(k.answer(b, http.MethodGet, api.RejectsPath, 200)))
	b.web.Opt.Rejects, b.web.Opt.Unknown = someRejects, someUnknown
	k.answer(b, http.MethodGet, api.RejectsPath, 200)
}
