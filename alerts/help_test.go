package alerts

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit/slotest"
	"github.com/sloengine/sloengine/internal/testkit/spectest"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// tables is the time that tests write literal tables for.
var tables = rules.Options{
	From:  time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
	Until: time.Date(2027, 2, 1, 0, 0, 0, 0, time.UTC),

	PageURL: "http://127.0.0.1:8080", DashboardURL: "http://127.0.0.1:3000",
}

// simple is an SLO on plain events.
func simple(t testing.TB, id slo.ID, percent string) *slo.SLO {
	t.Helper()
	return &slo.SLO{
		ID: id, Objective: slotest.Objective(t, percent), Window: slo.Window{Rolling: 30 * 24 * time.Hour},
		Budgeting: slo.Budgeting{Method: slo.Occurrences},
		Indicator: slo.Indicator{Kind: slo.KindEvents,
			Valid: slo.Selector{slotest.Matcher(t, "type", slo.OpEqual, "request")},
			Bad:   slo.Selector{slotest.Matcher(t, "outcome", slo.OpEqual, "failure")}},
	}
}

func grouped(s *slo.SLO, by ...string) *slo.SLO {
	s.GroupBy, s.MaxGroups = by, 100
	return s
}

func latency(t testing.TB, id slo.ID, percent string, limit time.Duration, valid ...slo.Matcher) *slo.SLO {
	t.Helper()
	s := simple(t, id, percent)
	s.Indicator = slo.Indicator{Kind: slo.KindLatency, Valid: valid, Threshold: limit}
	return s
}

// synthetic is a spec with one of everything.
func synthetic(t testing.TB) rules.Spec {
	t.Helper()
	moscow, err := time.LoadLocation("Europe/Moscow")
	require.NoError(t, err)
	open, err := slo.ParseSchedule("Mon-Fri 09:00-18:00 Europe/Moscow")
	require.NoError(t, err)

	up := simple(t, "shop/availability", "99.9")
	up.Alerting = slo.Alerting{MinEvents: 20, Page: slo.AlertSettings{Labels: map[string]string{"severity": "critical"}}}
	up.Links = map[string]string{"runbook": "https://wiki.example.org/shop?a=b", "traces": "https://tempo.example.org"}
	byTier := grouped(simple(t, "shop/errors", "99"), "tier", "http.code") // a business tier, which is none of the alert
	month := simple(t, "shop/month", "99.5")
	month.Window = slo.Window{Calendar: slo.Month, Location: moscow}
	own := simple(t, "shop/own", "99.95")
	own.Window = slo.Window{Rolling: 7 * 24 * time.Hour}
	own.Alerting = slo.Alerting{Name: "ShopTooManyErrors", Tiers: []slo.Tier{
		{Page: true, Long: 2 * time.Hour, Short: 10 * time.Minute, Share: 0.05},
		{Long: 24 * time.Hour, Short: 2 * time.Hour, Share: 0.25},
	}, NoData: slo.AlertSettings{Disabled: true}, Left: []slo.LeftAlert{{Share: 0.2, Page: true}, {Share: 0.5}}}
	slow := latency(t, "shop/latency", "95", 2*time.Second, slotest.Matcher(t, "type", slo.OpEqual, "request"))
	busy := simple(t, "shop/throughput", "99")
	busy.Indicator = slo.Indicator{Kind: slo.KindThroughput,
		Valid: slo.Selector{slotest.Matcher(t, "type", slo.OpEqual, "request")}, AtLeast: 100, Per: time.Minute, During: open}
	busy.Alerting.Page.Disabled = true
	slices := simple(t, "shop/uptime", "99")
	slices.Budgeting = slo.Budgeting{Method: slo.Timeslices, Slice: time.Minute, Target: slotest.Objective(t, "95")}
	calls := grouped(simple(t, "shop/calls", "99.5"), "integration")
	calls.Alerting.Ticket.Labels = map[string]string{"tier": "gold", "impact": "low"}
	stage := grouped(simple(t, "shop/stages", "99.5"), "stage")
	bank := latency(t, "shop/bank", "95", 10*time.Second, slotest.Matcher(t, "type", slo.OpEqual, "integration"),
		slotest.Matcher(t, "integration", slo.OpEqual, "bank"))
	// by a label of ours, with a matcher on a group in one of two
	api := grouped(simple(t, "legacy/api", "99.5"), "service", "tier")
	api.Indicator = slo.Indicator{Kind: slo.KindPrometheus, PromBad: `http_requests_total{code=~"5..",tier="gold"}`,
		PromTotal: `http_requests_total`}

	names := func(names ...string) []sla.CatalogueAlert {
		var out []sla.CatalogueAlert
		for _, n := range names {
			out = append(out, sla.CatalogueAlert{Name: n})
		}
		return out
	}
	return rules.Spec{
		SLOs: []*slo.SLO{api, up, bank, calls, byTier, slow, month, own, stage, busy, slices},
		Thresholds: []*slo.Threshold{
			{Service: "shop", Name: "request", Match: slo.Selector{slotest.Matcher(t, "type", slo.OpEqual, "request")},
				Warning: 2 * time.Second, Critical: 4 * time.Second},
		},
		Agreements: []*sla.Agreement{{
			Service: "shop", Name: "gold", Window: slo.Window{Rolling: 30 * 24 * time.Hour}, Method: sla.Attainment,
			NoData: sla.NoDataExclude,
			Components: []sla.Component{
				{Name: "availability", SLO: "shop/availability", Weight: 40}, {Name: "errors", SLO: "shop/errors", Weight: 10},
				{Name: "latency", SLO: "shop/latency", Weight: 30}, {Name: "throughput", SLO: "shop/throughput", Weight: 20},
			},
			Warning: 95, Critical: 90, AlertWindow: time.Hour, Catalogue: names(sla.CatalogueNames()...),
		}},
	}
}

// promtool runs the real one, which decides what Prometheus loads.
func promtool(t *testing.T, args ...string) string {
	t.Helper()
	out, err := runPromtool(t, args)
	require.NoError(t, err, "promtool %s\n%s", strings.Join(args, " "), out)
	return out
}

// promtoolFails runs the real one, which must not be content.
func promtoolFails(t *testing.T, args ...string) string {
	t.Helper()
	out, err := runPromtool(t, args)
	require.Error(t, err, "promtool %s\n%s", strings.Join(args, " "), out)
	return out
}

func runPromtool(t *testing.T, args []string) (string, error) {
	t.Helper()
	if os.Getenv("SLOENGINE_QUICK") != "" {
		t.Skip("make quick runs no promtool")
	}
	bin, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed")
	}
	cmd := exec.Command(bin, args...)
	cmd.Env = append(os.Environ(), "GOGC=400") // it collects its garbage for a sixth of its CPU otherwise
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func insurance(t testing.TB) rules.Spec { return exampleSpec(t, "insurance") }

// exampleSpec is an example spec.
func exampleSpec(t testing.TB, name string) rules.Spec {
	t.Helper()
	return spectest.Rules(spectest.Example(t, name))
}

// Names lists every alert name that can be generated. Each has a runbook.
func Names() []string {
	names := []string{NameBurnPage, NameBurnTicket, NameBudgetExhausted, NameBudgetLow, NameExhaustedSoon, NameNoData,
		NameSenderSilent, NameTablesRunOut, NameWatchdog}
	for _, e := range Catalogue() {
		names = append(names, e.Alerts...)
	}
	for _, e := range engineAlerts(EngineThresholds{}.WithDefaults()) {
		names = append(names, e.Alert)
	}
	return names
}
