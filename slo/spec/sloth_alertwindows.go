package spec

import (
	"time"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// slothWindows is Sloth's AlertWindows: the period of all its SLOs, and their
// burn-rate tiers.
type slothWindows struct {
	at     *yamldoc.Value
	period time.Duration
	tiers  []slo.Tier
}

func (l *loader) slothWindows(v *yamldoc.Value) {
	o := v.Object("apiVersion", "kind", "metadata", "spec")
	if o == nil {
		return
	}
	in := o.Need("spec", "say sloPeriod, page and ticket")
	if in == nil {
		return
	}
	o = in.Object("sloPeriod", "page", "ticket")
	if o == nil {
		return
	}
	w := &slothWindows{at: v}
	if p := o.Need("sloPeriod", "say the period of the SLOs, such as `sloPeriod: 30d`"); p != nil {
		w.period, _ = readDuration(p, minWindow, maxWindow)
	}
	for _, kind := range []string{"page", "ticket"} {
		k := o.Need(kind, "add quick and slow")
		if k == nil {
			continue
		}
		speeds := k.Object("quick", "slow")
		if speeds == nil {
			continue
		}
		for _, speed := range []string{"quick", "slow"} {
			x := speeds.Need(speed, "add errorBudgetPercent, shortWindow and longWindow")
			if x == nil {
				continue
			}
			if t := x.Object("errorBudgetPercent", "shortWindow", "longWindow"); t != nil {
				tier, _ := readTier(t, "errorBudgetPercent", "longWindow", "shortWindow")
				tier.Page = kind == "page"
				w.tiers = append(w.tiers, tier)
			}
		}
	}
	l.windows = append(l.windows, w)
}

// applySlothWindows gives the SLOs of Sloth the one period and the tiers that
// were read with them.
func (l *loader) applySlothWindows() {
	if len(l.windows) == 0 {
		return
	}
	for _, w := range l.windows[1:] {
		w.at.Errorf("keep the one that is in use", "AlertWindows are already given at %s:%d", l.windows[0].at.At().File, l.windows[0].at.At().Line)
	}
	w := l.windows[0]
	if len(l.sloth) == 0 {
		w.at.Warnf("load it together with the SLOs", "AlertWindows are for SLOs of Sloth, and there is none")
	}
	for _, d := range l.sloth {
		for _, s := range d.slos {
			s.Window, s.Alerting.Tiers = slo.Window{Rolling: w.period}, w.tiers
		}
	}
}
