package overview

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// counts makes a summary of so many groups that are exhausted, at risk, without data and ok.
func counts(exhausted, risk, none, ok int) Summary {
	return Summary{Groups: exhausted + risk + none + ok,
		States: map[slo.State]int{slo.StateExhausted: exhausted, slo.StateAtRisk: risk,
			slo.StateNoData: none, slo.StateOK: ok}}
}

func TestWords(t *testing.T) {
	with := func(s Summary, change func(*Summary)) Summary {
		change(&s)
		return s
	}
	for _, c := range []struct {
		of                       Summary
		mark, headline, sentence string
	}{
		{counts(0, 0, 0, 54), "ok", "All objectives are met", "All 54 error budgets are ok."},
		{with(counts(0, 0, 0, 1), func(s *Summary) {
			s.Agreements = 6
		}), "ok", "All objectives are met", "The error budget is ok and all 6 SLAs are met."},
		{with(counts(0, 0, 2, 3), func(s *Summary) {
			s.Agreements, s.Unknown = 3, 1
		}), "ok", "All objectives with data are met",
			"3 of 5 error budgets are ok, 2 of 3 SLAs are met, and 2 SLO groups have no data."},
		{counts(0, 0, 3, 0), "no data", "No data yet", "No SLO has data."},
		{counts(0, 0, 0, 0), "no data", "Nothing to show", "Nothing is counted."},
		{counts(2, 1, 0, 40), "exhausted", "2 error budgets exhausted, 1 at risk",
			"2 of 43 error budgets are exhausted and 1 is at risk."},
		{counts(0, 1, 1, 40), "at risk", "1 error budget at risk",
			"1 of 42 error budgets is at risk and 1 SLO group has no data."},
		{with(counts(1, 0, 0, 9), func(s *Summary) {
			s.Pages, s.Tickets, s.Agreements, s.Breached = 5, 1, 4, 1
		}), "paging", "5 paging alerts firing, 1 error budget exhausted",
			"5 paging alerts are firing, 1 ticket is firing, 1 of 10 error budgets is exhausted, and 1 of 4 SLAs is breached."},
		{with(counts(0, 0, 0, 9), func(s *Summary) {
			s.Pages, s.Silenced = 1, 1
		}), "paging", "1 paging alert firing (1 silenced)", "1 paging alert is firing."},
		{with(counts(0, 0, 0, 9), func(s *Summary) {
			s.Tickets = 2
		}), "at risk", "2 tickets firing", "2 tickets are firing."},
	} {
		require.Equal(t, c.mark, c.of.Mark().Word, c.sentence)
		require.Equal(t, c.headline, c.of.Headline())
		require.Equal(t, c.sentence, c.of.Sentence())
	}
}

func TestSummarise(t *testing.T) {
	quiet, paging := &slo.SLO{ID: "quiet/a"}, &slo.SLO{ID: "paging/b"}
	rep := &sla.Report{
		SLOs: []sla.SLOReport{{SLO: paging, State: slo.StateOK}, {SLO: quiet, State: slo.StateExhausted},
			{SLO: quiet, State: slo.StateOK}},
		SLAs: []sla.SLAReport{
			{SLA: &sla.Agreement{Service: "quiet"}, HasData: true, Breached: true}, {SLA: &sla.Agreement{Service: "quiet"}},
			{SLA: &sla.Agreement{Service: "quiet"}, Informative: true, HasData: true},
		},
	}
	silenced := &state.Alert{State: state.Firing, Urgent: true, Service: "paging", Fingerprint: "s"}
	all, services := Summarise(rep, []*state.Alert{
		silenced, {State: state.Firing, Urgent: true, Service: "paging"},
		{State: state.Pending, Urgent: true, Service: "quiet"}, {State: state.Firing, Service: "quiet"},
		{State: state.Firing, Urgent: true, Engine: true},
	}, func(a *state.Alert) []string {
		if a == silenced {
			return []string{"id"}
		}
		return nil
	})
	require.Len(t, services, 3)
	require.Equal(t, []string{"paging", "quiet", "sloengine"},
		[]string{services[0].Name, services[1].Name, services[2].Name},
		"what pages comes before what is spent, and the engine itself last")
	require.Equal(t, "1 paging alert is firing.", services[2].Sentence(), "the engine's own alerts are of its service")
	require.Equal(t, []int{3, 1, 1, 3, 2}, []int{all.Pages, all.Silenced, all.Tickets, all.Groups, all.Objectives},
		"all is the sum of the services")
	require.Equal(t, []int{2, 1, 1}, []int{all.Agreements, all.Breached, all.Unknown},
		"nobody agreed on an informative group")
	require.Equal(t, []int{2, 1, 0}, []int{services[0].Pages, services[0].Silenced, services[1].Pages})
}
