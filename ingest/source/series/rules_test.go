package series

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRules: the alerting rules of a Prometheus are known with what is added to their alerts. Who has none says so, and
// of who does not answer nothing is known.
func TestRules(t *testing.T) {
	answers := map[string]string{}
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, known := answers[r.URL.Path]
		switch {
		case status != http.StatusOK:
			w.WriteHeader(status)
		case !known:
			http.NotFound(w, r)
		}
		fmt.Fprint(w, answer)
	}))
	defer server.Close()
	c := client{url: server.URL, http: server.Client()}
	ask := func() (*Rules, error) {
		return c.rules(context.Background(), func(r *Rule) bool { return r.Group != "others" })
	}
	r, err := ask()
	require.NoError(t, err)
	require.Contains(t, r.Note, "it lists no rules: status 404")

	answers["/api/v1/rules"] = `{"status":"success","data":{"groups":[
		{"name":"slo","rules":[{"type":"recording","name":"x"},{"type":"alerting","name":"Page",
		"labels":{"severity":"page"}}]},
		{"name":"others","rules":[{"type":"alerting","name":"Disk"}]}]}}`
	r, err = ask()
	require.NoError(t, err)
	require.Equal(t, []Rule{{"slo", map[string]string{"severity": "page", "alertname": "Page"}}}, r.Alerts)
	_, err = r.Sent(r.Alerts[0].Labels)
	require.ErrorContains(t, err, "its external labels are unknown: status 404")

	answers["/api/v1/status/config"] = `{"status":"success","data":{"yaml":"global:\n  external_labels: {cluster: eu, ` +
		`replica: a}\nalerting:\n  alert_relabel_configs:\n  - {regex: replica, action: labeldrop}\n"}}`
	r, err = ask()
	require.NoError(t, err)
	sent, err := r.Sent(r.Alerts[0].Labels)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"severity": "page", "alertname": "Page", "cluster": "eu"}, sent)
	answers["/api/v1/status/config"] = `{"status":"success","data":{"yaml":"alerting:\n  alert_relabel_configs:\n  ` +
		`- {action: fly}\n"}}`
	r, err = ask()
	require.NoError(t, err)
	_, err = r.Sent(nil)
	require.ErrorContains(t, err, `unknown relabel action "fly"`)

	for _, status = range []int{http.StatusInternalServerError, http.StatusTooManyRequests} {
		_, err = ask()
		require.ErrorContains(t, err, fmt.Sprintf("status %d", status))
	}
	server.Close()
	_, err = ask()
	require.Error(t, err)
}

// TestRequestsEnd: a Prometheus that takes a request and never answers is a failure, and stops nothing.
func TestRequestsEnd(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	defer server.Close()
	c := client{url: server.URL, http: server.Client(), timeout: 20 * time.Millisecond}
	_, err := c.samples(t.Context(), "up", time.Unix(0, 0), time.Unix(10, 0), func(*oneSeries) {})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = c.rules(t.Context(), nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, t.Context().Err())
}
