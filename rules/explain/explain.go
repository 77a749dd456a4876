package explain

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/slo"
)

// Explanation says what an SLO means.
type Explanation struct {
	SLO    *slo.SLO
	Period time.Duration // usual length of the window

	BudgetTime   time.Duration // how long everything may fail per period, at constant traffic
	Events       float64       // valid events per period at today's traffic; 0 = not given
	BudgetEvents float64       // how many of them may fail

	Tiers []Tier
	Cost  Cost
}

// Tier says how soon one burn-rate tier fires.
type Tier struct {
	slo.Tier
	Factor    float64       // burn rate that both windows must exceed
	Threshold float64       // the same as an error ratio; 1 or more can never be exceeded
	For       time.Duration // how long it must burn
	Outage    Detection     // everything fails, without end
	Tenfold   Detection     // ten budgets burn, without end
}

// Explain explains an SLO with the groups of rules that are its own. EventsPerSecond
// is today's traffic, 0 if it is unknown.
func Explain(s *slo.SLO, groups []rules.Group, eventsPerSecond float64, l Load) (*Explanation, error) {
	cost, err := Of(groups, l)
	if err != nil {
		return nil, err
	}
	e := &Explanation{SLO: s, Period: s.Window.Nominal(), Cost: cost}
	e.BudgetTime = time.Duration(float64(e.Period) * s.Objective.Budget()).Round(time.Millisecond)
	e.Events = eventsPerSecond * e.Period.Seconds()
	e.BudgetEvents = e.Events * s.Objective.Budget()
	e.Tiers = Tiers(s)
	return e, nil
}

// Tiers tells when the tiers of an SLO fire, pages first as they are written.
// Those that are switched off, or look over more than the period, are left out.
func Tiers(s *slo.SLO) []Tier {
	if s.Indicator.Kind == slo.KindVolume {
		return nil // nothing of it burns within the windows of tiers
	}
	period, budget := s.Window.Nominal(), s.Objective.Budget()
	all := s.Alerting.Tiers
	if len(all) == 0 {
		all = slo.Tiers
	}
	var out []Tier
	for _, t := range all {
		set := s.Alerting.Ticket
		if t.Page {
			set = s.Alerting.Page
		}
		if set.Disabled || t.Long >= period {
			continue
		}
		r := Tier{Tier: t, Factor: t.Factor(period), For: set.For}
		if s.Indicator.Kind == slo.KindRatio && r.Factor < 1 {
			continue // a ratio mostly is near its objective, and would always burn so much
		}
		r.Threshold = r.Factor * budget
		p := Policy{{Windows: []Window{{t.Long, r.Factor}, {t.Short, r.Factor}}, For: set.For}}
		r.Outage = p.Detect(budget, Outage{ErrorRatio: 1})
		r.Tenfold = p.Detect(budget, Outage{ErrorRatio: min(1, 10*budget)})
		out = append(out, r)
	}
	return out
}

// Own picks the groups that belong to one SLO. Their names are a kind, the
// SLO's identity and a part, with slashes between them.
func Own(groups []rules.Group, s *slo.SLO) []rules.Group {
	return slices.DeleteFunc(slices.Clone(groups), func(g rules.Group) bool {
		kind, rest, ok := strings.Cut(g.Name, "/")
		return !ok || kind == "sloengine-sla" || rest != string(s.ID) && !strings.HasPrefix(rest, string(s.ID)+"/")
	})
}

// String is the explanation for people.
func (e *Explanation) String() string {
	var b strings.Builder
	s := e.SLO
	fmt.Fprintf(&b, "%s: %s over %s\n", s.ID, s.Objective, s.Window)
	if more := e.measure(); more != "" {
		b.WriteString(more)
	}
	if c := s.Indicator.Capacity; !c.IsZero() {
		fmt.Fprintf(&b, "  capacity   %s, which is %s events per second%s\n", c,
			slo.FormatRatio(round(c.PerSecond())), e.utilization())
	}
	if s.Indicator.Kind == slo.KindVolume {
		return b.String()
	}
	if rules.Slices(s) {
		fmt.Fprintf(&b, "  budget     %s of bad time in %s\n", Human(e.BudgetTime), slo.FormatDuration(e.Period))
	} else {
		fmt.Fprintf(&b, "  budget     %s of full outage in %s\n", Human(e.BudgetTime), slo.FormatDuration(e.Period))
		if e.Events > 0 {
			fmt.Fprintf(&b, "             %s of %s events at today's traffic\n", count(e.BudgetEvents), count(e.Events))
		}
	}
	if c := s.Cost; c != nil {
		fmt.Fprintf(&b, "  money      %s%s\n", c.Basis(), e.money())
	}
	for _, t := range e.Tiers {
		kind := "ticket"
		if t.Page {
			kind = "page"
		}
		fmt.Fprintf(&b, "  %-10s %s and %s above %s x (%s %% bad): full outage %s, ten budgets %s\n", kind,
			slo.FormatDuration(t.Long), slo.FormatDuration(t.Short), slo.FormatRatio(round(t.Factor)),
			slo.FormatRatio(round(100*t.Threshold)), t.Outage, t.Tenfold)
	}
	soon := s.Alerting.Soon
	if soon.Within > 0 {
		fmt.Fprintf(&b, "  ticket     forecast: the budget is exhausted within %s with a probability of at least %s %%\n",
			slo.FormatDuration(soon.Within), slo.FormatRatio(round(100*soon.Probability)))
	}
	for _, a := range s.Alerting.Left {
		kind := "ticket"
		if a.Page {
			kind = "page"
		}
		fmt.Fprintf(&b, "  %-10s at most %s %% of the budget is left\n", kind, slo.FormatRatio(round(100*a.Share)))
	}
	if len(e.Tiers) == 0 && soon.Within == 0 && len(s.Alerting.Left) == 0 {
		b.WriteString("  alerts     none\n")
	}
	fmt.Fprintf(&b, "  cost       %.0f samples read per second, %d rules, %d recorded series\n", e.Cost.SamplesPerSecond,
		e.Cost.Rules, e.Cost.Series)
	return b.String()
}

// measure explains the indicators whose counts are no good and bad events.
func (e *Explanation) measure() string {
	s := e.SLO
	lines := map[slo.IndicatorKind]string{
		slo.KindRatio: "             bad is what the numerator is short of the denominator in a window\n" +
			"             an event of the numerator mostly belongs to an older one of the denominator, so short windows " +
			"mislead\n",
		slo.KindCompletion: completion(s),
		slo.KindApdex:      "             an event that is only tolerated is half good and half bad\n",
		slo.KindVolume: fmt.Sprintf("  budget     %s missed %ss in %s\n",
			slo.FormatRatio(round(s.Objective.Budget()*float64(e.Period)/float64(
				slo.Window{Calendar: s.Indicator.Calendar}.Nominal()))), s.Indicator.Calendar, slo.FormatDuration(e.Period)) +
			"  alerts     ErrorBudgetExhausted and SLONoData, in the engine only: PromQL has no calendar of a time zone\n",
	}
	if lines[s.Indicator.Kind] == "" {
		return ""
	}
	return "  measures   " + s.Indicator.Measure() + "\n" + lines[s.Indicator.Kind]
}

// utilization compares today's traffic with the capacity.
func (e *Explanation) utilization() string {
	if e.Events == 0 {
		return ""
	}
	share := e.Events / e.Period.Seconds() / e.SLO.Indicator.Capacity.PerSecond()
	return fmt.Sprintf(", today's traffic takes %.3g %% of it", 100*share)
}

// completion says when work counts, and how that moves the times at which alerts fire.
func completion(s *slo.SLO) string {
	c := &s.Indicator.Completion
	failed := ""
	if len(c.Failed) > 0 {
		failed = "at an event that says that it failed, or "
	}
	return fmt.Sprintf(
		"             work is good at its finish, and bad %s%s after its start, which shows 2m to 3m later\n"+
			"             if nothing finishes any more, alerts fire up to %s later than the times below\n"+
			"             after a restart, deadlines pass later by the time that the engine was down, for as long\n"+
			"             at most %d pieces of work are tracked at once, and further ones lower coverage\n",
		failed, slo.FormatDuration(c.Within), slo.FormatDuration(c.Within+3*time.Minute), c.MaxInFlight)
}

// money says what the whole budget is worth, and what it is compared with.
func (e *Explanation) money() string {
	s, c := e.SLO, e.SLO.Cost
	out := ""
	if slice := s.JudgedSlice(); slice > 0 {
		out += fmt.Sprintf(", the whole budget %s",
			slo.Money{Amount: s.UnitCost().Times(uint64(math.Round(float64(e.BudgetTime) / float64(slice)))),
				Currency: c.Currency})
	} else if e.Events > 0 {
		out += fmt.Sprintf(", the whole budget %s at today's traffic",
			slo.Money{Amount: s.UnitCost().Times(uint64(math.Round(e.BudgetEvents))), Currency: c.Currency})
	}
	if c.Baseline.Per > 0 {
		out += ", before " + c.Baseline.Text(c.Currency)
	}
	if c.Investment.Per > 0 {
		out += ", invested " + c.Investment.Text(c.Currency)
	}
	return out
}

// String is when an alert fires.
func (d Detection) String() string {
	if !d.Fires {
		return "never"
	}
	return "after " + Human(d.After)
}

// round takes the noise of the last bits out of a product of decimals.
func round(x float64) float64 {
	var y float64
	if _, err := fmt.Sscan(slo.FormatRatio(x), &y); err != nil {
		return x
	}
	return y
}

// Human is a duration with the two largest of its units.
func Human(d time.Duration) string {
	switch {
	case d < 2*time.Second:
		d = d.Round(100 * time.Millisecond)
	case d < 10*time.Minute:
		d = d.Round(time.Second)
	case d < 24*time.Hour:
		d = d.Round(time.Minute)
	default:
		d = d.Round(time.Hour)
	}
	return slo.FormatDuration(d)
}

func count(x float64) string {
	switch {
	case x >= 1e9:
		return fmt.Sprintf("%.3g billion", x/1e9)
	case x >= 1e6:
		return fmt.Sprintf("%.3g million", x/1e6)
	case x >= 1e4:
		return fmt.Sprintf("%.3g thousand", x/1e3)
	}
	return fmt.Sprintf("%.4g", x)
}
