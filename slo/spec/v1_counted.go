package spec

import (
	"fmt"
	"slices"
	"time"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/suggest"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// This file reads the indicators that count by other arithmetic than good and bad events: ratio, apdex and volume.

// occurrencesOnly refuses a budgeting method that the kind of indicator has no use for. It knows the indicator only where
// the budgeting is read.
var occurrencesOnly = map[slo.IndicatorKind]string{
	slo.KindThroughput: "throughput already counts slices|remove it: `per` is already the slice",
	slo.KindRatio:      "ratio counts events over a window|remove it: the counts of one slice mostly belong to different events",
	slo.KindApdex:      "apdex counts events by halves|remove it, or use latency, which has slices",
	slo.KindVolume:     "volume already counts periods|remove it: `per` is already the period",
}

func (s *sloDraft) readRatio(v *yamldoc.Value, service string) {
	o := v.Object("numerator", "denominator")
	if o == nil {
		return
	}
	read := func(key, hint string) (slo.Selector, *selector) {
		x := o.Need(key, hint)
		if x == nil {
			return nil, nil
		}
		sel, ok := readSelector(x, service)
		if !ok {
			return nil, nil
		}
		return sel.Selector, &sel
	}
	s.Indicator.Valid, s.valid = read("denominator", `select the events that the numerator is set against, such as denominator: '{type="applied"}'`)
	s.Indicator.Numerator, s.numerator = read("numerator", `select the events that are counted, such as numerator: '{type="connected"}'`)
	if s.valid != nil && s.numerator != nil && s.Indicator.Valid.String() == s.Indicator.Numerator.String() {
		v.Errorf("select different events", "ratio: numerator and denominator are the same, so the ratio is always 1")
	}
}

func (s *sloDraft) readApdex(v *yamldoc.Value, service string) {
	o := v.Object("valid", "satisfied", "tolerating")
	if o == nil {
		return
	}
	s.readValid(o, service)
	satisfied := o.Need("satisfied", "set the duration up to which an event is satisfactory, such as `satisfied: 500ms`")
	ok := false
	if satisfied != nil {
		s.Indicator.Satisfied, ok = readDuration(satisfied, time.Millisecond, maxWindow)
	}
	if t := o.Need("tolerating", "set the duration up to which an event counts half, usually four times `satisfied`, such as `tolerating: 2s`"); t != nil {
		var known bool
		s.Indicator.Tolerating, known = readDuration(t, time.Millisecond, maxWindow)
		if ok && known && s.Indicator.Tolerating <= s.Indicator.Satisfied {
			t.Errorf("Apdex uses four times `satisfied`", "tolerating: %s is not longer than satisfied (%s), so no event would count half",
				slo.FormatDuration(s.Indicator.Tolerating), slo.FormatDuration(s.Indicator.Satisfied))
		}
	}
}

var volumeUnits = []string{string(slo.Day), string(slo.Week), string(slo.Month)}

// volumeDurations are durations that people write for a calendar unit.
var volumeDurations = map[string]string{"1d": "day", "24h": "day", "7d": "week", "1w": "week", "30d": "month"}

func (s *sloDraft) readVolume(v *yamldoc.Value, service string) {
	o := v.Object("valid", "at_least", "per", "timezone", "during")
	if o == nil {
		return
	}
	s.readValid(o, service)
	s.readAtLeast(o, 10_000)
	s.Indicator.Calendar = slo.Day
	if p := o.Get("per"); p != nil {
		if text, ok := p.Text(); ok && volumeDurations[text] != "" {
			p.Errorf(fmt.Sprintf("did you mean %s? Want %s", volumeDurations[text], suggest.OneOf(volumeUnits)), "per: %q is a duration, and a volume is judged by the calendar", text)
		} else if unit, ok := p.Choice(volumeUnits...); ok {
			s.Indicator.Calendar = slo.CalendarUnit(unit)
		}
	}
	if d := o.Get("during"); d != nil {
		sc, ok := readSchedule(d)
		switch {
		case !ok:
		case s.Indicator.Calendar != slo.Day:
			d.Errorf("remove it, or use `per: day`", "during: only days have open hours")
		case o.Has("timezone"):
			o.KeyErrorf("timezone", "remove it", "timezone: the zone of `during` already says when days begin")
		case !wholeFive(sc):
			d.Errorf("use multiples of five minutes", "during: counts older than three days are kept in steps of five minutes")
		}
		s.Indicator.During, s.Indicator.Location = sc, sc.Location()
		return
	}
	s.Indicator.Location = time.UTC
	if z := o.Need("timezone", "add `timezone: UTC`, or the time zone in which days begin"); z != nil {
		if loc, ok := z.Zone(); ok {
			s.Indicator.Location = loc
		}
	}
}

// wholeFive reports whether open hours begin and end at multiples of five minutes.
func wholeFive(sc slo.Schedule) bool {
	for d := range 7 {
		if sp, ok := sc.On(time.Date(2026, 1, 4+d, 12, 0, 0, 0, sc.Location())); ok {
			return sp.From.Minute()%5 == 0 && sp.To.Minute()%5 == 0
		}
	}
	return true
}

// volumes warns of a volume whose window holds too few periods to say much, and refuses one that holds none.
func (a *assembly) volumes(s *sloDraft) {
	if s.Indicator.Kind != slo.KindVolume {
		return
	}
	unit := slo.Window{Calendar: s.Indicator.Calendar, Location: s.Indicator.Location}
	period, calendar := unit.Nominal(), s.Window.Calendar
	if s.Window.Nominal() < 2*period || calendar != "" && slices.Contains(volumeUnits, string(calendar)) && calendar == s.Indicator.Calendar {
		a.Errorf(s.at, "use a longer window", "slo %s: the window (%s) holds less than two of the periods (%s) that are judged", s.ID.Name(), s.Window, s.Indicator.Calendar)
		return
	}
	if len(s.Alerting.Tiers) > 0 {
		a.Warnf(s.at, "remove alerting.tiers", "slo %s: a volume is judged by the calendar and has no burn-rate alerts, so its tiers are not used", s.ID.Name())
	}
	periods := float64(s.Window.Nominal()) / float64(period)
	if !s.Objective.IsZero() && s.Objective.Budget()*periods < 1 {
		a.Warnf(s.objectiveAt, fmt.Sprintf("an objective of at most %.4g%% allows one", 100*(1-1/periods)),
			"slo %s: an objective of %s allows no missed %s in its window (%s)", s.ID.Name(), s.Objective, s.Indicator.Calendar, s.Window)
	}
}
