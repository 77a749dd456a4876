package spec

import (
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
	"github.com/sloengine/sloengine/slo/yamlgen"
)

const (
	maxTiers = 16

	// minShort is the shortest window that a few scrapes fit into.
	minShort = time.Minute
)

// alerting is what the rule generators may be told of an SLO. Its groups have been read.
func (s *sloDraft) alerting() value {
	return inside{keys: func() keys {
		a := &s.Alerting
		return keys{
			at("name", textual(&a.Name, readAlertName, &textDoc), "CheckoutErrors", "The name of the alerts, instead of the usual ones."),
			at("tiers", custom{
				in:  func(v *yamldoc.Value) { a.Tiers = readTiers(v) },
				out: func(e *encoder) *yamlgen.Node { return writeTiers(e, a.Tiers) },
				is:  func() doc { return listShape(tierKeys(&slo.Tier{}).shape()) },
			}, "[{severity: page, long: 1h, short: 5m, budget: 2}]", "Burn-rate tiers, which replace the usual ones, at most 16.").
				or("the usual tiers"),
			at("min_events", whole[uint64]{&a.MinEvents, 0, 1_000_000_000}, "100",
				"The number of events in the long window below which no alert fires.").or("0"),
			at("false_pages", single[float64]{&a.FalsePages, readFalsePages, falsePagesText, &falsePagesDoc}, "4/y",
				"How many pages a year chance may cause in one group, from `0.001/y` to `365/y`.").or("1/y"),
			at("inherit_labels", truth{to: &a.NoSpecLabels, not: true}, "false",
				"Whether alerts have the `labels` of the service and the SLO.").or("true"),
			at("page", s.settings(&a.Page), "{labels: {team: orders}}", "The alerts that page."),
			at("ticket", s.settings(&a.Ticket), "{disabled: true}", "The alerts that open a ticket."),
			at("no_data", s.settings(&a.NoData), "{for: 30m}", "The alert on missing data."),
			at("exhausted_soon", s.soon(&a.Soon), "{within: 24h, probability: 80}",
				"An alert on the forecast that the budget will be empty."),
		}
	}, then: func(o *yamldoc.Object) {
		switch {
		case s.Alerting.Soon.Within == 0:
		case s.Indicator.Kind == slo.KindPrometheus:
			o.Errorf("remove exhausted_soon, and use the burn-rate alerts",
				"alerting: exhausted_soon needs a forecast, and the engine counts no events of a prometheus indicator")
		case s.Indicator.Kind == slo.KindVolume:
			o.Errorf("remove exhausted_soon", "alerting: exhausted_soon needs a forecast, and a volume is judged when its %s is over,"+
				" not by the hour", s.Indicator.Calendar)
		}
	}}
}

// settings are what may be said of one kind of alert.
func (s *sloDraft) settings(a *slo.AlertSettings) value {
	return inside{keys: func() keys {
		return append(keys{at("disabled", truth{to: &a.Disabled}, "true", "Whether the alert is left out.").or("false")}, s.settingKeys(a)...)
	}}
}

func (s *sloDraft) settingKeys(a *slo.AlertSettings) keys {
	return keys{
		at("for", length{&a.For, 0, day}, "5m", "The time for which the condition has to hold.").or("0s"),
		at("labels", labelSet{&a.Labels, func(v *yamldoc.Value) map[string]string { return readAlertLabels(v, s.GroupBy) }},
			"{team: orders}", "Further labels of the alert."),
		at("annotations", labelSet{&a.Annotations, readAnnotations}, "{summary: Checkout fails}", "Further annotations of the alert."),
	}
}

// Bounds of false_pages.
const minFalsePages, maxFalsePages = 0.001, 365

var falsePagesPattern = regexp.MustCompile(`^[0-9]{1,4}(\.[0-9]{1,9})?/y$`)

// readFalsePages reads how many pages a year chance may cause; 0 for the default.
func readFalsePages(v *yamldoc.Value) (float64, bool) {
	s, ok := v.Text()
	if !ok {
		return 0, false
	}
	if falsePagesPattern.MatchString(s) {
		if x, err := strconv.ParseFloat(strings.TrimSuffix(s, "/y"), 64); err == nil && x >= minFalsePages && x <= maxFalsePages {
			if x == slo.DefaultFalsePages {
				return 0, true
			}
			return x, true
		}
	}
	v.Errorf("such as 1/y", "false_pages: want a number of pages per year from 0.001/y to 365/y, got %q", yamldoc.Clip(s))
	return 0, false
}

func falsePagesText(x float64) string {
	if x == 0 {
		return ""
	}
	return decimalText(x) + "/y"
}

// Defaults of the alert on a forecast.
const (
	defaultSoon            = 24 * time.Hour
	defaultSoonProbability = 0.8
	maxSoon                = 7 * 24 * time.Hour // that forecasts look ahead
)

// soon is the alert on a budget that will be empty soon.
func (s *sloDraft) soon(a *slo.SoonAlert) value {
	in := inside{keys: func() keys {
		return append(keys{
			at("within", length{&a.Within, time.Hour, maxSoon}, "12h", "The time in which the budget will be empty.").orShown("1d"),
			at("probability", single[float64]{&a.Probability, readProbability, shareText, &percentDoc}, "90",
				"The probability of it, in percent.").orShown("80"),
		}, s.settingKeys(&a.AlertSettings)...)
	}}
	return custom{
		in: func(v *yamldoc.Value) {
			a.Within, a.Probability = defaultSoon, defaultSoonProbability
			in.read(v)
		},
		out: func(e *encoder) *yamlgen.Node {
			if a.Within == 0 {
				return nil
			}
			return in.write(e)
		},
		is: in.shape,
	}
}

func readProbability(v *yamldoc.Value) (float64, bool) {
	percent, ok := readObjective(v)
	if !ok {
		return 0, false
	}
	return percent.Ratio(), true
}

// readTiers reads own burn-rate tiers, which replace the usual ones.
func readTiers(v *yamldoc.Value) []slo.Tier {
	if v.IsList() && v.Len() == 0 {
		v.Errorf("add {severity: page, long: 1h, short: 5m, budget: 2}, or remove the key for the usual tiers", "tiers is empty")
	}
	if v.IsList() && v.Len() > maxTiers {
		v.Errorf("", "tiers: at most %d, got %d", maxTiers, v.Len())
		return nil
	}
	var out []slo.Tier
	seen := map[slo.Tier]bool{}
	eachItem(v, func(i *yamldoc.Value) {
		i.What = "tier"
		var t slo.Tier
		o := tierKeys(&t).read(i)
		if o == nil {
			return
		}
		key := t
		key.Share = 0
		if checkTier(o, &t, "long", "short") && seen[key] {
			i.Errorf("remove one", "tiers: a %s over %s and %s is listed twice",
				severityName(t.Page), slo.FormatDuration(t.Long), slo.FormatDuration(t.Short))
			return
		}
		seen[key] = true
		out = append(out, t)
	})
	return out
}

func writeTiers(e *encoder, tiers []slo.Tier) *yamlgen.Node {
	var all []*yamlgen.Node
	for i := range tiers {
		all = append(all, tierKeys(&tiers[i]).write(e).Line())
	}
	if len(all) == 0 {
		return nil
	}
	n := yamlgen.Line(yamlgen.List(all...))
	yamlgen.Comment(n, "budget: percent of it that the long window may spend")
	return n
}

func tierKeys(t *slo.Tier) keys {
	long, short, budget := burnKeys(t, "long", "short", "budget")
	return keys{
		at("severity", custom{
			in: func(v *yamldoc.Value) {
				s, _ := v.Choice("page", "ticket")
				t.Page = s == "page"
			},
			out: func(*encoder) *yamlgen.Node { return yamlgen.Text(severityName(t.Page)) },
			is:  func() doc { return wordsShape("page", "ticket") },
		}, "page", "The severity of its alerts.").need("want page or ticket"),
		long, short, budget,
	}
}

// burnKeys are the windows of a tier and the share of the budget, by the names that a format has for them.
func burnKeys(t *slo.Tier, long, short, budget string) (key, key, key) {
	return at(long, length{&t.Long, minShort, maxWindow}, "1h", "The long window.").
			need("set the length of the window, such as `" + long + ": 1h`"),
		at(short, length{&t.Short, minShort, maxWindow}, "5m", "The short window, at most `long`.").
			need("set the length of the window, such as `" + short + ": 1h`"),
		at(budget, single[float64]{&t.Share, readShare, shareText, &shareDoc}, "2",
			"The share of the budget that the long window may use, in percent.").
			need("set the budget that the long window may use, in percent, such as `" + budget + ": 2`")
}

// checkTier reports whether a tier is whole.
func checkTier(o *yamldoc.Object, t *slo.Tier, long, short string) bool {
	if t.Long > 0 && t.Short > t.Long {
		o.Errorf("", "%s: %s (%s) is longer than %s (%s)", o.What, short, slo.FormatDuration(t.Short), long, slo.FormatDuration(t.Long))
		return false
	}
	return t.Long > 0 && t.Short > 0 && t.Share > 0
}

var sharePattern = regexp.MustCompile(`^[0-9]{1,3}(\.[0-9]{1,30})?$`)

// share reads a percentage below 1000 as a share, exact to the nearest float. A
// burn over a long window may need more than the whole budget.
func readShare(v *yamldoc.Value) (float64, bool) {
	s, ok := v.Text()
	if !ok {
		return 0, false
	}
	if sharePattern.MatchString(s) {
		x, _ := new(big.Rat).SetString(s)
		if share, _ := x.Quo(x, big.NewRat(100, 1)).Float64(); share > 0 {
			return share, true
		}
	}
	v.Errorf("", "%s: want a percentage above 0 and below 1000, got %q", v.What, yamldoc.Clip(s))
	return 0, false
}

// shareText is the percentage that share reads as the same float.
func shareText(share float64) string {
	s := decimalText(share)
	whole, frac, _ := strings.Cut(s, ".")
	frac += strings.Repeat("0", max(0, 2-len(frac)))
	whole, frac = strings.TrimLeft(whole+frac[:2], "0"), strings.TrimRight(frac[2:], "0")
	if whole == "" {
		whole = "0"
	}
	if frac != "" {
		return whole + "." + frac
	}
	return whole
}

// decimalText is the shortest decimal that reads as the same float, without an
// exponent.
func decimalText(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
