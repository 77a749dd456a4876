package web

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

// TestServiceBudgets: a noisy service is refused by name, and others are not. A spec beyond the budget of groups is
// refused.
func TestServiceBudgets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spec := func(groups int) string {
		var b strings.Builder
		for i, service := range []string{"noisy", "quiet"} {
			if i > 0 {
				b.WriteString("---\n")
			}
			fmt.Fprintf(&b,
				"version: sloengine/v1\nservice: %s\nslos:\n  - name: checkout\n    objective: 99\n    window: 1d\n    group_by: "+
					"[country]\n    max_groups: %d\n    indicator:\n      events: {valid: '{type=\"order\"}', bad: "+
					"'{outcome=\"failure\"}'}\n", service, groups)
		}
		return b.String()
	}
	file := e2etest.WriteFile(t, dir, "spec.yaml", spec(100))
	p := e2etest.Serve(t, dir, file,
		"budgets:\n  - {service: noisy, bytes: 1KiB, queue: 0.5, groups: 150}\n  - {service: '*', groups: 150}\nevaluator: "+
			"{interval: 100ms}\n")
	send := func(service string) (int, string, http.Header) {
		var body strings.Builder
		for range 100 {
			fmt.Fprintf(&body, `{"service":%q,"type":"order","attributes":{"text":%q}}`+"\n", service, strings.Repeat("x", 150))
		}
		res, err := http.Post(p.Base+"/api/v1/events", "application/x-ndjson", strings.NewReader(body.String()))
		require.NoError(t, err)
		defer res.Body.Close()
		raw, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.StatusCode, string(raw), res.Header
	}
	refused := ""
	for range 20 {
		if code, body, header := send("noisy"); code == http.StatusTooManyRequests {
			refused = body
			require.NotEmpty(t, header.Get("Retry-After"))
			break
		}
	}
	require.Contains(t, refused, `"code":"service_budget"`)
	require.Contains(t, refused, `the service \"noisy\" exceeds its budget of 1024 bytes of events per second`)
	code, body, _ := send("quiet")
	require.Equal(t, 202, code, body)
	require.Contains(t, string(e2etest.Get(t, p.Base+"/metrics")),
		`sloengine_service_refused_total{service="noisy",budget="bytes"}`)
	require.Contains(t, string(e2etest.Get(t, p.Base+"/-/ready")),
		`{"part":"budget","name":"noisy","reason":"it exceeds its budget; `)
	require.Contains(t, string(e2etest.Get(t, p.Base+"/engine")), "budget noisy: it exceeds its budget")

	// A reload takes changed budgets over, and refuses a spec with too many groups.
	e2etest.WriteFile(t, dir, "spec.yaml", spec(200))
	status, answer := e2etest.Post(t, p.Base+"/-/reload", "", "")
	require.Equal(t, 422, status)
	require.Contains(t, answer, "service noisy: its SLOs and event thresholds may have 200 groups, and its budget is 150")
	e2etest.WriteFile(t, dir, "engine.yaml", "budgets: [{service: noisy, bytes: 1GiB}]\nevaluator: {interval: 100ms}\n")
	status, answer = e2etest.Post(t, p.Base+"/-/reload", "", "")
	require.Equal(t, 200, status, answer)
	require.Eventually(t, func() bool {
		code, _, _ := send("noisy")
		return code == 202
	}, testkit.Patience, 100*time.Millisecond)
	p.Stop(t)
}
