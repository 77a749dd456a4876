package alertmanager

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/slo"
)

func labelled(pairs ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

// inhibits reports whether one alert keeps another quiet.
func (d *document) inhibits(source, target map[string]string) bool {
	for _, r := range d.InhibitRules {
		same := matches(r.Source, source) && matches(r.Target, target)
		for _, name := range r.Equal {
			same = same && source[name] == target[name]
		}
		if same && !matches(r.Source, target) { // what is both is not inhibited by its like
			return true
		}
	}
	return false
}

func TestInhibition(t *testing.T) {
	in := insurance(t)
	in.SLOs[0].Alerting.Soon = slo.SoonAlert{Within: 24 * time.Hour, Probability: 0.8}
	in.SLOs[0].Alerting.Left = []slo.LeftAlert{{Share: 0.5}, {Share: 0.2}, {Share: 0.1, Page: true}}
	out, _, err := Config(in, Options{Receivers: receivers(t)})
	require.NoError(t, err)
	var doc document
	require.NoError(t, yaml.Unmarshal(out, &doc))
	l := labelled
	const svc, up = "insurance-unpaid", "insurance-unpaid/availability"
	page := l("alertname", "ErrorBudgetBurnPage", "severity", "page", "service", svc, "slo_id", up, "product", "MED")
	score := l("alertname", "CompositeSLACritical", "severity", "ticket", "slo_impact", "high", "service", svc,
		"slo_agreement", "unpaid", "slo_kind", "composite", "product", "MED")
	warn := l("alertname", "CompositeSLAWarning", "severity", "ticket", "slo_impact", "medium", "service", svc,
		"slo_agreement", "unpaid", "slo_kind", "composite", "product", "MED")
	ticket := func(name, product string) map[string]string {
		return l("alertname", name, "severity", "ticket", "service", svc, "slo_id", up, "product", product)
	}
	low := func(tier, severity, product string) map[string]string {
		return l("alertname", "ErrorBudgetLow", "severity", severity, "service", svc, "slo_id", up, "product", product,
			"slo_tier", tier)
	}
	for _, c := range []struct {
		name           string
		source, target map[string]string
		want           bool
	}{
		{"half by a fifth", low("budget-20", "ticket", "MED"), low("budget-50", "ticket", "MED"), true},
		{"half by a tenth", low("budget-10", "page", "MED"), low("budget-50", "ticket", "MED"), true},
		{"a fifth by half", low("budget-50", "ticket", "MED"), low("budget-20", "ticket", "MED"), false},
		{"a page by a ticket on less", ticket("ErrorBudgetExhausted", "MED"), low("budget-10", "page", "MED"), false},
		{"a ticket by the empty budget", ticket("ErrorBudgetExhausted", "MED"), low("budget-20", "ticket", "MED"), true},
		{"another product", low("budget-20", "ticket", "MED"), low("budget-50", "ticket", "SOM"), false},
		{"a low budget keeps no burn quiet", low("budget-10", "page", "MED"), ticket("ErrorBudgetBurnTicket", "MED"), false},
		{"nor a score", low("budget-10", "page", "MED"), warn, false},
		{"low budget by the page on a burn", page, low("budget-20", "ticket", "MED"), true},
		{"forecast by empty budget", ticket("ErrorBudgetExhausted", "MED"), ticket("ErrorBudgetExhaustedSoon", "MED"), true},
		{"forecast by empty budget, another product", ticket("ErrorBudgetExhausted", "SOM"),
			ticket("ErrorBudgetExhaustedSoon", "MED"), false},
		{"empty budget by forecast", ticket("ErrorBudgetExhaustedSoon", "MED"), ticket("ErrorBudgetExhausted", "MED"), false},
		{"another ticket by empty budget", ticket("ErrorBudgetExhausted", "MED"),
			ticket("ErrorBudgetBurnTicket", "MED"), false},
		{"ticket by page", page, l("alertname", "ErrorBudgetBurnTicket", "severity", "ticket", "service", svc, "slo_id", up,
			"product", "MED"), true},
		{"ticket by page with its own severity",
			l("alertname", "ErrorBudgetBurnPage", "severity", "P1", "service", svc, "slo_id", up, "product", "MED"),
			l("alertname", "ErrorBudgetBurnTicket", "severity", "ticket", "service", svc, "slo_id", up, "product", "MED"), true},
		{"another product", page, l("alertname", "ErrorBudgetBurnTicket", "severity", "ticket", "service", svc, "slo_id", up,
			"product", "SOM"), false},
		{"another SLO", page, l("alertname", "ErrorBudgetBurnTicket", "severity", "ticket", "service", svc, "slo_id",
			svc+"/latency", "product", "MED"), false},
		{"neither has an SLO", l("alertname", "IngestDiskLow", "severity", "page", "slo_kind", "engine"),
			l("alertname", "EvaluatorLate", "severity", "ticket", "slo_kind", "engine"), false},
		{"component's page by a score that is a ticket", score, page, false},
		{"score's ticket by a component's page", page, score, true},
		{"score's ticket by a component's page, another product",
			l("alertname", "ErrorBudgetBurnPage", "severity", "page", "service", svc, "slo_id", up, "product", "SOM"),
			score, false},
		{"component's ticket by score", score, ticket("ErrorBudgetBurnTicket", "MED"), true},
		{"component's ticket by score, another product", score, ticket("ErrorBudgetBurnTicket", "SOM"), false},
		{"component's ticket by a warning", warn,
			l("alertname", "ErrorBudgetBurnTicket", "severity", "ticket", "service", svc, "slo_id", up, "product", "MED"), true},
		{"component's page by a warning", warn, page, false},
		{"no component", score, l("alertname", "ErrorBudgetBurnPage", "severity", "page", "service", svc, "slo_id",
			svc+"/integration.availability", "product", "MED"), false},
		{"warning by critical score", score, warn, true},
		{"score by itself", score, score, false},
		{"the agreement's other alert", score, l("alertname", "ErrorRateSLAViolation", "severity", "ticket", "service", svc,
			"slo_agreement", "unpaid", "slo_kind", "error_rate", "product", "MED"), true},
		{"another agreement's", score, l("alertname", "ErrorRateSLAViolation", "severity", "ticket", "service", svc,
			"slo_agreement", "gold", "slo_kind", "error_rate", "product", "MED"), false},
		{"recovery notices come through", score, l("alertname", "LatencySLARecovered", "severity", "info", "service", svc,
			"slo_id", up, "slo_agreement", "unpaid", "product", "MED"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, doc.inhibits(c.source, c.target))
		})
	}
}

// TestCausesInhibit proves that a page is kept quiet by the page of a declared cause in the declared groups, and by
// nothing else.
func TestCausesInhibit(t *testing.T) {
	in := insurance(t)
	const svc = "insurance-unpaid"
	in.SLOs[0].CausedBy = []slo.Cause{{SLO: svc + "/integration.availability",
		Group: map[string]string{"integration": "mdm"}, Affects: map[string][]string{"product": {"MED", "a.b"}}}}
	in.SLOs[1].CausedBy = []slo.Cause{{SLO: svc + "/availability"}}
	in.SLOs[2].CausedBy = []slo.Cause{
		{SLO: "mdm/availability", Affects: map[string][]string{"product": nil}}, {SLO: "nowhere/x"}}
	in.SLOs[0].Alerting.Page.Labels = nil
	document := func(in rules.Spec) *document {
		out, _, err := Config(in, Options{Receivers: receivers(t)})
		require.NoError(t, err)
		var doc document
		require.NoError(t, yaml.Unmarshal(out, &doc))
		amtool(t, "check-config", write(t, out))
		return &doc
	}
	doc := document(in)
	alert := func(severity string, id slo.ID, group ...string) map[string]string {
		return labelled(append([]string{"alertname", "ErrorBudgetBurnPage", "severity", severity, "service", id.Service(),
			"slo_id", string(id)}, group...)...)
	}
	mdm := alert("page", svc+"/integration.availability", "integration", "mdm")
	for _, c := range []struct {
		name           string
		source, target map[string]string
		want           bool
	}{
		{"a declared group", mdm, alert("page", svc+"/availability", "product", "MED"), true},
		{"its ticket", mdm, alert("ticket", svc+"/availability", "product", "MED"), true},
		{"a value is no pattern", mdm, alert("page", svc+"/availability", "product", "aXb"), false},
		{"another product", mdm, alert("page", svc+"/availability", "product", "SOM"), false},
		{"another integration", alert("page", svc+"/integration.availability", "integration", "sign"),
			alert("page", svc+"/availability", "product", "MED"), false},
		{"by a ticket of the cause", alert("ticket", svc+"/integration.availability", "integration", "mdm"),
			alert("page", svc+"/availability", "product", "MED"), false},
		{"the cause by its effect", alert("page", svc+"/availability", "product", "MED"), mdm, false},
		{"further down, with equal groups", alert("page", svc+"/availability", "product", "MED"),
			alert("page", svc+"/latency", "product", "MED"), true},
		{"further down, another group", alert("page", svc+"/availability", "product", "MED"),
			alert("page", svc+"/latency", "product", "SOM"), false},
		{"of another service, all groups", alert("page", "mdm/availability"),
			alert("page", svc+"/throughput", "product", "SOM"), true},
		{"an SLO that declares nothing", alert("page", "mdm/availability"),
			alert("page", svc+"/availability", "product", "SOM"), false},
	} {
		require.Equal(t, c.want, doc.inhibits(c.source, c.target), c.name)
	}

	// Every alert against every other: without a declaration no page is quiet.
	for i := range in.SLOs {
		in.SLOs[i].CausedBy = nil
	}
	doc = document(in)
	score := labelled("alertname", "CompositeSLACritical", "severity", "ticket", "slo_impact", "high", "service", svc,
		"slo_agreement", "unpaid", "slo_kind", "composite", "product", "MED")
	for _, s := range in.SLOs {
		for _, source := range []map[string]string{mdm, score, alert("page", svc+"/latency", "product", "MED"),
			alert("page", "mdm/availability")} {
			require.False(t, doc.inhibits(source, alert("page", s.ID, "product", "MED")), "%v", source)
		}
	}

	// With the seed's severities a score pages, and then it says more than its components in equal groups.
	for _, a := range in.Agreements {
		a.SeedSeverities, a.GroupBy = true, nil
	}
	doc = document(in)
	score["severity"] = "critical"
	require.True(t, doc.inhibits(score, alert("page", svc+"/latency", "product", "MED")))
	delete(score, "product")
	require.False(t, doc.inhibits(score, alert("page", svc+"/latency", "product", "MED")),
		"the score of all products keeps no product quiet")
}
