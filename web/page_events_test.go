package web

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/traces"
	"github.com/sloengine/sloengine/web/site"
)

// TestEventsPage: the page lists bad and good events of a group with what is different, and says what is wrong.
func TestEventsPage(t *testing.T) {
	t.Parallel()
	var asked counting.EventQuery
	var fails error
	answer := &counting.EventAnswer{}
	b := newBench(t, func(o *site.Options) {
		o.TraceURL = `https://tempo.example/trace/{trace_id}`
		o.Events = func(_ context.Context, q *counting.EventQuery) (*counting.EventAnswer, error) {
			asked = *q
			return answer, fails
		}
	})
	r := &b.rep.SLOs[0]
	path := "/slo/events?id=" + string(r.SLO.ID) + "&group.product=" + r.Group[0]
	page := func(target string, status int) string {
		t.Helper()
		rec := b.get(target, "Accept", "text/html")
		require.Equal(t, status, rec.Code, target)
		require.Equal(t, "no-store", rec.Header().Get("Cache-Control"))
		return rec.Body.String()
	}
	require.Contains(t, b.get(strings.Replace(path, "/events", "", 1), "Accept", "text/html").Body.String(),
		`<a href="/slo/events?group.product=`+r.Group[0])
	require.Contains(t, page(path, 200), "No bad event.")
	require.Equal(t, 15*time.Minute, b.web.Opt.Now().Sub(asked.From))

	trace := traces.ID{0xab}
	e := event.Event{Type: "<b>order", Time: noon.Add(-time.Minute), Outcome: event.Failure, Count: 2, Weight: 3,
		HasDuration: true, Duration: 1234 * time.Millisecond,
		Attributes: []event.Attr{{Name: "bank", Value: "<X>"}, {Name: "trace_id", Value: trace.String()}}}
	answer = &counting.EventAnswer{Unread: "the search took 3s", BadSum: 10, GoodSum: 90,
		Bad:         []counting.FoundEvent{{Event: e, Received: noon, Trace: trace}},
		Differences: []slo.Difference{{Attribute: "bank", Value: "<X>", OfBad: 1, OfGood: 0.25, Lift: 3, Without: 0.001}},
	}
	body := page(path+"&last=6h&where="+`%7Bbank%3D%22%3CX%3E%22%7D`, 200)
	for _, want := range []string{"Without bank=&lt;X&gt; the burn rate would be", "the search took 3s", "100.0%", "25.0%",
		"3.00×", "6 events", "&lt;b&gt;order", `href="https://tempo.example/trace/ab0`, "1.23s", "None was found."} {
		require.Contains(t, body, want)
	}
	require.Equal(t, 1, strings.Count(body, trace.String()), "a trace is shown once")
	require.Equal(t, []any{6 * time.Hour, `{bank="<X>"}`, r.Group, true},
		[]any{b.web.Opt.Now().Sub(asked.From), asked.Where.String(), asked.Group, asked.Compare})

	require.Contains(t, page(path+"&where=x", 400), "want matchers such as")
	require.Contains(t, page(path+"&last=x", 400), "want a duration such as 6h")
	fails = fold.ErrNotJudged
	require.Contains(t, page(path, 200), `role="alert"`)
	fails = errors.New("disk")
	require.Contains(t, page(path, http.StatusServiceUnavailable), "The log cannot be read now.")
	require.NotContains(t, page(path, http.StatusServiceUnavailable), "disk")
	page("/slo/events?id=no/such", 404)
	b.web.Opt.Events = nil
	require.Contains(t, page(path, http.StatusNotImplemented), "No events")
}
