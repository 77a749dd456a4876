package spec

import (
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

const (
	maxTiers = 16

	// minShort is the shortest window that a few scrapes fit into.
	minShort = time.Minute
)

// readAlerting reads what the rule generators may be told of an SLO with groups of these names.
func readAlerting(v *yamldoc.Value, groupBy []string) slo.Alerting {
	var a slo.Alerting
	o := v.Object("name", "tiers", "min_events", "false_pages", "inherit_labels", "page", "ticket", "no_data", "exhausted_soon")
	if o == nil {
		return a
	}
	if x := o.Get("exhausted_soon"); x != nil {
		a.Soon = readSoon(x, groupBy)
	}
	if n := o.Get("name"); n != nil {
		a.Name, _ = readAlertName(n)
	}
	if t := o.Get("tiers"); t != nil {
		a.Tiers = readTiers(t)
	}
	if m := o.Get("min_events"); m != nil {
		n, _ := m.Whole(0, 1_000_000_000)
		a.MinEvents = uint64(max(0, n))
	}
	if l := o.Get("inherit_labels"); l != nil {
		a.NoSpecLabels = !l.Bool()
	}
	if f := o.Get("false_pages"); f != nil {
		a.FalsePages = readFalsePages(f)
	}
	if p := o.Get("page"); p != nil {
		a.Page = readAlertSettings(p, groupBy)
	}
	if t := o.Get("ticket"); t != nil {
		a.Ticket = readAlertSettings(t, groupBy)
	}
	if n := o.Get("no_data"); n != nil {
		a.NoData = readAlertSettings(n, groupBy)
	}
	return a
}

// Bounds of false_pages.
const minFalsePages, maxFalsePages = 0.001, 365

var falsePagesPattern = regexp.MustCompile(`^[0-9]{1,4}(\.[0-9]{1,9})?/y$`)

// readFalsePages reads how many pages a year chance may cause; 0 for the default.
func readFalsePages(v *yamldoc.Value) float64 {
	s, ok := v.Text()
	if !ok {
		return 0
	}
	if falsePagesPattern.MatchString(s) {
		if x, err := strconv.ParseFloat(strings.TrimSuffix(s, "/y"), 64); err == nil && x >= minFalsePages && x <= maxFalsePages {
			if x == slo.DefaultFalsePages {
				return 0
			}
			return x
		}
	}
	v.Errorf("such as 1/y", "false_pages: want a number of pages per year from 0.001/y to 365/y, got %q", yamldoc.Clip(s))
	return 0
}

// Defaults of the alert on a forecast.
const (
	defaultSoon            = 24 * time.Hour
	defaultSoonProbability = 0.8
	maxSoon                = 7 * 24 * time.Hour // that forecasts look ahead
)

// readSoon reads the alert on a budget that will be empty soon.
func readSoon(v *yamldoc.Value, groupBy []string) slo.SoonAlert {
	a := slo.SoonAlert{Within: defaultSoon, Probability: defaultSoonProbability}
	o := v.Object("within", "probability", "for", "labels", "annotations")
	if o == nil {
		return a
	}
	if w := o.Get("within"); w != nil {
		a.Within, _ = readDuration(w, time.Hour, maxSoon)
	}
	if p := o.Get("probability"); p != nil {
		if percent, ok := readObjective(p); ok {
			a.Probability = percent.Ratio()
		}
	}
	readSettings(o, &a.AlertSettings, groupBy)
	return a
}

func readAlertSettings(v *yamldoc.Value, groupBy []string) slo.AlertSettings {
	var s slo.AlertSettings
	o := v.Object("disabled", "for", "labels", "annotations")
	if o == nil {
		return s
	}
	readSettings(o, &s, groupBy)
	return s
}

func readSettings(o *yamldoc.Object, s *slo.AlertSettings, groupBy []string) {
	if b := o.Get("disabled"); b != nil {
		s.Disabled = b.Bool()
	}
	if f := o.Get("for"); f != nil {
		s.For, _ = readDuration(f, 0, day)
	}
	if l := o.Get("labels"); l != nil {
		s.Labels = readAlertLabels(l, groupBy)
	}
	if n := o.Get("annotations"); n != nil {
		s.Annotations = readAnnotations(n)
	}
}

// tiers reads own burn-rate tiers, which replace the usual ones.
func readTiers(v *yamldoc.Value) []slo.Tier {
	items, _ := v.List()
	if v.IsList() && len(items) == 0 {
		v.Errorf("add {severity: page, long: 1h, short: 5m, budget: 2}, or remove the key for the usual tiers", "tiers is empty")
	}
	if len(items) > maxTiers {
		v.Errorf("", "tiers: at most %d, got %d", maxTiers, len(items))
		return nil
	}
	var out []slo.Tier
	seen := map[slo.Tier]bool{}
	for _, i := range items {
		i.What = "tier"
		o := i.Object("severity", "long", "short", "budget")
		if o == nil {
			continue
		}
		severity := ""
		if s := o.Need("severity", "want page or ticket"); s != nil {
			severity, _ = s.Choice("page", "ticket")
		}
		t, ok := readTier(o, "budget", "long", "short")
		t.Page = severity == "page"
		key := t
		key.Share = 0
		if ok && seen[key] {
			i.Errorf("remove one", "tiers: a %s over %s and %s is listed twice", severity, slo.FormatDuration(t.Long), slo.FormatDuration(t.Short))
			continue
		}
		seen[key] = true
		out = append(out, t)
	}
	return out
}

// tier reads the windows of a tier and the share of the budget, in percent.
func readTier(o *yamldoc.Object, budget, long, short string) (slo.Tier, bool) {
	var t slo.Tier
	ok := true
	for _, w := range []struct {
		key string
		to  *time.Duration
	}{{long, &t.Long}, {short, &t.Short}} {
		v := o.Need(w.key, fmt.Sprintf("set the length of the window, such as `%s: 1h`", w.key))
		if v == nil {
			ok = false
			continue
		}
		d, good := readDuration(v, minShort, maxWindow)
		*w.to, ok = d, ok && good
	}
	if ok && t.Short > t.Long {
		o.Errorf("", "%s: %s (%s) is longer than %s (%s)", o.What, short, slo.FormatDuration(t.Short), long, slo.FormatDuration(t.Long))
		ok = false
	}
	b := o.Need(budget, "set the budget that the long window may use, in percent, such as `"+budget+": 2`")
	if b == nil {
		return t, false
	}
	share, good := readShare(b)
	t.Share = share
	return t, ok && good
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
