package forecast

import (
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/sloengine/sloengine/slo"
)

var start = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC) // a Monday

// steady is a past of equal hours: 1000 valid events, of which bad says how many are bad in each hour.
func steady(hours int, bad func(hour int) float64) []Hour {
	out := make([]Hour, hours)
	for i := range out {
		out[i] = Hour{Valid: 1000, Bad: bad(i), Observed: 1}
	}
	return out
}

func load(hours []Hour) *Past {
	var p Past
	p.Load(start, hours)
	return &p
}

// at is the time after some hours.
func at(hours float64) time.Time { return start.Add(time.Duration(hours * float64(time.Hour))) }

// TestPaceWorkedExample: 60 % of the budget of 28 days are spent, and from now on it burns 1.2 or 0.9 times as fast as
// it may.
func TestPaceWorkedExample(t *testing.T) {
	const window, budget = 28 * hoursPerDay, 0.001
	for _, c := range []struct {
		name string
		ago  int // days ago that the budget was spent
		burn float64
		want float64 // days; 0 for never
	}{
		{"burn 1.2, spent 26 days ago", 26, 1.2, 28 / 1.2},
		{"burn 1.2, spent yesterday", 1, 1.2, 0.4 * 28 / 1.2},
		{"burn 0.9, spent 26 days ago", 26, 0.9, 0},
		{"burn 0.9, spent yesterday", 1, 0.9, 0.4 * 28 / 0.9},
		{"burn 3, spent yesterday", 1, 3, 0.4 * 28 / 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			spent := (28 - c.ago) * hoursPerDay
			p := load(steady(window, func(i int) float64 {
				if i == spent {
					return 0.6 * budget * 1000 * window
				}
				return 0
			}))
			q := Question{Now: at(window), Window: slo.Window{Rolling: 28 * day}, Budget: budget}
			m, why := p.fit(&q)
			if why != "" {
				t.Fatal(why)
			}
			p.expect(m.base, hoursPerWeek+1, nil)
			got := p.emptyAt(&q, m.x, c.burn)
			switch {
			case c.want == 0 && got != Beyond:
				t.Errorf("empty in %s, want never", got)
			case c.want > 0 && math.Abs(got.Hours()/24-c.want) > 0.05:
				t.Errorf("empty in %.2f days, want %.2f", got.Hours()/24, c.want)
			}
		})
	}
}

// TestPaceOfABurn has the worked example's burn in the last three days, so that all of a forecast sees it.
func TestPaceOfABurn(t *testing.T) {
	const budget = 0.01
	p := load(steady(35*hoursPerDay, func(i int) float64 {
		if i >= 32*hoursPerDay {
			return 1.2 * budget * 1000
		}
		return 0
	}))
	f := p.At(Question{Now: at(35 * hoursPerDay), Window: slo.Window{Rolling: 28 * day}, Budget: budget})

	// A burn of 1.2 for three days has spent 3.6 of 28, and 24.4 more last 20.33 days.
	if lo, hi := f.Pace.Low.Hours()/24, f.Pace.High.Hours()/24; math.Abs(lo-20.33) > 0.05 || math.Abs(hi-20.33) > 0.05 {
		t.Errorf("pace %.2f to %.2f days, want 20.33", lo, hi)
	}
	// Five weeks of which three days burned would leave 0.85 after a week, and the burn if it goes on 0.62.
	if p := f.Points[3]; p.Low > 0.7 || p.High < 0.75 {
		t.Errorf("after a week %.3f to %.3f, want the burn at the low end and its end at the high one", p.Low, p.High)
	}
}

// TestWhatLeavesIsKnown takes away all that could come, so only what leaves the window changes the budget.
func TestWhatLeavesIsKnown(t *testing.T) {
	const budget = 0.01
	bad := func(i int) float64 { return float64(i % 7) }
	p := load(steady(30*hoursPerDay, bad))
	q := Question{Now: at(30 * hoursPerDay), Window: slo.Window{Rolling: 10 * day}, Budget: budget,
		Ahead: make([]float64, 8*hoursPerDay)}
	f := p.At(q)
	for _, point := range f.Points {
		from := 20*hoursPerDay + int(point.Ahead.Hours())
		valid, lost := 0.0, 0.0
		for i := from; i < 30*hoursPerDay; i++ {
			valid, lost = valid+1000, lost+bad(i)
		}
		want := 1 - lost/valid/budget
		for _, got := range []float64{point.Low, point.Median, point.High} {
			if math.Abs(got-want) > 1e-9 {
				t.Errorf("%s ahead: %v to %v, want %v", point.Ahead, point.Low, point.High, want)
				break
			}
		}
	}
}

func TestTheBudgetShownIsTheAnchor(t *testing.T) {
	p := load(steady(30*hoursPerDay, func(int) float64 { return 5 }))
	q := Question{Now: at(30 * hoursPerDay), Window: slo.Window{Rolling: 28 * day}, Budget: 0.01, Valid: 672_000,
		Bad: 6000, Ahead: make([]float64, 8*hoursPerDay)}
	f := p.At(q)
	if got, want := f.Points[0].Median, 1-(6000-5.0)/(672_000-1000)/0.01; math.Abs(got-want) > 1e-9 {
		t.Errorf("an hour ahead %v, want %v: the counts of the question less the hour that leaves", got, want)
	}
}

// TestSoon: the probability of a time that is a point's is that of the point, and it grows with the time.
func TestSoon(t *testing.T) {
	was := 0.0
	for _, soon := range []time.Duration{0, 24 * time.Hour, 48 * time.Hour, 7 * day} {
		p := load(steady(35*hoursPerDay, func(i int) float64 { return 9 + 6*float64(i/12%2) }))
		f := p.At(Question{Now: at(35 * hoursPerDay), Window: slo.Window{Rolling: 28 * day}, Budget: 0.0125, Valid: 672_000,
			Bad: 8300, Soon: soon})
		got := f.Exhaustion.Soon
		if got < was || soon == 7*day && got == 0 {
			t.Errorf("within %s: %v, and %v within less", soon, got, was)
		}
		if soon == 24*time.Hour && got != f.Points[1].Exhausted {
			t.Errorf("within a day: %v and %v", got, f.Points[1].Exhausted)
		}
		was = got
	}
}

func TestSameQuestionSameAnswer(t *testing.T) {
	s := simulate(7)
	var a, b Past
	b.Load(s.start, s.hours[:100]) // other memory
	a.Load(s.start, s.hours[:s.now])
	b.Load(s.start, s.hours[:s.now])
	first := a.At(s.question)
	if second := b.At(s.question); !reflect.DeepEqual(first, second) {
		t.Errorf("two answers:\n%+v\n%+v", first, second)
	}
	s.question.Seed++
	if other := a.At(s.question); reflect.DeepEqual(first.Points, other.Points) {
		t.Error("another seed draws the same paths")
	}
}

func TestTooLittle(t *testing.T) {
	half := steady(10*hoursPerDay, func(int) float64 { return 1 })
	for i := range half[:5*hoursPerDay] {
		half[i] = Hour{}
	}
	recent := steady(10*hoursPerDay, func(int) float64 { return 1 })
	for i := range recent[:3*hoursPerDay+1] {
		recent[i] = Hour{Observed: 1}
	}
	for name, hours := range map[string][]Hour{
		"less than a week was observed":                   half,
		"the first valid event came less than a week ago": recent,
		"no bad event in five weeks":                      steady(10*hoursPerDay, func(int) float64 { return 0 }),
		"no valid event in five weeks":                    repeated(Hour{Observed: 1}),
	} {
		q := Question{Now: at(10 * hoursPerDay), Window: slo.Window{Rolling: 7 * day}, Budget: 0.01}
		if f := load(hours).At(q); f.TooLittle != name || f.Points != nil {
			t.Errorf("%q with %d points, want %q", f.TooLittle, len(f.Points), name)
		}
	}
	q := Question{Now: at(10*hoursPerDay + 1), Window: slo.Window{Rolling: 7 * day}, Budget: 0.01}
	if f := load(steady(10*hoursPerDay, func(int) float64 { return 1 })).At(q); f.TooLittle == "" {
		t.Error("a forecast for a time after the last hour")
	}
}

func repeated(h Hour) []Hour {
	out := make([]Hour, 10*hoursPerDay)
	for i := range out {
		out[i] = h
	}
	return out
}

func TestRunningIncident(t *testing.T) {
	hours := steady(30*hoursPerDay+1, func(i int) float64 {
		switch {
		case i >= 30*hoursPerDay-2:
			return 200
		case i/hoursPerDay == 9 && i%hoursPerDay < 5: // lasted five hours
			return 100
		}
		return 1
	})
	hours[30*hoursPerDay].Valid, hours[30*hoursPerDay].Bad = 500, 100 // half over
	f := load(hours).At(Question{Now: at(30*hoursPerDay + 0.5), Window: slo.Window{Rolling: 28 * day}, Budget: 0.01})
	if f.Running == nil || !f.Running.Since.Equal(at(30*hoursPerDay-2)) || math.Abs(f.Running.Burn-20) > 1e-6 {
		t.Fatalf("running %+v, want since %s with a burn rate of 20", f.Running, at(30*hoursPerDay-2))
	}
	// It may be over, and it may go on for the day.
	if p := f.Points[1]; p.High < 0.75 || p.Low > 0.5 {
		t.Errorf("after a day %.3f to %.3f", p.Low, p.High)
	}
	if f.Pace.Low > 3*day || f.Pace.Low < day/2 { // 20 times too fast lasts 28/20 days less what is spent
		t.Errorf("pace from %s", f.Pace.Low)
	}

	// 28 days at a burn rate of 20 are 33.6 hours, less what is spent
	if f.Running.Empty < 24*time.Hour || f.Running.Empty > 34*time.Hour {
		t.Errorf("empty in %s if it goes on", f.Running.Empty)
	}

	for i := range hours[30*hoursPerDay-2:] { // it is over
		hours[30*hoursPerDay-2+i].Bad = 1
	}
	if f := load(hours).At(
		Question{Now: at(30*hoursPerDay + 0.5), Window: slo.Window{Rolling: 28 * day}, Budget: 0.01}); f.Running != nil {
		t.Errorf("running %+v", f.Running)
	}
}

func TestRelief(t *testing.T) {
	p := load(steady(30*hoursPerDay, func(i int) float64 {
		switch i {
		case 10 * hoursPerDay, 10*hoursPerDay + 1, 10*hoursPerDay + 4: // one incident with a pause
			return 500
		case 20 * hoursPerDay:
			return 600
		case hoursPerDay: // outside the window
			return 1000
		}
		return 1
	}))
	f := p.At(Question{Now: at(30 * hoursPerDay), Window: slo.Window{Rolling: 28 * day}, Budget: 0.01})
	want := &Relief{
		Incident: slo.Span{From: at(10 * hoursPerDay), To: at(10*hoursPerDay + 5)},
		Leaves:   slo.Span{From: at(38 * hoursPerDay), To: at(38*hoursPerDay + 5)},
		Share:    1502.0 / (0.01 * 672_000),
	}
	if f.Relief == nil || f.Relief.Incident != want.Incident || f.Relief.Leaves != want.Leaves ||
		math.Abs(f.Relief.Share-want.Share) > 1e-9 {
		t.Errorf("relief %+v, want %+v", f.Relief, want)
	}
	if f := load(steady(30*hoursPerDay, func(int) float64 {
		return 3
	})).At(Question{Now: at(30 * hoursPerDay), Window: slo.Window{Rolling: 28 * day}, Budget: 0.01}); f.Relief != nil {
		t.Errorf("relief %+v without an incident", f.Relief)
	}
}

// TestCalendarWindow is asked three days before the end of a month in which nearly all of the budget is spent.
func TestCalendarWindow(t *testing.T) {
	hours := steady(58*hoursPerDay, func(i int) float64 {
		if i == 40*hoursPerDay {
			return 6500
		}
		return 1
	})
	hours[40*hoursPerDay].Valid = 7000
	now := time.Date(2026, 4, 28, 0, 0, 0, 0, time.UTC) // hour 57 * 24
	f := load(hours[:57*hoursPerDay]).At(
		Question{Now: now, Window: slo.Window{Calendar: slo.Month, Location: time.UTC}, Budget: 0.01})
	if len(f.Points) != 5 || !f.Points[4].WindowEnd || f.Points[4].Ahead != 3*day {
		t.Fatalf("points %+v", f.Points)
	}
	if end, third := f.Points[4], f.Points[2]; end.Median != third.Median || end.Median > 0.1 {
		t.Errorf("at the end %.3f, three days ahead %.3f: both are the window that ends", end.Median, third.Median)
	}
	if p := f.Points[3]; p.Median < 0.8 {
		t.Errorf("a week ahead %.3f, want most of a new budget", p.Median)
	}
	if f.Exhaustion.Within != week {
		t.Errorf("looked %s ahead", f.Exhaustion.Within)
	}
	if f.Relief != nil {
		t.Errorf("relief %+v of a calendar window", f.Relief)
	}
	early := time.Date(2026, 4, 2, 0, 0, 0, 0, time.UTC)
	if f := load(hours).At(Question{Now: early, Window: slo.Window{Calendar: slo.Month, Location: time.UTC},
		Budget: 0.01}); f.Exhaustion.Within != 29*day {
		t.Errorf("looked %s ahead, want to the end of the month", f.Exhaustion.Within)
	}
}

// TestShortWindow: what comes leaves a window of a day again within the week.
func TestShortWindow(t *testing.T) {
	p := load(steady(35*hoursPerDay, func(i int) float64 { return 4 + 2*float64(i%2) }))
	f := p.At(Question{Now: at(35 * hoursPerDay), Window: slo.Window{Rolling: day}, Budget: 0.01})
	for _, point := range f.Points {
		if point.Low < 0.2 || point.High > 0.75 || point.Median < 0.4 || point.Median > 0.6 {
			t.Errorf("%s ahead %.3f to %.3f, want around one half", point.Ahead, point.Low, point.High)
		}
	}
}

func TestExhausted(t *testing.T) {
	p := load(steady(35*hoursPerDay, func(i int) float64 {
		if i == 33*hoursPerDay {
			return 1000
		}
		return 9
	}))
	f := p.At(Question{Now: at(35 * hoursPerDay), Window: slo.Window{Rolling: 7 * day}, Budget: 0.01})
	if e := f.Exhaustion; !e.Already || e.Probability != 1 || e.Soon != 1 || e.Low != 0 || e.High != 0 {
		t.Errorf("exhaustion %+v of a budget that is empty", e)
	}
	if f.Pace.Low != 0 {
		t.Errorf("pace %+v", f.Pace)
	}
}

// TestUnobservedHours: hours in which the engine was down say nothing about traffic and bad ratios.
func TestUnobservedHours(t *testing.T) {
	hours := steady(35*hoursPerDay, func(i int) float64 { return 2 })
	for i := 20 * hoursPerDay; i < 22*hoursPerDay; i++ {
		hours[i] = Hour{}
	}
	p := load(hours)
	p.expect(35*hoursPerDay, hoursPerWeek, nil)
	if got := p.scratch.traffic.ahead[hoursPerWeek]; math.Abs(got-168_000) > 1 {
		t.Errorf("%v events expected in a week, want 168000", got)
	}
}

func TestTrafficRepeatsTheWeekAndFollowsItsLevel(t *testing.T) {
	hours := steady(35*hoursPerDay, func(int) float64 { return 1 })
	for i := range hours {
		if i/hoursPerDay%7 >= 5 {
			hours[i].Valid = 100 // weekends
		}
		if i/hoursPerDay == 29 {
			hours[i].Valid = 50_000 // an odd day
		}
		if i >= 30*hoursPerDay {
			hours[i].Valid *= 2 // a new level
		}
	}
	p := load(hours)
	p.expect(35*hoursPerDay, hoursPerWeek, nil)
	ahead := p.scratch.traffic.ahead
	for d, want := range []float64{48_000, 48_000, 48_000, 48_000, 48_000, 4800, 4800} {
		if got := ahead[(d+1)*hoursPerDay] - ahead[d*hoursPerDay]; math.Abs(got-want) > 1 {
			t.Errorf("day %d: %v events expected, want %v", d, got, want)
		}
	}
	if got, want := p.scratch.traffic.forever(35*hoursPerDay, 5*hoursPerWeek),
		5*ahead[hoursPerWeek]; math.Abs(got-want) > 1e-6*want {
		t.Errorf("%v events expected in five weeks, want %v", got, want)
	}
}

func TestQuantile(t *testing.T) {
	values := []float64{5, 1, 4, 2, 3, math.Inf(1), math.Inf(1), math.Inf(1), math.Inf(1), 0}
	if got := quantile(values, 0.5); got != 4.5 {
		t.Errorf("median %v, want 4.5", got)
	}
	if got := quantile(values, 0.95); !math.IsInf(got, 1) {
		t.Errorf("high %v", got)
	}
	if got := quantile(values, 0.05); got != 0 {
		t.Errorf("low %v", got)
	}
}
