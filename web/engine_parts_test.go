package web

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
	"github.com/stretchr/testify/require"
)

func TestReadyNamesWhatIsDegraded(t *testing.T) {
	b := newBench(t)
	k := newContract(t, b)
	require.NotContains(t, string(k.answer(b, http.MethodGet, "/-/ready", 200)), "degraded")

	s := &b.eng
	s.Fold.Crowded = []counting.CrowdedStatus{{SLO: "shop/orders", MaxInFlight: 100_000, Untracked: 1}}
	s.Fold.Full = []counting.FullStatus{{SLO: "shop/checkout", MaxGroups: 1000, Other: 100_000}}
	s.Tokens = []status.TokenStatus{
		{Token: "shop", Key: "1a2b3c4d", Expires: b.now.Add(time.Hour), Expiring: true},
		{Token: "old", Key: "5e6f7a8b", Expires: b.now.Add(-time.Hour)},
	}
	s.Redis.Connected, s.Redis.LastError = false, "dial tcp 10.0.0.7:6379: secret"
	s.Breakers = []status.BreakerStatus{{Name: "warehouse", State: status.BreakerOpen,
		Reason: "https://secret.example answered 503"}, {Name: "idle", State: status.BreakerClosed},
		{Name: "half", State: status.BreakerHalfOpen}}
	s.Sinks = []status.SinkStatus{
		{Name: "warehouse", Breaker: status.BreakerOpen}, // told as a breaker already
		{Name: "alone", Breaker: status.BreakerHalfOpen},
		{Name: "far", LagBytes: 600 << 20, MaxLagBytes: 1 << 30},
		{Name: "old", OldestAgeSeconds: 301, MaxLagBytes: 1 << 30, LagBytes: 1},
		{Name: "asked", HeldSeconds: 30, LastError: "secret"},
		{Name: "wrong", LastError: "secret", Breaker: status.BreakerOpen,
			Troubles: []status.SinkTrouble{{Kind: "delivery", Since: noon.Add(-time.Hour),
				Cause: "the receiver returned 401 Unauthorized: secret", Brief: "401 Unauthorized", Failures: 12, Blocked: true}}},
		{Name: "fine", LagBytes: 1 << 40, OldestAgeSeconds: 299, Breaker: status.BreakerClosed},
		{Name: "\u202e<b>" + strings.Repeat("x", 200), Breaker: status.BreakerOpen},
	}
	s.Alertmanagers = append(s.Alertmanagers, status.AlertmanagerStatus{
		Name: "am-2", URL: "http://am-2:9093", FailingSince: noon.Add(-time.Hour), Failures: 3, Pending: 7,
		Cause: "503 Service Unavailable: secret", Brief: "503 Service Unavailable", Breaker: status.BreakerOpen,
	})
	s.Reports = append(s.Reports, status.ReportStatus{Name: "weekly", Every: "week", Targets: []status.ReportTarget{
		{Kind: "email", Name: "secret@example.org", Period: "2026-W46", Outcome: "sending",
			FailingSince: noon.Add(-time.Hour), Failures: 5, Cause: "no connection: secret", Brief: "no connection"},
		{Kind: "webhook", Name: "secret.example.org", Period: "2026-W46", Outcome: "failed",
			FailingSince: noon.Add(-2 * time.Hour), Failures: 9, Brief: "503 Service Unavailable"},
	}})
	body := k.answer(b, http.MethodGet, "/-/ready", 200)
	require.Contains(t, string(body),
		`{"part":"report","name":"weekly","reason":"it has not reached 2 targets since 2026-11-20 10:00:07Z: 503 Service `+
			`Unavailable"}`)
	require.NotContains(t, string(body), "secret", "a part is named without texts of errors")
	require.Contains(t, string(body), `503 Service Unavailable; 7 alerts wait`)
	var h health
	require.NoError(t, json.Unmarshal(body, &h))
	require.Equal(t, status.Ready, h.Status)
	var got []string
	for _, d := range h.Degraded {
		require.NotEmpty(t, d.Reason)
		got = append(got, strings.TrimSpace(d.Part+" "+d.Name))
	}
	require.Equal(t, []string{"token shop", "slo shop/checkout", "slo shop/orders", "redis", "alertmanager am-2",
		"report weekly", "breaker warehouse", "breaker half", "sink alone", "sink far", "sink old", "sink asked",
		"sink wrong"}, got[:13])
	require.True(t, strings.HasPrefix(got[13], `sink \u{202e}<b>xxx`), got[13])
	require.Less(t, len(got[13]), 100)
	require.Contains(t, string(body), "a key of it that is in use expires at 2026-11-20 ")

	s.Troubles = []status.TroubleStatus{{Part: "log", Reason: "no file descriptor is left", Since: b.now}}
	s.Connections.RefusedAt = b.now.Add(-59 * time.Second)
	body = k.answer(b, http.MethodGet, "/-/ready", 200)
	require.Contains(t, string(body), `{"part":"log","reason":"no file descriptor is left"}`)
	require.Contains(t, string(body), `"part":"connections"`)
	require.Contains(t, string(k.answer(b, http.MethodGet, "/api/v1/engine", 200)), `"troubles"`)
	s.Connections.RefusedAt = b.now.Add(-61 * time.Second)
	require.NotContains(t, string(k.answer(b, http.MethodGet, "/-/ready", 200)), `"part":"connections"`)

	page := b.get("/engine").Body.String()
	check(t, page)
	require.Contains(t, page, "log: no file descriptor is left")
	require.Contains(t, page, "slo shop/checkout: all 1,000 groups are taken; new values share the group __other__")
	require.Contains(t, page,
		"slo shop/orders: work in flight has reached max_in_flight (100,000); 1 start event not tracked, which lowers "+
			"coverage")
	k.answer(b, http.MethodGet, "/api/v1/engine", 200)
	require.Contains(t, page, "sink far: it is behind by 600.0 MiB")
	require.Contains(t, page, ": 401 Unauthorized; its events wait")
	require.Contains(t, page, "3 failures: 503 Service Unavailable: secret")
	require.Contains(t, page, "12 failures: the receiver returned 401 Unauthorized: secret",
		"the page is for those who may read it")
	require.Contains(t, page, "2026-W46 not delivered yet, 5 failures: no connection: secret")
	require.Contains(t, page, "2026-W46 given up")
	require.Contains(t, page, "blocked")
	s.ReportsUnsaved = true
	require.Contains(t, string(k.answer(b, http.MethodGet, "/-/ready", 200)), "it cannot be saved which reports were sent")
	require.NotContains(t, string(k.answer(b, http.MethodGet, "/-/healthy", 200)), "degraded")
	b.eng.State = status.Recovering
	require.Contains(t, string(k.answer(b, http.MethodGet, "/-/ready", 503)), `"degraded"`)
}

func TestEngineListsItsParts(t *testing.T) {
	b := newBench(t)
	k := newContract(t, b)
	var got map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(k.answer(b, http.MethodGet, "/api/v1/engine", 200), &got))
	for _, name := range []string{"limits", "offenders", "redis", "breakers", "bulkheads", "sinks", "alertmanagers",
		"reports", "dead_letters"} {
		require.Contains(t, got, name)
	}
	page := b.get("/engine").Body.String()
	for _, want := range []string{"1,204/s of 1,000/s", "9,310", "acme", "0.21 ms", "2 of 10 active",
		`<span class="hidden">Sink </span><bdi>warehouse`, "503 Service Unavailable", "at most 1.0 GiB",
		`<span class="hidden">Alertmanager </span><bdi>am-1:9093`, "1,204 alerts", "took 4.20 ms",
		"records 950 to 990 of the log"} {
		require.Contains(t, page, want)
	}

	b.eng.Limits, b.eng.Offenders, b.eng.Redis, b.eng.Breakers, b.eng.Bulkheads, b.eng.Sinks, b.eng.Alertmanagers,
		b.eng.Reports, b.eng.DeadLetters = nil, nil, nil, nil, nil, nil, nil, nil, nil
	got = nil
	require.NoError(t, json.Unmarshal(k.answer(b, http.MethodGet, "/api/v1/engine", 200), &got))
	for _, name := range []string{"limits", "offenders", "redis", "breakers", "bulkheads", "sinks", "alertmanagers",
		"reports", "dead_letters"} {
		require.NotContains(t, got, name)
	}
}

// A server of remote write is a sink whose files wait on disk and which gets samples.
func TestRemoteWritePart(t *testing.T) {
	s := status.SinkStatus{Name: "mimir", Kind: status.RemoteWrite, LagRecords: 3, LagBytes: 2048, OldestAgeSeconds: 360,
		Delivered: 7}
	v := newSinkView(&s, time.Now())
	require.Equal(t, "lagging", v.Mark.Word)
	require.Equal(t, site.Fact{Name: "On disk", Value: "3 files, 2.0 KiB", Note: "the oldest is 6m old"}, v.Facts[0])
	require.Equal(t, "7 samples", v.Facts[1].Value)
	e := status.Engine{Sinks: []status.SinkStatus{s}}
	require.Equal(t, []status.DegradedPart{{Part: status.RemoteWrite, Name: "mimir",
		Reason: "the oldest samples that it has not received are 6m old"}}, e.Degraded(time.Now()))
}

func TestPartsChangeTheTag(t *testing.T) {
	for name, change := range map[string]func(*status.Engine){
		"limit": func(e *status.Engine) {
			e.Limits[1].Hits++
		}, "offender": func(e *status.Engine) {
			e.Offenders[0].Value = "other"
		}, "redis": func(e *status.Engine) { e.Redis.Connected = false },
		"breaker": func(e *status.Engine) {
			e.Breakers[0].State = status.BreakerOpen
		}, "bulkhead": func(e *status.Engine) {
			e.Bulkheads[0].Rejected++
		}, "sink": func(e *status.Engine) { e.Sinks[0].DeadLetters["expired"]++ },
		"alertmanager": func(e *status.Engine) {
			e.Alertmanagers[0].Pending++
		}, "report": func(e *status.Engine) { e.Reports[0].Targets[1].Failures++ },
		"dead letters": func(e *status.Engine) {
			e.DeadLetters.Count++
		}, "reasons": func(e *status.Engine) {
			e.DeadLetters.ByReason["expired"]++
		}, "none": func(e *status.Engine) { e.Redis = nil },
	} {
		b := newBench(t)
		tag := b.get("/api/v1/engine").Header().Get("ETag")
		require.Equal(t, http.StatusNotModified, b.get("/api/v1/engine", "If-None-Match", tag).Code)
		change(&b.eng)
		require.Equal(t, http.StatusOK, b.get("/api/v1/engine", "If-None-Match", tag).Code, name)
	}
}

// The engine page and that of an SLO say what is rebuilt, and how far that is.
func TestRebuildIsShown(t *testing.T) {
	b := newBench(t)
	both := []string{"insurance-unpaid/availability", "shop/other"}
	b.eng.Rebuild = &counting.RebuildProgress{SLOs: both, Waiting: both, Share: 0.43}
	require.Contains(t, b.get("/engine").Body.String(), "insurance-unpaid/availability and shop/other, 43%")
	require.Contains(t, b.get(medcare).Body.String(), "rebuilt from the history: 43%")
	b = newBench(t) // pages are kept until the next report
	b.eng.Rebuild = &counting.RebuildProgress{SLOs: []string{"shop/other"}, Waiting: []string{"shop/other"}, Share: 0.43}
	require.NotContains(t, b.get(medcare).Body.String(), "rebuilt from")
	b = newBench(t)
	b.eng.Rebuild = &counting.RebuildProgress{Waiting: both, Held: both[:1], Failing: "<disk>"}
	require.Contains(t, b.get(medcare).Body.String(),
		"the earlier definition, in force until the changed one is counted from the history: waits")
	page := b.get("/engine").Body.String()
	require.Contains(t, page, "waiting: insurance-unpaid/availability, shop/other. Earlier definitions in force until "+
		"then: "+
		"insurance-unpaid/availability. Failing, tried again each minute: &lt;disk&gt;")
}
