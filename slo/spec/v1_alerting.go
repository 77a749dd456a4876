package spec

import (
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
	"github.com/sloengine/sloengine/slo/yamldoc/shape"
	"github.com/sloengine/sloengine/slo/yamlgen"
)

const (
	maxTiers = 16

	// minShort is the shortest window that a few scrapes fit into.
	minShort = time.Minute
)

// alerting is what rule generators may know of an SLO. Its groups have been read.
type alerting struct{ *sloDraft }

func (s alerting) keys() keys {
	a := &s.Alerting
	return keys{
		at("name", textual(&a.Name, readAlertName, &textDoc)),
		at("by", word[slo.AlertsBy]{&a.By,
			[]string{string(slo.AlertsRules), string(slo.AlertsLive), string(slo.AlertsBoth)}}),
		at("tiers", tiersValue{&a.Tiers}),
		at("min_events", whole[uint64]{&a.MinEvents, 0, 1_000_000_000}).or("0"),
		at("false_pages", single[float64]{&a.FalsePages, readFalsePages, falsePagesText, &falsePagesDoc}).or("1/y"),
		at("inherit_labels", truth{to: &a.NoSpecLabels, not: true}).or("true"),
		at("page", settings{s.sloDraft, &a.Page}),
		at("ticket", settings{s.sloDraft, &a.Ticket}),
		at("no_data", settings{s.sloDraft, &a.NoData}),
		at("exhausted_soon", soon(s)),
		at("budget_left", leftValue{&a.Left}),
	}
}

func (s alerting) read(v *yamldoc.Value) {
	s.keys().read(v)
	if by := s.Alerting.By; by != "" && by != slo.AlertsLive && s.Indicator.Kind != slo.KindPrometheus {
		v.Errorf("remove `by`, or set `notifications: {send: false}` in engine.yaml to leave all alerts to rules",
			"alerting: by: %s needs a prometheus indicator, whose rules the engine can look up", by)
	}
	switch {
	case s.Alerting.Soon.Within == 0:
	case s.Indicator.Kind == slo.KindPrometheus:
		v.Errorf("remove exhausted_soon, and use the burn-rate alerts",
			"alerting: exhausted_soon needs a forecast, and the engine counts no events of a prometheus indicator")
	case s.Indicator.Kind == slo.KindVolume:
		v.Errorf("remove exhausted_soon",
			"alerting: exhausted_soon needs a forecast, and a volume is judged when its %s is over, not by the hour",
			s.Indicator.Calendar)
	}
}

func (s alerting) write(e *encoder) *yamlgen.Node { return someLine(s.keys().write(e)) }
func (s alerting) shape() shape.Shape             { return s.keys().shape() }

// settings are what may be said of one kind of alert.
type settings struct {
	*sloDraft
	of *slo.AlertSettings
}

func (s settings) keys() keys {
	return append(keys{at("disabled", truth{to: &s.of.Disabled}).or("false")}, s.common()...)
}

func (s settings) common() keys {
	wait := "0s"
	switch s.of {
	case &s.Alerting.NoData:
		wait = "10m"
	case &s.Alerting.Soon.AlertSettings:
		wait = "5m"
	}
	return keys{
		at("for", length{&s.of.For, 0, day}).or(wait),
		at("labels", labelSet{&s.of.Labels, func(v *yamldoc.Value) map[string]string {
			return readAlertLabels(v, s.GroupBy)
		}}),
		at("annotations", labelSet{&s.of.Annotations, readAnnotations}),
	}
}

func (s settings) read(v *yamldoc.Value)          { s.keys().read(v) }
func (s settings) write(e *encoder) *yamlgen.Node { return someLine(s.keys().write(e)) }
func (s settings) shape() shape.Shape             { return s.keys().shape() }

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
		if x, err := strconv.ParseFloat(strings.TrimSuffix(s, "/y"), 64); err == nil &&
			x >= minFalsePages && x <= maxFalsePages {
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
type soon struct{ *sloDraft }

func (s soon) keys() keys {
	a := &s.Alerting.Soon
	return append(keys{
		at("within", length{&a.Within, time.Hour, maxSoon}).orShown("1d"),
		at("probability", single[float64]{&a.Probability, readProbability, shareText, &percentDoc}).orShown("80"),
	}, settings{s.sloDraft, &a.AlertSettings}.common()...)
}

func (s soon) read(v *yamldoc.Value) {
	s.Alerting.Soon.Within, s.Alerting.Soon.Probability = defaultSoon, defaultSoonProbability
	s.keys().read(v)
}

func (s soon) write(e *encoder) *yamlgen.Node {
	if s.Alerting.Soon.Within == 0 {
		return nil
	}
	return s.keys().write(e).Line()
}

func (s soon) shape() shape.Shape { return s.keys().shape() }

func readProbability(v *yamldoc.Value) (float64, bool) {
	percent, ok := readObjective(v)
	if !ok {
		return 0, false
	}
	return percent.Ratio(), true
}

// tiersValue are own burn-rate tiers, which replace the usual ones.
type tiersValue struct{ of *[]slo.Tier }

func (t tiersValue) read(v *yamldoc.Value) {
	if v.IsList() && v.Len() == 0 {
		v.Errorf("add {severity: page, long: 1h, short: 5m, budget: 2}, or remove the key for the usual tiers",
			"tiers is empty")
	}
	if v.IsList() && v.Len() > maxTiers {
		v.Errorf("", "tiers: at most %d, got %d", maxTiers, v.Len())
		return
	}
	seen := map[slo.Tier]bool{}
	eachItem(v, func(i *yamldoc.Value) {
		i.What = "tier"
		var x slo.Tier
		o := tierKeys(&x).read(i)
		if o == nil {
			return
		}
		key := x
		key.Share = 0
		if checkTier(o, &x, "long", "short") && seen[key] {
			i.Errorf("remove one", "tiers: a %s over %s and %s is listed twice",
				severityName(x.Page), slo.FormatDuration(x.Long), slo.FormatDuration(x.Short))
			return
		}
		seen[key] = true
		*t.of = append(*t.of, x)
	})
}

func (t tiersValue) write(e *encoder) *yamlgen.Node {
	n := lineOf(*t.of, func(x *slo.Tier) *yamlgen.Node { return tierKeys(x).write(e).Line() })
	yamlgen.Comment(n, "budget: percent of it that the long window may spend")
	return n
}

func (tiersValue) shape() shape.Shape { return listShape(tierKeys(&slo.Tier{}).shape()) }

func tierKeys(t *slo.Tier) keys {
	long, short, budget := burnKeys(t, "long", "short", "budget")
	return keys{
		at("severity", severity(&t.Page)).need("want page or ticket"),
		long, short, budget,
	}
}

func severity(page *bool) value {
	return custom{
		in: func(v *yamldoc.Value) {
			s, _ := v.Choice("page", "ticket")
			*page = s == "page"
		},
		out: func(*encoder) *yamlgen.Node { return yamlgen.Text(severityName(*page)) },
		is:  func() doc { return wordsShape("page", "ticket") },
	}
}

const maxLeft = 8

// leftValue are the alerts on what is left of the budget: percentages, or {left: 20, severity: page}.
type leftValue struct{ of *[]slo.LeftAlert }

func (l leftValue) read(v *yamldoc.Value) {
	if v.IsList() && (v.Len() == 0 || v.Len() > maxLeft) {
		v.Errorf("such as [50, 20]", "budget_left: want 1 to %d percentages, got %d", maxLeft, v.Len())
		return
	}
	eachItem(v, func(i *yamldoc.Value) {
		var x slo.LeftAlert
		i.What = "budget_left"
		if i.IsMapping() {
			leftKeys(&x).read(i)
		} else {
			x.Share, _ = readLeft(i)
		}
		switch {
		case x.Share == 0:
		case slices.ContainsFunc(*l.of, func(o slo.LeftAlert) bool { return o.Share == x.Share }):
			i.Errorf("remove one", "budget_left: %s is listed twice", shareText(x.Share))
		default:
			*l.of = append(*l.of, x)
		}
	})
}

func (l leftValue) write(e *encoder) *yamlgen.Node {
	return lineOf(*l.of, func(x *slo.LeftAlert) *yamlgen.Node {
		if !x.Page {
			return yamlgen.Plain(shareText(x.Share))
		}
		return leftKeys(x).write(e).Line()
	})
}

func (leftValue) shape() shape.Shape {
	return listShape(eitherShape(leftDoc, leftKeys(&slo.LeftAlert{}).shape()))
}

func leftKeys(x *slo.LeftAlert) keys {
	return keys{
		at("left", single[float64]{&x.Share, readLeft, shareText, &leftDoc}).
			need("set the share of the budget that is left, in percent, such as `left: 20`"),
		at("severity", severity(&x.Page)).or("ticket"),
	}
}

var leftDoc = doc{Kind: shape.Number, Quoted: true, Min: "0", Max: "100", Above: true, Below: true, Note: "percentage"}

// readLeft reads a share of the budget.
func readLeft(v *yamldoc.Value) (float64, bool) {
	share, ok := readShare(v)
	if ok && share >= 1 {
		v.Errorf("such as 20", "%s: want a percentage below 100, got %s", v.What, shareText(share))
		return 0, false
	}
	return share, ok
}

// burnKeys are the windows of a tier and the share of the budget, by the names that a format has for them.
func burnKeys(t *slo.Tier, long, short, budget string) (key, key, key) {
	return at(long, length{&t.Long, minShort, maxWindow}).need("set the length of the window, such as `" + long + ": 1h`"),
		at(short, length{&t.Short, minShort, maxWindow}).need("set the length of the window, such as `" + short + ": 1h`"),
		at(budget, single[float64]{&t.Share, readShare, shareText, &shareDoc}).
			need("set the budget that the long window may use, in percent, such as `" + budget + ": 2`")
}

// checkTier reports whether a tier is whole.
func checkTier(o *yamldoc.Object, t *slo.Tier, long, short string) bool {
	if t.Long > 0 && t.Short > t.Long {
		o.Errorf("", "%s: %s (%s) is longer than %s (%s)", o.What, short, slo.FormatDuration(t.Short), long,
			slo.FormatDuration(t.Long))
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
