package oracle

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit/spectest"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/rulestest"
	"github.com/sloengine/sloengine/sla"
)

// wrongRule is one mistake: in the expressions of the rules whose names match, a pattern is replaced.
type wrongRule struct {
	name                  string
	record, pattern, with string
}

// wrongRules are mistakes that generators of rules make, by the seed of a world that shows them. What an engine always
// exports hides some others: a missing series of errors, for example, of which it exports a zero.
var wrongRules = map[uint64][]wrongRule{
	3: { // groups and an agreement
		{"ten minutes for five", `:rate5m$`, `offset 5m`, `offset 10m`},
		{"valid events of ten minutes for five", `^slo:valid_events:rate5m$`, `offset 5m`, `offset 10m`},
		{"good events for bad ones", `^slo:bad_events:rate5m$`, `result="bad"`, `result="good"`},
		{"twice the bad events", `^slo:bad_events:rate5m$`, ` / 300`, ` / 150`},
		{"one in a hundred bad events is missing", `^slo:bad_events:rate5m$`, ` / 300`, ` / 303`},
		{"bad events for all", `^slo:valid_events:rate5m$`, `"}`, `",result="bad"}`},
		{"nothing of new counters", `:rate5m$`, ` or rate\([^)]*\)`, ``},
		{"ratio upside down", `ratio_rate`, `(?s)^(.*) / \((slo:valid[^ ]*) > 0\)$`, `$2 / ($1 > 0)`},
		{"engines are not added up", `:rate5m$`, `sum by`, `max by`},
		{"groups are not kept apart", `:rate5m$`, `sum by \(product\) `, `sum `},
		{"engines are kept apart", `:rate5m$`, `sum by \(product\)`, `sum by (product, instance)`},
		{"no zeros for five minutes without events", `30m$`, ` or slo:valid_events:zero30m{[^}]*}`, ``},
		{"no zeros for half an hour without events", `:rate1h$`, ` or slo:[^ ]* offset 30m \* 0| or slo:[^ ]* \* 0`, ``},
		{"the last half hour twice", `:rate1h$`, ` offset 30m`, ``},
		{"bad events of the last hour twice", `ratio_rate2h$`, ` offset 1h`, ``},
		{"the last hour for the first of six", `ratio_rate6h$`, ` offset 5h`, ``},
		{"mean of ratios", `ratio_rate1h$`, `(?s)^slo:bad_events:rate1h({.*?}).*`,
			`avg_over_time(slo:sli_error:ratio_rate5m$1[1h])`},
		{"too few bad events in a day", `^slo:bad_events:increase5m$`, `300`, `240`},
		{"an hour for a day", `ratio_rate1d$`, `\[1d\]`, `[1h]`},
		{"objective of another SLO", `^slo:period_burn_rate:ratio$`, `0\.05`, `0.02`},
		{"other weights", `^sla:composite_score`, `60 \*`, `30 *`},
		{"a component scores more than all", `^sla:component_score`, `, 1\)$`, `, 2)`},
	},
	4: { // ratios
		{"denominator for numerator", `^slo:bad_events:rate5m$`, `slo_part="numerator"`, `slo_part="denominator"`},
		{"numerator for denominator", `^slo:valid_events:rate5m$`, `slo_part="denominator"`, `slo_part="numerator"`},
		{"numerator is not taken from the denominator", `^slo:bad_events:rate5m$`, `(?s)^.* - on \(zone\) `, ``},
	},
	5: { // work and its cost
		{"a price of 15 for 12.50", `^slo:cost:increase5m$`, `3750`, `4500`},
		{"cost of all work", `^slo:cost:increase5m$`, `bad_events`, `valid_events`},
	},
}

func (m *wrongRule) in(groups []rules.Group) (out []rules.Group, changed int) {
	record, pattern := regexp.MustCompile(m.record), regexp.MustCompile(m.pattern)
	for _, g := range groups {
		g.Rules = slices.Clone(g.Rules)
		for i := range g.Rules {
			r := &g.Rules[i]
			if !record.MatchString(r.Record) {
				continue
			}
			expr := pattern.ReplaceAllString(r.Expr, m.with)
			if expr != r.Expr {
				r.Expr, changed = expr, changed+1
			}
		}
		out = append(out, g)
	}
	return out, changed
}

// TestOneOracleNoticesWrongRules: what the oracle compares shows each of the mistakes, and nothing without one. The
// engines count once, and Prometheus scrapes the same for every mistake.
func TestOneOracleNoticesWrongRules(t *testing.T) {
	t.Parallel()
	for _, seed := range slices.Sorted(maps.Keys(wrongRules)) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { noticesWrongRules(t, seed, wrongRules[seed]) })
	}
}

func noticesWrongRules(t *testing.T, seed uint64, mistakes []wrongRule) {
	const every, length = 10 * time.Minute, 80 * time.Minute // in 70 minutes, an hour is not a day
	w := newOracleWorld(t, seed, rules.Full)
	w.gaps, w.slack, w.looks = nil, oracleExact, map[time.Duration]*sla.Report{}
	w.split(seed)
	right, err := rules.Recording(spectest.Rules(w.spec), w.options.Options)
	require.NoError(t, err)
	right = lean(right)

	type sample struct {
		series string
		value  float64
	}
	scrapes := map[time.Duration][]sample{}
	one, rest := newOracleEngine(t, w.spec, oracleStart), w.events
	parts, events := make([]*oracleEngine, 3), make([][]*oracleEvent, 3)
	for i := range parts {
		parts[i], events[i] = newOracleEngine(t, w.spec, oracleStart), w.events
	}
	for now := oracleScrape; now < length; now += oracleScrape {
		for i, e := range parts {
			events[i], _ = e.take(events[i], i, now)
			e.scrape(strconv.Itoa(i), func(series string, value float64) {
				scrapes[now] = append(scrapes[now], sample{series, value})
			})
		}
		if now%every == 0 {
			rest, w.looks[now] = one.take(rest, -1, now)
		}
	}
	// look gives what the oracle finds, until it has found something.
	look := func(t *testing.T, groups []rules.Group) (found []string) {
		w.differ = func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
		p := rulestest.New(t, oracleStart, groups)
		p.After = func(at time.Time) {
			now := at.Sub(oracleStart).Truncate(oracleStep)
			if r := w.looks[now]; r != nil && len(found) == 0 {
				w.look(p, at, now, r)
			}
		}
		for until := every + oracleScrape; until <= length && len(found) == 0; until += every {
			p.Run(oracleStart.Add(until), oracleScrape, func(at time.Time, add func(string, float64)) {
				for _, s := range scrapes[at.Sub(oracleStart)] {
					add(s.series, s.value)
				}
			})
		}
		return found
	}
	t.Run("none", func(t *testing.T) {
		require.Empty(t, look(t, right))
		require.NotZero(t, w.sum.indicators)
		require.NotZero(t, w.sum.budgets)
		require.NotZero(t, w.sum.scores)
	})
	for i := range mistakes {
		m := &mistakes[i]
		t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
			wrong, changed := m.in(right)
			require.NotZero(t, changed, "no rule has what is to be replaced")
			found := look(t, wrong)
			if assert.NotEmpty(t, found, "the oracle does not notice it in %d rules", changed) {
				t.Log(found[0])
			}
		})
	}
}
