package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/slo"
)

// TestAnswersByteForByte holds the answers of the read API, byte by byte, over groups with forecasts, capacity, work in
// flight and costs, and over groups without data.
func TestAnswersByteForByte(t *testing.T) {
	b := newBench(t)
	priced(t, b)
	withForecasts(b)
	work := withWork(b.rep)
	exhausted := alerts.Live{Kind: alerts.LiveExhausted}
	_, why := exhausted.Spent(slo.Budget{HasData: true, Consumed: 500}, 30*24*time.Hour, 0.001, 18, false)
	b.held = []state.Held{{
		Name: "ErrorBudgetExhausted", Severity: "ticket", Service: "insurance-unpaid", SLO: "insurance-unpaid/availability",
		GroupBy: []string{"product"}, Group: slo.Group{"TRVL10"}, Value: -499,
		Why: why,
	}}
	const one = "/api/v1/slos/insurance-unpaid/availability"
	var got bytes.Buffer
	ask := func(b *bench, targets ...string) {
		for _, target := range targets {
			rec := b.get(target)
			require.Equal(t, http.StatusOK, rec.Code, target)
			fmt.Fprintf(&got, "%s\n%s\n", target, rec.Body)
		}
	}
	ask(b, "/api/v1/slos?limit=5", "/api/v1/slos?service=mdm", "/api/v1/slos?slo=insurance-unpaid/throughput",
		one+"?group.product=TRVL10", apiOf(work),
		one+"/history?group.product=TRVL10&step=12h", "/api/v1/slas", "/api/v1/thresholds",
		"/api/v1/alerts?limit=3", "/api/v1/engine")
	p, _ := periodBench(t)
	p.web.Opt.Incidents = periodIncidents()
	p.rep.SLOs[0].SLO.Cost = newCost(t, "12.50", "EUR")
	p.rep.SLOs[0].Outlook = b.rep.SLOs[1].Outlook
	ask(p, "/api/v1/report?period=2026-W46&days=true", "/api/v1/report?period=2026-W47&zone=Asia/Tokyo")

	testkit.Golden(t, "testdata/answers.txt", got.Bytes())
}

// TestSchemasFieldByField holds the schemas of openapi.json, most of which are derived from types: a field that changes
// its name, its type or whether it may be absent breaks programs that read it.
func TestSchemasFieldByField(t *testing.T) {
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]map[string]any
				Required   []string
			}
		}
	}
	require.NoError(t, json.Unmarshal(newBench(t).get("/openapi.json").Body.Bytes(), &doc))
	var got bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(doc.Components.Schemas)) {
		s := doc.Components.Schemas[name]
		for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
			p := s.Properties[field]
			delete(p, "description")
			typed := p["type"] != nil || p["$ref"] != nil || p["allOf"] != nil || p["oneOf"] != nil
			typed = typed || name == "DeadLetter" && field == "event" // any JSON
			require.True(t, typed, "openapi.json describes %s.%s, which no type has", name, field)
			schema, err := json.Marshal(p)
			require.NoError(t, err)
			need := "optional"
			if slices.Contains(s.Required, field) {
				need = "required"
			}
			fmt.Fprintf(&got, "%s.%s %s %s\n", name, field, need, schema)
		}
	}
	testkit.Golden(t, "testdata/openapi_fields.txt", got.Bytes())
}
