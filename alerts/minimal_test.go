package alerts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/slo"
)

func minimalOptions() Options {
	o := Options{Options: tables, NoEngine: true}
	o.Profile = rules.Minimal
	return o
}

// The limits that keep a generated file readable, with the SLO's name as s/a and the user's selectors as X.
const (
	maxExprBytes = 240
	maxExprLines = 4
)

func TestMinimalIsReadable(t *testing.T) {
	files, err := filepath.Glob("../testdata/specs/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			m := generate(t, exampleSpec(t, name), minimalOptions())
			groups := rules.Merge(m.recording, m.alerts)
			path := filepath.Join(t.TempDir(), "rules.yaml")
			require.NoError(t, os.WriteFile(path, rules.File("", groups), 0o644))
			require.Contains(t, promtool(t, "check", "rules", path), "SUCCESS")
			for _, s := range m.in.Expressible().SLOs {
				readable(t, s, groups)
			}
		})
	}
}

func readable(t *testing.T, s *slo.SLO, groups []rules.Group) {
	count, most := 0, 24
	if s.Indicator.Kind == slo.KindPrometheus {
		most = 22
	}
	in := &s.Indicator
	words := []string{string(s.ID), "s/a"}
	for _, selector := range []string{in.PromTotal, in.PromBad, in.PromGood} {
		if selector != "" {
			words = append(words, selector, "X")
		}
	}
	text := strings.NewReplacer(words...)
	for _, g := range groups {
		if g.Name != rules.ShortGroup(s) && g.Name != rules.LongGroup(s) {
			continue
		}
		require.Len(t, strings.Split(g.Comment, "\n"), 2, g.Name)
		for _, r := range g.Rules {
			count++
			expr := text.Replace(r.Expr)
			if in.PromForm() == slo.PromQueries || in.PromForm() == slo.PromRatio || in.PromForm() == slo.PromThreshold {
				continue // the user's own query may be long
			}
			require.LessOrEqual(t, len(expr), maxExprBytes, expr)
			require.LessOrEqual(t, strings.Count(expr, "\n")+1, maxExprLines, expr)
			require.LessOrEqual(t, strings.Count(expr, " offset "), 1, expr)
		}
	}
	if s.Window.Calendar != "" {
		most += 2 // the events of the calendar window
	}
	if s.Cost != nil {
		most += 3
	}
	if !in.Capacity.IsZero() {
		most += 4
	}
	if s.Alerting.Soon.Within > 0 {
		most++
	}
	most += 3 * (len(tiersIn(s)) - len(slo.Tiers)) // alert, evidence and window of each more
	require.LessOrEqual(t, count, most, s.ID)
}

func tiersIn(s *slo.SLO) []slo.Tier {
	if len(s.Alerting.Tiers) > len(slo.Tiers) {
		return s.Alerting.Tiers
	}
	return slo.Tiers
}

// shop is an SLO on counters of Prometheus, of two products.
func shop(t testing.TB) *slo.SLO {
	s := grouped(simple(t, "shop/availability", "99.9"), "product")
	s.Indicator = slo.Indicator{Kind: slo.KindPrometheus, PromTotal: `http_requests_total`,
		PromBad: `http_requests_total{code="500"}`}
	return s
}

// counters are counters of one product, scraped every 15 s a second after the evaluation. bad is the share of failures
// since a time; ok says whether a scrape succeeds.
type counters struct {
	product   string
	perSecond float64
	bad       func(at time.Duration) float64
	ok        func(at time.Duration) bool
}

func (l *lab) scrape(c counters, to time.Duration) {
	const step = 15 * time.Second
	good, bad := map[time.Duration]float64{}, map[time.Duration]float64{}
	var g, b float64
	for at := time.Duration(0); at <= to; at += step {
		share := c.bad(at)
		b += share * c.perSecond * step.Seconds()
		g += (1 - share) * c.perSecond * step.Seconds()
		good[at], bad[at] = g, b
	}
	for code, of := range map[string]map[time.Duration]float64{"200": good, "500": bad} {
		l.load(fmt.Sprintf(`http_requests_total{product=%q,code=%q}`, c.product, code), time.Second, to+time.Second, step,
			func(at time.Duration) (float64, bool) {
				return of[at-time.Second], c.ok == nil || c.ok(at-time.Second)
			})
	}
}

// every evaluates each group at its own interval.
func (l *lab) every(to time.Duration, key func(labels.Labels) string) map[string][]time.Duration {
	return l.between(0, to, key)
}

func (l *lab) between(from, to time.Duration, key func(labels.Labels) string) map[string][]time.Duration {
	edges, on := map[string][]time.Duration{}, map[string]bool{}
	for at := from; at <= to; at += 30 * time.Second {
		for _, g := range l.groups {
			if at%g.Interval() == 0 {
				g.Eval(context.Background(), time.UnixMilli(at.Milliseconds()))
			}
		}
		now := map[string]bool{}
		for _, a := range l.firing() {
			now[key(a.Labels)] = true
		}
		for k := range union(on, now) {
			if on[k] != now[k] {
				edges[k] = append(edges[k], at)
			}
		}
		on = now
	}
	return edges
}

func minimalLab(t testing.TB, s *slo.SLO) *lab {
	m := generate(t, rules.Spec{SLOs: []*slo.SLO{s}}, minimalOptions())
	return newLab(t, slices.DeleteFunc(rules.Merge(m.recording, m.alerts), func(g rules.Group) bool {
		return len(g.Rules) == 0
	})...)
}

// incident is bad from a time on, for a while.
func during(start, length time.Duration, share float64) func(time.Duration) float64 {
	return func(at time.Duration) float64 {
		if at > start && at <= start+length {
			return share
		}
		return 0
	}
}

// TestMinimalTimes holds the rules to the table of the SRE workbook's incidents in docs/alerts.md, to one evaluation.
// Before the incident stand three days, of which the last seven hours are evaluated: what each window reads is there.
func TestMinimalTimes(t *testing.T) {
	const (
		start = 3 * 24 * time.Hour
		from  = start - 7*time.Hour
	)
	table := workbookTable(t)
	for i, c := range workbook {
		t.Run(fmt.Sprintf("%g for %s", c.share, c.length), func(t *testing.T) {
			t.Parallel()
			l := minimalLab(t, shop(t))
			to := start + c.length + c.after
			for product, share := range map[string]float64{"a": c.share, "b": 0} {
				for name, events := range map[string]float64{"slo:valid_events:5m": 30000, "slo:bad_events:5m": 0} {
					l.load(fmt.Sprintf(`%s{slo_id="shop/availability",service="shop",slo="availability",product=%q}`, name, product),
						0, from-1, 5*time.Minute, constant(events))
				}
				l.scrape(
					counters{product: product, perSecond: 100, bad: during(start, c.length, share), ok: func(at time.Duration) bool {
						return at >= from-time.Minute
					}}, to)
			}
			got := l.between(from, to, byTier)
			for tier, cells := range table["rules"] {
				eval := 30 * time.Second
				if strings.HasPrefix(tier, "ticket") {
					eval = 5 * time.Minute
				}
				compareTimes(t, tier, cells[i], got[tier], start, c.length, eval)
			}
		})
	}
}

// TestTicketTimesInPromtool holds the tickets to the same table in the Prometheus of the promtool that is installed,
// which looks every 5m at events that are given for 5m.
func TestTicketTimesInPromtool(t *testing.T) {
	const (
		start  = 3 * 24 * time.Hour
		step   = 5 * time.Minute
		events = 30000
	)
	type sample struct {
		Labels string  `yaml:"labels"`
		Value  float64 `yaml:"value"`
	}
	type look struct {
		Expr    string   `yaml:"expr"`
		At      string   `yaml:"eval_time"`
		Samples []sample `yaml:"exp_samples"`
	}
	type test struct {
		Interval string              `yaml:"interval"`
		Series   []map[string]string `yaml:"input_series"`
		Looks    []look              `yaml:"promql_expr_test"`
	}
	m := generate(t, rules.Spec{SLOs: []*slo.SLO{shop(t)}}, minimalOptions())
	groups := rules.Merge(m.recording, m.alerts)
	for i := range groups {
		groups[i].Rules = slices.DeleteFunc(groups[i].Rules, func(r rules.Rule) bool {
			return r.Record == "slo:valid_events" || r.Record == "slo:bad_events"
		})
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rules.yaml"), rules.File("", groups), 0o644))

	table := workbookTable(t)["rules"]
	var tests []test
	for i, c := range workbook {
		const labels = `{slo_id="shop/availability",service="shop",slo="availability",product="a"}`
		after := c.after + time.Hour
		x := test{Interval: "5m", Series: []map[string]string{
			{"series": "slo:valid_events" + labels, "values": fmt.Sprintf("%dx%d", events, (start+c.length+after)/step)},
			{"series": "slo:bad_events" + labels, "values": fmt.Sprintf("0x%d %gx%d 0x%d",
				start/step, c.share*events, c.length/step-1, after/step-1)},
		}}
		for _, tier := range []string{"ticket-1d", "ticket-3d"} {
			at := func(now time.Duration, firing bool) {
				l := look{At: now.String(),
					Expr: fmt.Sprintf(`count by (slo_tier) (ALERTS{alertstate="firing",slo_tier=%q})`, tier)}
				if firing {
					l.Samples = []sample{{fmt.Sprintf("{slo_tier=%q}", tier), 1}}
				}
				x.Looks = append(x.Looks, l)
			}
			begin, end, fires := cellTimes(t, table[tier][i])
			if !fires {
				at(start+c.length, false)
				at(start+c.length+10*time.Minute, false)
				continue
			}
			at(start+begin-step, false)
			at(start+begin, true)
			at(start+c.length+end-step, true)
			at(start+c.length+end, false)
		}
		tests = append(tests, x)
	}
	var order []string // which promtool leaves to chance otherwise
	for _, g := range groups {
		order = append(order, g.Name)
	}
	data, err := yaml.Marshal(map[string]any{"rule_files": []string{"rules.yaml"}, "evaluation_interval": "5m",
		"group_eval_order": order, "tests": tests})
	require.NoError(t, err)
	file := filepath.Join(dir, "tests.yaml")
	require.NoError(t, os.WriteFile(file, data, 0o644))
	require.Contains(t, promtool(t, "test", "rules", file), "SUCCESS")
}

// 2 % are bad, then nothing is scraped for 40 minutes, then 2 % are bad again.
func TestMinimalPagesAgainAfterAGap(t *testing.T) {
	const bad, gap, again = 7 * time.Hour, 9 * time.Hour, 9*time.Hour + 40*time.Minute
	to := again + 10*time.Minute
	l := minimalLab(t, shop(t))
	for _, product := range []string{"a", "b"} {
		l.scrape(counters{product: product, perSecond: 100, bad: during(bad, 10*time.Hour, 0.02),
			ok: func(at time.Duration) bool { return at <= gap || at > again }}, to)
	}
	got := l.every(to, func(l labels.Labels) string { return l.Get("alertname") + l.Get("slo_tier") })
	page := got[NameBurnPage+"page-1h"]
	require.Len(t, page, 3)
	require.Greater(t, page[1], gap+15*time.Minute, "missing data ends no page at once")
	require.Less(t, got[NameNoData][0], page[1], "that data is missing is said before")
	require.LessOrEqual(t, page[2], again+2*time.Minute)
}

// So few errors among so many events that it cannot be chance are no evidence for a page, also not later, when there
// are few events.
func TestMinimalFewErrorsAreNoEvidence(t *testing.T) {
	const busy, quiet, to = 95 * time.Minute, 150 * time.Minute, 165 * time.Minute
	l := minimalLab(t, shop(t))
	until := func(end time.Duration, perSecond, later float64) curve {
		return func(at time.Duration) (float64, bool) {
			v := perSecond * min(at, end).Seconds()
			if at > quiet {
				v += later
			}
			return v, true
		}
	}
	l.load(`http_requests_total{product="a",code="200"}`, time.Second, to, 15*time.Second, until(busy, 100, 0))
	l.load(`http_requests_total{product="a",code="500"}`, time.Second, to, 15*time.Second, until(busy, 0.01, 2))
	require.Empty(t, l.every(to, byTier)["page-1h"], "two of two events failed")
}
