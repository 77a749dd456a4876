package spec

import (
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/slo"
)

const (
	maxTiers = 16

	// minShort is the shortest window that a few scrapes fit into.
	minShort = time.Minute
)

// alerting reads what the rule generators may be told.
func (v *value) alerting() slo.Alerting {
	var a slo.Alerting
	o := v.object("name", "tiers", "min_events", "page", "ticket", "no_data")
	if o == nil {
		return a
	}
	if n := o.get("name"); n != nil {
		a.Name, _ = n.alertName()
	}
	if t := o.get("tiers"); t != nil {
		a.Tiers = t.tiers()
	}
	if m := o.get("min_events"); m != nil {
		n, _ := m.whole(0, 1_000_000_000)
		a.MinEvents = uint64(max(0, n))
	}
	if p := o.get("page"); p != nil {
		a.Page = p.alertSettings()
	}
	if t := o.get("ticket"); t != nil {
		a.Ticket = t.alertSettings()
	}
	if n := o.get("no_data"); n != nil {
		a.NoData = n.alertSettings()
	}
	return a
}

func (v *value) alertSettings() slo.AlertSettings {
	var s slo.AlertSettings
	o := v.object("disabled", "for", "labels", "annotations")
	if o == nil {
		return s
	}
	if b := o.get("disabled"); b != nil {
		s.Disabled = b.bool()
	}
	if f := o.get("for"); f != nil {
		s.For, _ = f.duration(0, day)
	}
	if l := o.get("labels"); l != nil {
		s.Labels = l.alertLabels()
	}
	if n := o.get("annotations"); n != nil {
		s.Annotations = n.annotations()
	}
	return s
}

// tiers reads own burn-rate tiers, which replace the usual ones.
func (v *value) tiers() []slo.Tier {
	items, _ := v.list()
	if v.isList() && len(items) == 0 {
		v.errorf("add {severity: page, long: 1h, short: 5m, budget: 2}, or remove the key for the usual tiers", "tiers is empty")
	}
	if len(items) > maxTiers {
		v.errorf("", "tiers: at most %d, got %d", maxTiers, len(items))
		return nil
	}
	var out []slo.Tier
	seen := map[slo.Tier]bool{}
	for _, i := range items {
		i.what = "tier"
		o := i.object("severity", "long", "short", "budget")
		if o == nil {
			continue
		}
		severity := ""
		if s := o.need("severity", "want page or ticket"); s != nil {
			severity, _ = s.choice("page", "ticket")
		}
		t, ok := o.tier("budget", "long", "short")
		t.Page = severity == "page"
		key := t
		key.Share = 0
		if ok && seen[key] {
			i.errorf("remove one", "tiers: a %s over %s and %s is listed twice", severity, slo.FormatDuration(t.Long), slo.FormatDuration(t.Short))
			continue
		}
		seen[key] = true
		out = append(out, t)
	}
	return out
}

// tier reads the windows of a tier and the share of the budget, in percent.
func (o *object) tier(budget, long, short string) (slo.Tier, bool) {
	var t slo.Tier
	ok := true
	for _, w := range []struct {
		key string
		to  *time.Duration
	}{{long, &t.Long}, {short, &t.Short}} {
		v := o.need(w.key, fmt.Sprintf("say how long it looks back, such as `%s: 1h`", w.key))
		if v == nil {
			ok = false
			continue
		}
		d, good := v.duration(minShort, maxWindow)
		*w.to, ok = d, ok && good
	}
	if ok && t.Short > t.Long {
		o.errorf("", "%s: %s (%s) is longer than %s (%s)", o.what, short, slo.FormatDuration(t.Short), long, slo.FormatDuration(t.Long))
		ok = false
	}
	b := o.need(budget, "say how much of the budget may be spent in the long window, in percent, such as `"+budget+": 2`")
	if b == nil {
		return t, false
	}
	share, good := b.share()
	t.Share = share
	return t, ok && good
}

var sharePattern = regexp.MustCompile(`^[0-9]{1,3}(\.[0-9]{1,30})?$`)

// share reads a percentage below 1000 as a share, exact to the nearest float. A
// burn over a long window may need more than the whole budget.
func (v *value) share() (float64, bool) {
	s, ok := v.text()
	if !ok {
		return 0, false
	}
	if sharePattern.MatchString(s) {
		x, _ := new(big.Rat).SetString(s)
		if share, _ := x.Quo(x, big.NewRat(100, 1)).Float64(); share > 0 {
			return share, true
		}
	}
	v.errorf("", "%s: want a percentage above 0 and below 1000, got %q", v.what, clip(s))
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
