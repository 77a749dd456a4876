package web

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// withWork makes the first SLO of a report one of completion, with hostile keys and stages.
func withWork(rep *sla.Report) *sla.SLOReport {
	r := &rep.SLOs[0]
	s := *r.SLO
	s.Indicator = slo.Indicator{Kind: slo.KindCompletion,
		Completion: slo.Completion{Key: "order_id", Stage: "stage", Within: 15 * time.Minute, MaxInFlight: 10}}
	for i := range rep.SLOs {
		if rep.SLOs[i].SLO.ID == s.ID {
			rep.SLOs[i].SLO = &s
		}
	}
	start := rep.Time.Add(-time.Hour)
	rep.InFlight = []slo.InFlight{{
		SLO: s.ID, GroupBy: s.GroupBy, Max: 10, Oldest: start, Untracked: 7, Corrected: 2, Held: 3, Finished: 99,
		Groups: []slo.InFlightGroup{
			{Group: r.Group, Stages: []slo.InFlightStage{{Open: 4}, {Stage: hostile[0], Open: 20, Overdue: 11}}}},
		Items: []slo.InFlightItem{
			{Key: "<b>\x1b[31m\xff", Cut: true, Group: r.Group, Stage: hostile[0], Start: start, Since: start,
				Deadline: start.Add(15 * time.Minute), Overdue: true},
			{Key: "other-groups", Group: slo.Group{"nowhere"}, Start: start, Since: start, Deadline: start},
		},
	}}
	return r
}

// TestWorkInFlight: the page and the API show what is in flight of the group, by stage, and the oldest with the
// beginning of its key.
func TestWorkInFlight(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := withWork(b.rep)
	page := b.get("/slo?id="+string(r.SLO.ID)+"&group.product="+r.Group[0], "Accept", "text/html")
	require.Equal(t, http.StatusOK, page.Code)
	body := page.Body.String()
	require.Contains(t, body, `id="work"`)
	require.Contains(t, body, "In flight")
	require.Contains(t, body, "overdue")
	require.Contains(t, body, "and 34 more")
	require.Contains(t, body, "7 start events were not tracked")
	require.Contains(t, body, "&lt;b&gt;")
	require.NotContains(t, body, "<b>\x1b")
	require.NotContains(t, body, "other-groups")

	rec := b.get(apiOf(r))
	newContract(t, b).answer(b, http.MethodGet, apiOf(r), http.StatusOK)
	var answer struct {
		Work map[string]any `json:"in_flight"`
	}
	require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &answer))
	require.EqualValues(t, 7, answer.Work["untracked"])
	require.Len(t, answer.Work["stages"], 2)
	require.Len(t, answer.Work["items"], 1)
	require.NotContains(
		t, b.get("/api/v1/slos/insurance-unpaid/latency?group.product="+r.Group[0]).Body.String(), "in_flight")
}

func apiOf(r *sla.SLOReport) string {
	return "/api/v1/slos/" + r.SLO.ID.Service() + "/" + r.SLO.ID.Name() + "?group.product=" + r.Group[0]
}
