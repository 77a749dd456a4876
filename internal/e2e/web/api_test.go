package web

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
)

const apiSpec = `version: sloengine/v1
service: shop
types: [order]
slos:
  - name: checkout
    objective: 99.9
    group_by: [country]
    indicator:
      events: {valid: '{type="order"}', bad: '{outcome="failure"}'}
  - name: latency
    objective: 95
    indicator:
      latency: {valid: '{type="order"}', threshold: 1s}
limits:
  - {name: slow, match: '{type="order"}', warning: 1s, critical: 5s}
slas:
  - name: all
    components:
      availability: {slo: latency, weight: 100}
`

// TestAnswersMatchOpenAPI asks a real engine and holds every answer against the
// document that it serves.
func TestAnswersMatchOpenAPI(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spec := e2etest.WriteFile(t, dir, "spec.yaml", apiSpec)
	p := e2etest.Serve(t, dir, spec,
		"evaluator: {interval: 100ms}\nlimits: {contexts: [{name: country, from: [\"attribute:country\"]}]}\nreports: "+
			"[{name: weekly, every: week, to: {folder: out}}]\n")

	doc := e2etest.Get(t, p.Base+"/openapi.json")
	loaded, err := openapi3.NewLoader().LoadFromData(doc)
	require.NoError(t, err)
	require.NoError(t, loaded.Validate(context.Background()))
	loaded.Servers = openapi3.Servers{{URL: p.Base}}
	router, err := gorillamux.NewRouter(loaded)
	require.NoError(t, err)

	const ndjson, asJSON = "application/x-ndjson", "application/json"
	good := `{"id":"a","service":"shop","type":"order","duration_ms":40,"attributes":{"country":"fi"}}`
	for _, tc := range []struct {
		name, method, path, media, body string
		status                          int
	}{
		{"good", "POST", "/api/v1/events", asJSON, good, 202},
		{"repeated", "POST", "/api/v1/events", asJSON, "[" + good + "]", 202},
		{"partly bad", "POST", "/api/v1/events", ndjson, good + "\n{\"service\":\"shop\",\"type\":\"ordr\"}\n", 202},
		{"without id", "POST", "/api/v1/events", asJSON, `{"service":"shop","type":"order"}`, 202},
		{"dry run", "POST", "/api/v1/events?dry_run=true", asJSON, good, 200},
		{"backfill", "POST", "/api/v1/events?backfill=true", asJSON, `{"id":"b","service":"shop","type":"order","time":"` +
			time.Now().Add(-72*time.Hour).UTC().Format(time.RFC3339) + `"}`, 202},
		{"all bad", "POST", "/api/v1/events", asJSON, `{"service":"nosuch","type":"order"}`, 422},
		{"unparsable", "POST", "/api/v1/events", asJSON, `[{"service":`, 400},
		{"wrong type", "POST", "/api/v1/events", "text/csv", `a,b`, 415},
		{"slos", "GET", "/api/v1/slos", "", "", 200},
		{"slos filtered", "GET", "/api/v1/slos?service=shop&state=ok&limit=1", "", "", 200},
		{"slo", "GET", "/api/v1/slos/shop/latency", "", "", 200},
		{"slo of a group", "GET", "/api/v1/slos/shop/checkout?group.country=fi", "", "", 200},
		{"no such slo", "GET", "/api/v1/slos/shop/nosuch", "", "", 404},
		{"history", "GET", "/api/v1/slos/shop/latency/history?step=1h", "", "", 200},
		{"slas", "GET", "/api/v1/slas", "", "", 200},
		{"thresholds", "GET", "/api/v1/thresholds", "", "", 200},
		{"thresholds by their old name", "GET", "/api/v1/limits", "", "", 200},
		{"rate limit", "GET", "/api/v1/rate-limits/country?value=fi", "", "", 200},
		{"no such rate limit", "GET", "/api/v1/rate-limits/nosuch", "", "", 404},
		{"silence", "POST", "/api/v1/silences", asJSON,
			`{"matchers":"service=\"shop\"","ends_at":"2100-01-01T00:00:00Z","starts_at":"2099-12-31T00:00:00Z","author":"me",` +
				`"comment":"new year"}`, 200},
		{"silence without matchers", "POST", "/api/v1/silences", asJSON,
			`{"ends_at":"2100-01-01T00:00:00Z","author":"me","comment":"c"}`, 400},
		{"silence of no type", "POST", "/api/v1/silences", "text/plain", `{}`, 415},
		{"silences", "GET", "/api/v1/silences", "", "", 200},
		{"no such silence", "POST", "/api/v1/silences/nosuch/expire", asJSON, `{}`, 404},
		{"report by hand", "POST", "/api/v1/reports/weekly/send", asJSON, `{"period":"this-week"}`, 200},
		{"report of no period", "POST", "/api/v1/reports/weekly/send", asJSON, `{"period":"odd"}`, 400},
		{"report of no type", "POST", "/api/v1/reports/weekly/send", "text/plain", `{}`, 415},
		{"no such report", "POST", "/api/v1/reports/nosuch/send", asJSON, `{}`, 404},
		{"engine", "GET", "/api/v1/engine", "", "", 200},
		{"sums of another spec", "GET", "/api/v1/sums?now=" + strconv.FormatInt(time.Now().UnixNano(), 10) +
			"&spec=another", "", "", 409},
		{"sums without a time", "GET", "/api/v1/sums?spec=another", "", "", 400},
		{"sums of long ago", "GET", "/api/v1/sums?now=1&spec=another", "", "", 400},
		{"sums from nowhere", "GET", "/api/v1/sums?now=1&from=x", "", "", 400},
		{"counts of another spec", "POST", "/api/v1/counts", asJSON, `{"spec":"another"}`, 409},
		{"counts of no object", "POST", "/api/v1/counts", asJSON, `{"spec":"another"} {}`, 400},
		{"counts of no type", "POST", "/api/v1/counts", "text/plain", `{}`, 415},
		{"dead letters", "GET", "/api/v1/dlq", "", "", 200},
		{"rejected events", "GET", "/api/v1/rejects", "", "", 200},
		{"healthy", "GET", "/-/healthy", "", "", 200},
		{"ready", "GET", "/-/ready", "", "", 200},
		{"reload", "POST", "/-/reload", "", "", 200},
		{"backup", "POST", "/api/v1/backup", "", "", 200},
		{"backup with something", "POST", "/api/v1/backup?history=x", "", "", 400},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.method == http.MethodGet {
				e2etest.Reports(t, p, 2) // the second has the events of before
			}
			req, err := http.NewRequest(tc.method, p.Base+tc.path, strings.NewReader(tc.body))
			require.NoError(t, err)
			if tc.media != "" {
				req.Header.Set("Content-Type", tc.media)
			}
			res, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.Equal(t, tc.status, res.StatusCode, string(body))
			route, params, err := router.FindRoute(req)
			require.NoError(t, err, "the document lacks %s %s", tc.method, tc.path)
			require.NoError(t, openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
				RequestValidationInput: &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route},
				Status:                 res.StatusCode, Header: res.Header, Body: io.NopCloser(bytes.NewReader(body)),
				Options: &openapi3filter.Options{IncludeResponseStatus: true},
			}), string(body))
		})
	}
	p.Stop(t)
}
