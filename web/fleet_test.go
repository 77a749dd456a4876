package web

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/api/v1"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

// threeEngines are those of a view: one answers, one is missing, and one has another spec.
func threeEngines() []status.FleetEngine {
	return []status.FleetEngine{
		{Name: "engine-0.sloengine:8080", State: status.FleetOK, Since: noon.Add(-2 * time.Hour), Spec: "e287584f3208",
			Answered: noon, Watermark: noon.Add(-4 * time.Second), TookSeconds: 0.0132, Bytes: 51_600, Events: 4_012_221},
		{Name: "engine-1.sloengine:8080", State: status.FleetMissing, Since: noon.Add(-3 * time.Minute),
			Reason: "not reachable: dial tcp 10.0.0.7:8080: connect: connection refused " + hostile[0], Spec: "e287584f3208",
			Answered: noon.Add(-3 * time.Minute), Watermark: noon.Add(-3*time.Minute - 4*time.Second), TookSeconds: 0.011,
			Bytes: 51_120, Events: 3_990_310},
		{Name: "engine-2.sloengine:8080", State: status.FleetOtherSpec, Since: noon.Add(-40 * time.Second),
			Reason: "it runs spec 0a1b2c3d4e5f, and this is spec e287584f3208", Spec: "0a1b2c3d4e5f"},
	}
}

// ofThree makes a bench a view of three engines.
func ofThree(o *site.Options) {
	eng := status.Engine{State: status.Ready, Started: noon.Add(-time.Hour),
		Spec: status.SpecStatus{Hash: "e287584f3208", Loaded: noon.Add(-time.Hour), SLOs: 13}, Fleet: threeEngines()}
	o.Engine = func() status.Engine { return eng }
	o.Alerts, o.DLQ, o.NoSeries = nil, nil, true
	o.Parts = func(r *sla.SLOReport) []site.EnginePart {
		if r.Slice > 0 {
			return nil
		}
		return []site.EnginePart{
			{Engine: eng.Fleet[0].Name, Answered: noon, Known: true, Counts: slo.Counts{Good: 100_000, Bad: 31}},
			{Engine: eng.Fleet[1].Name, Stale: true, Answered: noon.Add(-3 * time.Minute), Known: true,
				Counts: slo.Counts{Good: 90_000, Bad: 7}},
			{Engine: eng.Fleet[2].Name, Stale: true},
			{Engine: "engine-3", Answered: noon, Other: true},
			{Engine: "engine-4", Answered: noon},
		}
	}
}

func TestPagesOfAView(t *testing.T) {
	b := newBench(t, ofThree)
	b.rep.SLOs[1].Understated = true

	page := b.get("/engine").Body.String()
	for _, want := range []string{
		"<h1>Engines</h1>", "engine-0.sloengine:8080", "2 of 3 engines are missing", "its last answer is 3m 3s old",
		"it has not answered yet",
		`<code class="hot"><bdi>0a1b2c3d4e5f</bdi></code>`, "other spec", "4,012,221", `aria-current="page">Engines</a>`,
	} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, page, "Ingest")
	list := b.get("/").Body.String()
	require.Contains(t, list, "2 of 3 engines are missing")
	require.Contains(t, list, ">understated</span>")
	detail := b.get("/slo?id=insurance-unpaid%2Favailability&group.product=SOMLT").Body.String()
	for _, want := range []string{
		"By engine, raw", "stale: its last answer is 3m 3s old, and not in the numbers",
		"missing, and it has not answered yet",
		"all its groups are taken, so its events of this group are in __other__", "no event of this group",
		"The numbers may be too low",
	} {
		require.Contains(t, detail, want)
	}
	require.NotContains(t, b.get("/slo?id=insurance-unpaid%2Fthroughput&group.product=SOMLT").Body.String(), "By engine")

	var one v1.SLOAnswer
	require.NoError(
		t, json.Unmarshal(b.get("/api/v1/slos/insurance-unpaid/availability?group.product=SOMLT").Body.Bytes(), &one))
	require.True(t, one.SLO.Understated)
	require.Len(t, one.Engines, 5)
	require.True(t, one.Engines[1].Stale)
	require.Equal(t, uint64(90_000), one.Engines[1].Counts.Good)
	require.Nil(t, one.Engines[2].Answered)
	require.Nil(t, one.Engines[3].Counts)

	k := newContract(t, b)
	for _, target := range []string{
		"/api/v1/engine", "/api/v1/slos", "/api/v1/slos/insurance-unpaid/availability?group.product=SOMLT", "/-/ready"} {
		k.answer(b, http.MethodGet, target, 200)
	}
	var engine struct{ Fleet []status.FleetEngine }
	require.NoError(t, json.Unmarshal(b.get("/api/v1/engine").Body.Bytes(), &engine))
	require.Len(t, engine.Fleet, 3)

	// Readiness names them, without what the other side wrote.
	rec := b.get("/-/ready")
	require.Equal(t, http.StatusOK, rec.Code)
	var ready struct {
		Status   string
		Degraded []status.DegradedPart
	}
	require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &ready))
	require.Equal(t, "ready", ready.Status)
	require.Equal(t, []status.DegradedPart{
		{Part: "engine", Name: "engine-1.sloengine:8080",
			Reason: "its events are not in the numbers: it does not answer with its sums since 2026-11-20 11:57:07Z, and its " +
				"last answer is 3m 3s old"},
		{Part: "engine", Name: "engine-2.sloengine:8080", Reason: "its events are not in the numbers: it runs another spec"},
	}, ready.Degraded)

	require.NotContains(t, b.get("/metrics").Body.String(), "\nslo_")
	require.NotContains(t, newBench(t).get("/engine").Body.String(), "Engines</a>")
}

// TestBrowserView: the engines of a view on a desk and on a phone.
func TestBrowserView(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	x := newLiveBench(t, nil, ofThree)
	for _, scheme := range []string{"light", "dark"} {
		b.prefers(t, scheme, true)
		for _, width := range []int64{1280, 390, 360} {
			b.Open(t, x.base+"/engine", width, 900)
			b.requireFits(t, width)
			b.axe(t)
			b.Open(t, x.base+"/slo?id=insurance-unpaid%2Favailability&group.product=SOMLT", width, 900)
			b.requireFits(t, width)
		}
		b.Open(t, x.base+"/engine", 1280, 700)
		b.picture(t, "engines-"+scheme+".png", true)
		b.Open(t, x.base+"/engine", 390, 900)
		b.picture(t, "engines-phone-"+scheme+".png", true)
	}
	b.RequireClean(t, x.base)
}
