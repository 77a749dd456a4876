package alerting

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/web/incidents"
)

// TestFromEventToReport goes the whole way of one incident: events over HTTP, the alert, the notification as a webhook
// receives it, its signed link, the acknowledgement, what the public is told, the resolution, and the report.
func TestFromEventToReport(t *testing.T) {
	t.Parallel()
	h := newWebhook(t)
	dir := t.TempDir()
	spec := e2etest.WriteFile(t, dir, "spec.yaml",
		strings.Replace(incidentSpec, "labels: {team: checkout}", `labels: {team: checkout, public: "true"}`, 1))
	p := e2etest.Serve(t, dir, spec, fmt.Sprintf(`evaluator: {interval: 200ms}
disk: {low_water: 1MiB}
web: {external_url: "https://slo.example.org"}
notifications:
  receivers: [{name: oncall, webhook_configs: [{url: %q, send_resolved: true}]}]
  default: oncall
  timing: {critical: {group_wait: 0s, group_interval: 300ms, repeat_interval: 1h}}
`, h.URL))
	here := func(link string) string {
		rest, ok := strings.CutPrefix(link, "https://slo.example.org")
		require.True(t, ok, link)
		return p.Base + rest
	}

	// Events, the alert, and the notification.
	onset := sendOutage(t, p, 2*time.Minute)
	h.wait(t, "ErrorBudgetBurnPage", "firing")
	h.mu.Lock()
	told := h.got[slices.IndexFunc(h.got, func(n notification) bool {
		return n.Alerts[0].Labels["alertname"] == "ErrorBudgetBurnPage"
	})]
	h.mu.Unlock()
	require.Equal(t, "oncall", told.Receiver)
	alert := told.Alerts[0]
	require.Equal(t, "shop/orders", alert.Labels["slo_id"])
	require.NotEmpty(t, alert.Annotations["summary"])

	// The alert and the incident, as their pages show them.
	require.Contains(t, string(e2etest.Get(t, here(alert.Annotations["alert"]))), "ErrorBudgetBurnPage")
	page := string(e2etest.Get(t, here(alert.Annotations["incident"])))
	list := e2etest.ListIncidents(t, p).Items
	require.Len(t, list, 1)
	id := list[0].ID
	require.WithinDuration(t, onset, list[0].Onset, 12*time.Second)
	require.Contains(t, page, id)
	require.Contains(t, page, "not acknowledged")

	// The signed link asks, and its form acknowledges. A link with another signature does not.
	link := here(alert.Annotations["acknowledge"])
	require.Contains(t, string(e2etest.Get(t, link)), "<form")
	require.Empty(t, e2etest.ListIncidents(t, p).Items[0].Ack, "looking at it changes nothing")
	signed, err := url.Parse(link)
	require.NoError(t, err)
	acknowledge := func(signature string) (status int, answer string) {
		form := url.Values{"until": {signed.Query().Get("until")}, "signature": {signature}, "by": {"Ann"}, "team": {"ops"}}
		req, err := http.NewRequest(http.MethodPost, p.Base+signed.Path, strings.NewReader(form.Encode()))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", p.Base)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.StatusCode, string(body)
	}
	status, _ := acknowledge("AAAA")
	require.Equal(t, http.StatusForbidden, status)
	status, answer := acknowledge(signed.Query().Get("signature"))
	require.Equal(t, http.StatusOK, status, answer)
	require.Contains(t, answer, id+" is acknowledged")
	require.Contains(t, string(e2etest.Get(t, here(alert.Annotations["incident"]))), "Ann")

	// What the public is told.
	var item incidents.Item
	e2etest.Call(t, http.MethodPost, p.Base+"/api/v1/incidents/"+id+"/publish", `{"public":true}`, &item)
	e2etest.Call(t, http.MethodPost, p.Base+"/api/v1/incidents/"+id+"/update",
		`{"by":"Ann","text":"Orders fail. We are on it.","public":true}`, &item)
	require.Eventually(t, func() bool {
		return strings.Contains(string(e2etest.Get(t, p.Base+"/public")), "Orders fail. We are on it.")
	}, testkit.Patience, 50*time.Millisecond)
	require.NotContains(t, string(e2etest.Get(t, p.Base+"/public")), "Ann")

	// Good orders end the alert, and with it the incident.
	var body strings.Builder
	for i := range 8000 {
		fmt.Fprintf(&body, `{"id":"good%d","service":"shop","type":"order","outcome":"success","count":100}`+"\n", i)
	}
	status, answer = e2etest.Post(t, p.Base+"/api/v1/events", "", body.String())
	require.Equal(t, http.StatusAccepted, status, answer)
	h.wait(t, "ErrorBudgetBurnPage", "firing", "resolved")
	require.Eventually(t, func() bool {
		return string(e2etest.ListIncidents(t, p).Items[0].State) == "resolved"
	}, testkit.Patience, 50*time.Millisecond)
	e2etest.Call(t, http.MethodGet, p.Base+"/api/v1/incidents/"+id, "", &item)
	require.True(t, item.Resolved.Automated)
	require.Equal(t, "Ann", item.Ack.By)
	require.Equal(t, "link", item.Ack.How)

	// The report.
	var r struct {
		Incidents *struct {
			Critical int
			Items    []struct {
				ID        string
				Detection *float64 `json:"detection_seconds"`
				Response  *float64 `json:"response_seconds"`
				Duration  *float64 `json:"duration_seconds"`
			}
		}
	}
	require.NoError(
		t, json.Unmarshal(e2etest.Get(t, p.Base+"/api/v1/report?period="+item.Detected.UTC().Format("2006-01")), &r))
	require.NotNil(t, r.Incidents)
	require.Equal(t, 1, r.Incidents.Critical)
	require.Len(t, r.Incidents.Items, 1)
	in := r.Incidents.Items[0]
	require.Equal(t, id, in.ID)
	require.InDelta(t, 120, *in.Detection, 30, "the outage began two minutes before the alert")
	require.NotNil(t, in.Response)
	require.NotNil(t, in.Duration)
	t.Logf("detected after %.0f s, acknowledged %.1f s later", *in.Detection, *in.Response)
	p.Stop(t)
}
