package web

import (
	"encoding/csv"
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/api"
	"github.com/sloengine/sloengine/web/format"
)

// priced gives availability and quality a price of bad events, which are 702 + 981 + 31 and 5606 + 2003 + 851.
func priced(t testing.TB, b *bench) {
	t.Helper()
	before, err := slo.ParseAmount("30000")
	require.NoError(t, err)
	for i := range b.rep.SLOs {
		switch s := b.rep.SLOs[i].SLO; s.ID {
		case "insurance-unpaid/availability":
			s.Cost = newCost(t, "12.50", "EUR")
			s.Cost.Baseline = slo.Payment{Amount: before, Per: 30 * 24 * time.Hour}
			s.Cost.Investment = slo.Payment{Amount: newCost(t, "3000", "EUR").Price, Per: 30 * 24 * time.Hour}
		case "mdm/availability":
			s.Cost = newCost(t, "2", "USD")
		}
	}
}

// By hand: 1714 bad events at 12.50 are 21425.00. The month before cost 30000; two hours of maintenance leave 29d22h,
// which cost 29916.67 and 2991.67 of investment.
func TestCostOfAnSLO(t *testing.T) {
	b := newBench(t)
	k := newContract(t, b)
	priced(t, b)
	body := k.answer(b, http.MethodGet, "/api/v1/slos/insurance-unpaid/availability?group.product=SOMLT", http.StatusOK)
	var one struct {
		SLO   struct{ Cost map[string]any }
		Costs sla.Costs
	}
	require.NoError(t, json.Unmarshal(body, &one))
	require.Equal(t, "12262.50", one.SLO.Cost["amount"], "981 bad events")
	require.NotContains(t, one.SLO.Cost, "saving", "the baseline is that of all groups")
	sum := one.Costs.Sums[0]
	require.Equal(t, []string{"21425.00", "29916.67", "8491.67", "2991.67"},
		[]string{sum.Amount.In("EUR"), sum.Baseline.In("EUR"), sum.Saving.In("EUR"), sum.Investment.In("EUR")})
	k.answer(b, http.MethodGet, "/api/v1/slos", http.StatusOK)
	k.answer(b, http.MethodGet, "/api/v1/slas", http.StatusOK)

	page := text(check(t, b.get("/slo?id=insurance-unpaid/availability&group.product=SOMLT").Body.String()))
	for _, want := range []string{"21,425.00 EUR", "all groups together, of which 12,262.50 EUR in this group",
		"12.50 EUR per bad event", "1,714 bad events", "8,491.67 EUR", "29,916.67 EUR", "2,991.67 EUR", "183%"} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, b.get("/slo?id=insurance-unpaid/latency&group.product=SOMLT").Body.String(),
		"Cost of violations")

	page = text(check(t, b.get("/sla?service=insurance-unpaid&sla=unpaid&group.product=SOMLT").Body.String()))
	for _, want := range []string{"12,262.50 EUR",
		"No cost is stated for insurance-unpaid/latency, insurance-unpaid/quality, insurance-unpaid/throughput."} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, page, "Saving")
}

// The cost of an incident is by the price at its time, and currencies stand side by side.
func TestCostOfAnIncident(t *testing.T) {
	cost := func(amount, currency, basis string, shared ...string) *incident.Cost {
		a := newCost(t, amount, currency).Price
		return &incident.Cost{Amount: a, Currency: currency, Basis: basis, Coverage: 1, Shared: shared}
	}
	spent := []incident.Spent{
		{SLO: "shop/a", Group: []string{"eu"}, Bad: 4, Cost: cost("50", "EUR", "12.50 EUR per bad event")},
		{SLO: "shop/a", Group: []string{"us"}, Bad: 2, Cost: cost("25", "EUR", "12.50 EUR per bad event")},
		{SLO: "shop/b", Bad: 3, Cost: cost("0.30", "EUR", "0.10 EUR per bad event", "shop/a")},
		{SLO: "shop/c", Bad: 3, Cost: cost("7", "USD", "7.00 USD per bad event")},
		{SLO: "shop/d", Bad: 3},
	}
	b, book := withIncidents(t)
	book.apply(
		incident.Batch{Operations: []incident.Operation{{Kind: incident.Measured, ID: "INC-2026-11-0001", Spent: spent}}})
	page := text(check(t, b.get(firstIncident).Body.String()))
	for _, want := range []string{
		"75.30 EUR", "75.00 EUR", "6 bad events", "7.00 USD",
		"shop/a and shop/b can count the same event or time, so the sum may contain it twice.",
		"No cost is stated for shop/d.",
		"Amounts in different currencies are not added up.",
	} {
		require.Contains(t, page, want)
	}
	k := newContract(t, b)
	body := k.answer(b, http.MethodGet, "/api/v1/incidents/INC-2026-11-0001", http.StatusOK)
	require.Contains(t, string(body), `"counted_twice":[["shop/a","shop/b"]]`)
	k.answer(b, http.MethodGet, "/api/v1/incidents", http.StatusOK)
	lines, err := csv.NewReader(b.get("/api/v1/incidents.csv").Body).ReadAll()
	require.NoError(t, err)
	at := slices.Index(lines[0], "cost")
	require.Equal(t, []string{"cost", "currency"}, lines[0][at:at+2])
	require.Equal(t, []string{"", ""}, lines[1][at:at+2], "no single currency")
}

// The forms of a report agree about the cost: 12.50 for each bad event of the week, in all groups together.
func TestCostInReports(t *testing.T) {
	b, _ := periodBench(t)
	k := newContract(t, b)
	b.web.Opt.Incidents = periodIncidents()
	for i := range b.rep.SLOs {
		if s := b.rep.SLOs[i].SLO; s.ID == "shop/availability" && s.Cost == nil {
			s.Cost = newCost(t, "12.50", "EUR")
		}
	}
	var got struct {
		SLOs []struct {
			SLO    string
			Budget struct{ Counts struct{ Bad uint64 } }
		}
		Costs sla.Costs
	}
	require.NoError(t, json.Unmarshal(k.answer(b, http.MethodGet, "/api/v1/report?period=2026-W46", http.StatusOK), &got))
	var bad uint64
	for _, s := range got.SLOs {
		if s.SLO == "availability" {
			bad += s.Budget.Counts.Bad
		}
	}
	require.NotZero(t, bad)
	want := slo.Money{Amount: newCost(t, "12.50", "EUR").Price.Times(bad), Currency: "EUR"}
	require.Equal(t, want.In("EUR"), got.Costs.Sums[0].Amount.In("EUR"))
	require.Equal(t, bad, got.Costs.SLOs[0].Bad)

	lines := readCSV(t, b.get("/api/v1/report?period=2026-W46&format=csv").Body.Bytes(), api.CSVColumns)
	last := lines[slices.IndexFunc(lines, func(l map[string]string) bool { return l["kind"] == "cost" })]
	require.Equal(t, []string{want.In("EUR"), "EUR"}, []string{last["cost"], last["currency"]})
	require.Contains(t, last["note"], "No cost is stated for ")
	for _, path := range []string{"/report?period=2026-W46", "/api/v1/report?period=2026-W46&format=html",
		"/api/v1/report?period=2026-W46&format=text"} {
		body := b.get(path).Body.String()
		for _, part := range []string{format.Money(want), "12.50 EUR per bad event", "No cost is stated for "} {
			require.Contains(t, body, part, path)
		}
	}
}
