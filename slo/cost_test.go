package slo_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
)

// Prices of one bad event or slice, by hand.
func TestUnitCost(t *testing.T) {
	slices := func(d time.Duration) slo.Budgeting { return slo.Budgeting{Method: slo.Timeslices, Slice: d} }
	for _, c := range []struct {
		name  string
		slo   slo.SLO
		unit  slo.CostUnit
		price string
		bad   uint64
		want  string
		basis string
	}{
		{"events", slo.SLO{Indicator: slo.Indicator{Kind: slo.KindEvents}}, slo.PerBad, "12.50", 3, "37.50",
			"12.50 EUR per bad event"},
		{"fractions of a cent", slo.SLO{Indicator: slo.Indicator{Kind: slo.KindLatency}}, slo.PerBad, "0.0015", 1001, "1.50",
			"0.0015 EUR per bad event"},
		{"slices of 1m", slo.SLO{Budgeting: slices(time.Minute)}, slo.PerMinute, "20", 7, "140.00",
			"20.00 EUR per minute of violation"},
		{"slices of 10s", slo.SLO{Budgeting: slices(10 * time.Second)}, slo.PerMinute, "10", 3, "5.00",
			"10.00 EUR per minute of violation"},
		{"one slice of 10s", slo.SLO{Budgeting: slices(10 * time.Second)}, slo.PerMinute, "10", 1, "1.67",
			"10.00 EUR per minute of violation"},
		{"slices of 5m", slo.SLO{Budgeting: slices(5 * time.Minute)}, slo.PerMinute, "0.10", 4, "2.00",
			"0.10 EUR per minute of violation"},
		{"throughput per 1h", slo.SLO{Indicator: slo.Indicator{Kind: slo.KindThroughput, Per: time.Hour}}, slo.PerMinute,
			"1.25", 2, "150.00", "1.25 EUR per minute of violation"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.slo
			s.Cost = &slo.Cost{Unit: c.unit, Price: amount(t, c.price), Currency: "EUR"}
			require.True(t, s.HasCostUnit(c.unit))
			require.Equal(t, c.want, s.UnitCost().Times(c.bad).In("EUR"))
			require.Equal(t, c.basis, s.Cost.Basis())
		})
	}
}

func TestHasCostUnit(t *testing.T) {
	for _, c := range []struct {
		slo  slo.SLO
		want []slo.CostUnit
	}{
		{slo.SLO{Indicator: slo.Indicator{Kind: slo.KindEvents}, Budgeting: slo.Budgeting{Method: slo.Occurrences}},
			[]slo.CostUnit{slo.PerBad}},
		{slo.SLO{Indicator: slo.Indicator{Kind: slo.KindEvents},
			Budgeting: slo.Budgeting{Method: slo.Timeslices, Slice: time.Minute}}, []slo.CostUnit{slo.PerMinute}},
		{slo.SLO{Indicator: slo.Indicator{Kind: slo.KindEvents},
			Budgeting: slo.Budgeting{Method: slo.RatioTimeslices, Slice: time.Minute}}, nil},
		{slo.SLO{Indicator: slo.Indicator{Kind: slo.KindThroughput, Per: time.Minute}}, []slo.CostUnit{slo.PerMinute}},
		{slo.SLO{Indicator: slo.Indicator{Kind: slo.KindPrometheus, PromTotal: "a"}}, []slo.CostUnit{slo.PerBad}},
		{slo.SLO{Indicator: slo.Indicator{Kind: slo.KindPrometheus, PromTotal: "a"},
			Budgeting: slo.Budgeting{Method: slo.Timeslices, Slice: time.Minute}}, nil},
		{slo.SLO{Indicator: slo.Indicator{Kind: slo.KindPrometheus, PromErrorRatioQuery: "a"}}, nil},
	} {
		var got []slo.CostUnit
		for _, u := range []slo.CostUnit{slo.PerBad, slo.PerMinute} {
			if c.slo.HasCostUnit(u) {
				got = append(got, u)
			}
		}
		require.Equal(t, c.want, got, "%+v", c.slo.Indicator)
	}
}

func selectorOf(t testing.TB, parts ...string) (out slo.Selector) {
	t.Helper()
	for i := 0; i < len(parts); i += 3 {
		m, err := slo.NewMatcher(parts[i], slo.MatchOp(parts[i+1]), parts[i+2])
		require.NoError(t, err)
		out = append(out, m)
	}
	return out
}

// Only matchers that contradict each other tell events apart.
func TestMayShare(t *testing.T) {
	events := func(valid, bad slo.Selector) *slo.SLO {
		return &slo.SLO{ID: "shop/a", Indicator: slo.Indicator{Kind: slo.KindEvents, Valid: valid, Bad: bad}}
	}
	failed := selectorOf(t, "outcome", "=", "failure")
	for _, c := range []struct {
		name string
		a, b *slo.SLO
		want bool
	}{
		{"the same", events(nil, failed), events(nil, failed), true},
		{"a failure is no success", events(nil, failed),
			&slo.SLO{ID: "shop/b", Indicator: slo.Indicator{Kind: slo.KindLatency,
				Valid: selectorOf(t, "outcome", "=", "success")}}, false},
		{"other types", events(selectorOf(t, "type", "=", "stage"), failed),
			events(selectorOf(t, "type", "=", "task"), failed), false},
		{"severity excluded", events(nil, selectorOf(t, "severity", "=", "business")),
			events(nil, selectorOf(t, "severity", "!=", "business")), false},
		{"regular expressions", events(nil, selectorOf(t, "code", "=~", "5..")),
			events(nil, selectorOf(t, "code", "=", "404")), false},
		{"regular expressions that may meet", events(nil, selectorOf(t, "code", "=~", "5..")),
			events(nil, selectorOf(t, "code", "=~", "50.")), true},
		{"other attributes", events(nil, selectorOf(t, "a", "=", "1")), events(nil, selectorOf(t, "b", "=", "2")), true},
		{"other services", events(nil, failed), &slo.SLO{ID: "bank/a"}, false},
		{"series", events(nil, failed),
			&slo.SLO{ID: "shop/p", Indicator: slo.Indicator{Kind: slo.KindPrometheus, PromTotal: "x"}}, true},
	} {
		require.Equal(t, c.want, slo.MayShare(c.a, c.b), c.name)
		require.Equal(t, c.want, slo.MayShare(c.b, c.a), c.name)
	}
}
