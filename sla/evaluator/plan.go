package evaluator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// rateWindow is the time over which the rate of events is shown. It is one of
// slo.BurnWindows.
const rateWindow = 5 * time.Minute

// plan is a spec prepared for ticking: what to ask for and where the answers
// go. Only the corrections in it change, and only within a tick.
type plan struct {
	windows []slo.Window // distinct; the index is that of the asked span
	burns   []int        // of slo.BurnWindows, in order
	rate    int          // of rateWindow
	longest int          // that conditions count by receive time
	day     int          // of limits
	month   int

	slos        []*sloPlan // by ID
	thresholds  []*thresholdPlan
	slas        []*slaPlan // by service, then name
	corrections []*correction

	dimensions map[string][]string // by service
	warnings   []string
}

type sloPlan struct {
	slo        *slo.SLO
	indicator  *fold.Indicator // as compiled
	eventsID   string          // counter of plain events; "" if the SLO counts events itself
	period     int
	trend      []int       // of ten and of twenty minutes; nil unless a trend is alerted on
	tiers      []int       // windows of the SLO's own tiers that are not among the burn windows
	correction *correction // nil without corrections
	expect     map[string]slo.Group
	usages     []usage
	volume     *volumePlan // of an SLO on a volume; nil for all others
	peak       *peakPlan   // of an SLO on throughput; nil for all others
}

// usage is an SLO's place in an agreement.
type usage struct {
	sla       *slaPlan
	component int
	window    int
	labels    []int // positions of the agreement's labels among the SLO's
	bands     *bandsPlan
}

// bandsPlan is where the bands of a component are counted.
type bandsPlan struct {
	indicator  *fold.Indicator
	correction *correction
	// bins[i] is how many of the indicator's first bins lie within the
	// component's band i; 0 for a band without threshold.
	bins []int
}

type slaPlan struct {
	agreement *sla.Agreement
	scorer    *sla.Scorer
	slos      []*slo.SLO // of the components, in order
	window    int
	late      int      // see plan.lateOf
	alert     *slaPlan // the same over the alert window; nil if there is none
}

type thresholdPlan struct {
	threshold *slo.Threshold
	indicator *fold.Indicator
	levels    []level
}

// newPlan compiles the inputs; it fails where Compile fails.
func newPlan(in Inputs) (*plan, error) {
	cfg, err := Compile(in)
	if err != nil {
		return nil, err
	}
	indicators := make(map[string]*fold.Indicator, len(cfg.Indicators))
	for i := range cfg.Indicators {
		indicators[cfg.Indicators[i].ID] = &cfg.Indicators[i]
	}
	b := planner{
		plan:       &plan{dimensions: map[string][]string{}, warnings: slices.Clone(in.Warnings)},
		indicators: indicators,
		windows:    map[string]int{},
		slos:       map[slo.ID]*sloPlan{},
		names:      map[slo.ID]*slo.SLO{},
	}
	b.build(in, cfg)
	return b.plan, nil
}

type planner struct {
	*plan
	indicators map[string]*fold.Indicator
	windows    map[string]int
	slos       map[slo.ID]*sloPlan
	names      map[slo.ID]*slo.SLO // those on Prometheus series too
}

func (b *planner) build(in Inputs, cfg *fold.Config) {
	for _, w := range slo.BurnWindows {
		b.burns = append(b.burns, b.window(slo.Window{Rolling: w}))
	}
	b.rate, b.longest = b.window(slo.Window{Rolling: rateWindow}), b.window(slo.Window{Rolling: slo.ReceivedWindow})
	b.day, b.month = b.window(slo.Window{Rolling: thresholdDay}), b.window(slo.Window{Rolling: thresholdMonth})
	for _, s := range cfg.Services {
		b.dimensions[s.Name] = s.Dimensions
	}
	for _, s := range in.SLOs {
		b.addSLO(s, trending(in.Agreements, s))
	}
	for _, l := range in.Thresholds {
		levels, _ := thresholdLevels(l) // an error would have stopped Compile
		b.thresholds = append(b.thresholds,
			&thresholdPlan{threshold: l, indicator: b.indicators[sla.ThresholdID(l.Service, l.Name)], levels: levels})
	}
	agreements := slices.Clone(in.Agreements)
	slices.SortStableFunc(agreements, func(x, y *sla.Agreement) int {
		return cmp.Or(cmp.Compare(x.Service, y.Service), cmp.Compare(x.Name, y.Name))
	})
	for _, a := range agreements {
		b.addSLA(a)
	}
	slices.SortFunc(b.plan.slos, func(x, y *sloPlan) int { return cmp.Compare(x.slo.ID, y.slo.ID) })
	slices.SortStableFunc(b.thresholds, func(x, y *thresholdPlan) int {
		return cmp.Or(cmp.Compare(x.threshold.Service, y.threshold.Service), cmp.Compare(x.threshold.Name, y.threshold.Name))
	})
	b.addCorrections()
}

// window gives the index of a window, which all that ask for it share.
func (b *planner) window(w slo.Window) int {
	key := w.String()
	if w.Calendar == "" {
		key = w.Rolling.String() // to the nanosecond
	}
	i, ok := b.windows[key]
	if !ok {
		i = len(b.plan.windows)
		b.plan.windows = append(b.plan.windows, w)
		b.windows[key] = i
	}
	return i
}

func (b *planner) addSLO(s *slo.SLO, trend bool) {
	b.names[s.ID] = s
	if s.Indicator.RulesOnly() {
		return
	}
	p := &sloPlan{slo: s, indicator: b.indicators[string(s.ID)], period: b.window(s.Window)}
	if p.indicator.Slice != nil {
		p.eventsID = sla.EventsID(s.ID)
	}
	switch s.Indicator.Kind {
	case slo.KindVolume:
		p.volume = &volumePlan{slo: s}
	case slo.KindThroughput:
		p.peak = &peakPlan{}
	}
	if trend {
		p.trend = []int{b.window(slo.Window{Rolling: trendWindow}), b.window(slo.Window{Rolling: 2 * trendWindow})}
	}
	for _, w := range tierWindows(s) {
		p.tiers = append(p.tiers, b.window(slo.Window{Rolling: w}))
	}
	if len(s.Expect) > 0 {
		p.expect = make(map[string]slo.Group, len(s.Expect))
		for _, g := range s.Expect {
			p.expect[g.Key()] = g
		}
	}
	b.slos[s.ID] = p
	b.plan.slos = append(b.plan.slos, p)
}

// trendWindow is the length of the two periods that a trend is told by.
const trendWindow = 10 * time.Minute

// trending reports whether an agreement of the SLO's service may alert on the trend of its errors.
func trending(agreements []*sla.Agreement, s *slo.SLO) bool {
	return s.Indicator.Kind == slo.KindEvents && slices.ContainsFunc(agreements, func(a *sla.Agreement) bool {
		return a.Service == s.ID.Service() && slices.ContainsFunc(a.Catalogue, func(c sla.CatalogueAlert) bool {
			return c.Name == sla.CatalogueErrorTrend
		})
	})
}

// tierWindows are the windows of an SLO's own tiers that are no burn windows,
// shortest first. One that is longer than the SLO's window is left out, for it
// would look past what is kept.
func tierWindows(s *slo.SLO) []time.Duration {
	var out []time.Duration
	for _, t := range s.Alerting.Tiers {
		for _, w := range []time.Duration{t.Long, t.Short} {
			if w > 0 && w <= s.Window.Longest() && !slices.Contains(slo.BurnWindows, w) {
				out = append(out, w)
			}
		}
	}
	return sortedSet(out)
}

// addSLA plans an agreement. One whose SLOs are all on Prometheus series is left
// out: nothing of it is counted here, and with `no_data: good` it would show a
// score of 100 that was never measured. Its generated rules tell the score.
func (b *planner) addSLA(a *sla.Agreement) {
	if !slices.ContainsFunc(a.Components, func(c sla.Component) bool { return b.slos[c.SLO] != nil }) {
		return
	}
	p := b.planSLA(a, a.Window, false)
	if a.AlertWindow > 0 {
		p.alert = b.planSLA(a, slo.Window{Rolling: a.AlertWindow}, true)
	}
	b.slas = append(b.slas, p)
}

// planSLA plans the scoring of an agreement over one window, which alerts may go by.
func (b *planner) planSLA(a *sla.Agreement, w slo.Window, alerts bool) *slaPlan {
	p := &slaPlan{agreement: a, scorer: sla.NewScorer(a), window: b.window(w)}
	p.late = b.lateOf(p.window, alerts)
	for i, c := range a.Components {
		p.slos = append(p.slos, b.names[c.SLO])
		s, ok := b.slos[c.SLO]
		if !ok {
			continue // on Prometheus series: never has data here
		}
		u := usage{sla: p, component: i, window: p.window}
		for _, label := range a.GroupBy {
			u.labels = append(u.labels, slices.Index(s.slo.GroupBy, label))
		}
		if a.Method == sla.Bands && len(c.Bands) > 0 {
			u.bands = newBands(b.indicators[sla.BandsID(c.SLO, a.Name)], c.Bands)
		}
		s.usages = append(s.usages, u)
	}
	return p
}

func newBands(ind *fold.Indicator, bands []sla.Band) *bandsPlan {
	p := &bandsPlan{indicator: ind}
	for _, band := range bands {
		n := 0
		if band.Threshold > 0 {
			n = slices.Index(ind.Edges, band.Threshold) + 1
		}
		p.bins = append(p.bins, n)
	}
	return p
}

// addCorrections finds which SLOs can share the work of their corrections.
func (b *planner) addCorrections() {
	exclusions := map[string]*exclusion{}
	shared := map[string]*correction{}
	get := func(s *slo.SLO, slice time.Duration, windows []int) *correction {
		slices.Sort(windows)
		windows = slices.Compact(windows)
		set := correctionsKey(s.Corrections, slice)
		key := fmt.Sprint(set, windows)
		if c, ok := shared[key]; ok {
			return c
		}
		ex, ok := exclusions[set]
		if !ok {
			ex = &exclusion{corrections: s.Corrections, slice: slice}
			exclusions[set] = ex
		}
		for _, w := range windows {
			ex.reach = max(ex.reach, b.plan.windows[w].Longest())
		}
		c := &correction{exclusion: ex, windows: windows}
		shared[key] = c
		b.corrections = append(b.corrections, c)
		return c
	}
	for _, p := range b.plan.slos {
		if p.volume != nil {
			p.volume.windows = append(slices.Concat(b.burns, p.tiers), p.period)
			for _, u := range p.usages {
				p.volume.windows = append(p.volume.windows, u.window)
			}
			continue // it excuses whole periods
		}
		if len(p.slo.Corrections) == 0 {
			continue
		}
		windows := append(slices.Concat(b.burns, p.tiers, p.trend), p.period)
		bands := map[*fold.Indicator][]int{} // of an agreement and its alert window, which share the counter
		for _, u := range p.usages {
			windows = append(windows, u.window)
			if u.bands != nil {
				bands[u.bands.indicator] = append(bands[u.bands.indicator], u.window)
			}
		}
		for _, u := range p.usages {
			if u.bands != nil {
				u.bands.correction = get(p.slo, 0, slices.Clone(bands[u.bands.indicator]))
			}
		}
		slice := time.Duration(0)
		if p.indicator.Slice != nil {
			slice = p.indicator.Slice.Per
		}
		p.correction = get(p.slo, slice, windows)
	}
}

func correctionsKey(cs []slo.Correction, slice time.Duration) string {
	var b strings.Builder
	fmt.Fprint(&b, slice)
	for _, c := range cs {
		fmt.Fprintf(&b, "|%q %d %d %q", c.Name, c.Start.UnixNano(), c.Duration, c.RRule)
	}
	return b.String()
}
