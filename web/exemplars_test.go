package web

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/traces"
	"github.com/sloengine/sloengine/web/site"
)

const openMetrics = "application/openmetrics-text;version=1.0.0"

// TestExemplars: counters of bad events and histograms have the newest failing trace that they count, in OpenMetrics
// and protobuf, and no other series and format have any.
func TestExemplars(t *testing.T) {
	store := traces.NewStore()
	b := newBench(t, func(o *site.Options) { o.Traces = store })
	require.NotContains(t, b.get("/metrics", "Accept", openMetrics).Body.String(), "# {")

	add := func(id byte, after, took time.Duration, outcome string) {
		at := noon.Add(after)
		store.Add("insurance-unpaid/availability", at.UnixNano(), &traces.Trace{ID: traces.ID{15: id}, Time: at,
			Group: slo.Group{"MEDCARE"}, Duration: took, Service: "insurance-unpaid", Type: "application", Outcome: outcome,
			Dimensions: []string{"MEDCARE"}})
	}
	add(1, -time.Minute, time.Minute, "success") // exactly the bound of the first bucket
	add(2, -2*time.Second, 7*time.Minute, "success")
	add(3, -3*time.Second, 8*time.Minute, "success") // an older one of the same bucket
	add(4, -1500*time.Millisecond, time.Hour, "success")
	add(5, -4*time.Second, -1, "success")
	body := b.get("/metrics", "Accept", openMetrics).Body.String()
	id := func(n string) string { return `{trace_id="` + strings.Repeat("0", 31) + n + `"}` }
	var got []string
	for line := range strings.Lines(body) {
		if series, exemplar, ok := strings.Cut(line, " # "); ok {
			name, _, _ := strings.Cut(series, "{")
			_, le, _ := strings.Cut(series, "le=")
			got = append(got, name+" "+strings.TrimSpace(le)+" # "+strings.TrimSpace(exemplar))
		}
	}
	stamp := func(after time.Duration) string {
		return fmt.Sprintf(" %.3f", float64(noon.Add(after).UnixMilli())/1000)
	}
	require.Equal(t, []string{
		`slo_events_total  # ` + id("4") + " 1.0" + stamp(-1500*time.Millisecond),
		`sloengine_events_total  # ` + id("4") + " 1.0" + stamp(-1500*time.Millisecond),
		`sloengine_event_duration_seconds_bucket "60.0"} 700 # ` + id("1") + " 60.0" + stamp(-time.Minute),
		`sloengine_event_duration_seconds_bucket "900.0"} 980 # ` + id("2") + " 420.0" + stamp(-2*time.Second),
		`sloengine_event_duration_seconds_bucket "+Inf"} 1000 # ` + id("4") + " 3600.0" + stamp(-1500*time.Millisecond),
	}, got)
	require.NotContains(t, b.get("/metrics").Body.String(), "trace_id", "the text format has none")

	b.rep.Version++
	other := *b.rep
	b.rep = &other // protobuf is made once for each report
	rec := b.get("/metrics", "Accept", string(expfmt.NewFormat(expfmt.TypeProtoDelim)))
	dec, found := expfmt.NewDecoder(rec.Body, expfmt.ResponseFormat(rec.Header())), 0
	for {
		var f dto.MetricFamily
		if dec.Decode(&f) != nil {
			break
		}
		for _, m := range f.Metric {
			if m.GetCounter().GetExemplar() != nil {
				found++
			}
			for _, x := range m.GetHistogram().GetBucket() {
				if x.Exemplar != nil {
					require.Equal(t, "trace_id", x.Exemplar.Label[0].GetName())
					found++
				}
			}
		}
	}
	require.Equal(t, len(got), found)
}

// TestExemplarsOfServices: a reader of some services gets those of its services.
func TestExemplarsOfServices(t *testing.T) {
	b, h := limitedBench(t)
	req := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	req.Header.Set("Accept", openMetrics)
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	require.NotContains(t, rec.Body.String(), secretTrace.String())
	require.Contains(t, rec.Body.String(), `trace_id="ab`)
	require.Contains(t, b.get("/metrics", "Accept", openMetrics).Body.String(), secretTrace.String(),
		"the others get them")
}
