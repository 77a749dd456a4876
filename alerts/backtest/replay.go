package backtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/position"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/reliability/retained"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/evaluator"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/spec"
)

const (
	// warmUp is how long before the asked range alerts are evaluated, so that one that fires at its begin is known to
	// have fired before.
	warmUp = 6 * time.Hour
	// upGrace is how long after its last record an engine still runs: an idle one writes a record every ten seconds.
	upGrace = 12 * time.Second
	// maxAlerts bounds the alerts that are remembered of one spec. Further ones are counted.
	maxAlerts = 20_000
	// grace is that of the alert states of an engine: see state.Options.
	grace = 2 * time.Minute
	// keepResolved is more than notices of recovery look back.
	keepResolved = time.Hour
)

// replay is what is tried on which past.
type replay struct {
	source   *retained.Source
	from, to time.Time
	interval time.Duration
	alerts   alerts.Options
	zone     *time.Location // of days
	progress func(share float64)
	step     func(*lane, *sla.Report) // sees every report after its alerts; nil: nothing does
	check    *check                   // compares with the engine; nil: nothing does
	own      bool                     // see Options.Own
	share    float64                  // of a core
	most     int64                    // bytes of counts; 0: no bound
	worked   time.Time                // since then, without a rest

	lanes    []*lane
	tallies  []*tally
	book     Book              // of the incidents to rate alerts against; empty if others are given
	services map[string]uint64 // events of each service in the log
	last     string            // service of the last event
	count    uint64            // of its events, not yet in services

	first, end time.Time // receive times of the first and the last record
	firstSeq   uint64
	events     uint64
	records    uint64
	broken     uint64 // records that could not be applied
	ticks      int
	down       int // ticks at which the engine was not up
	gaps       []retained.Gap
	moreGaps   int
}

// tally is a fold, of all specs that count the same.
type tally struct {
	cfg      *fold.Config
	state    counting.FoldState
	services map[string]bool // nil: all
	asked    fold.Request
	sums     *fold.Sums // the answer to asked; nil if a record came since
}

// lane is one spec with its evaluator and its alerts.
type lane struct {
	name    string
	spec    *spec.Spec
	tally   *tally
	eval    *evaluator.Evaluator
	machine *state.Machine
	days    map[string][]Day
	hours   map[string][]Day  // with Options.Own
	seen    map[slo.ID]uint64 // valid events, as of the last report
	firing  map[string]int    // into alerts, by fingerprint
	alerts  []Alert
	more    int // alerts that were not remembered
	past    past
}

// add prepares a spec. Specs that count the same share a fold.
func (r *replay) add(name string, sp *spec.Spec) error {
	in := counting.Inputs(sp)
	cfg, err := evaluator.Compile(in)
	if err != nil {
		return err
	}
	l := newLane(name, sp)
	for _, t := range r.tallies {
		if t.join(cfg) {
			l.tally = t
			break
		}
	}
	if l.tally == nil {
		l.tally = &tally{cfg: cfg}
		r.tallies = append(r.tallies, l.tally)
	}
	return r.start(l, in)
}

func newLane(name string, sp *spec.Spec) *lane {
	return &lane{name: name, spec: sp, days: map[string][]Day{}, hours: map[string][]Day{},
		seen: map[slo.ID]uint64{}, firing: map[string]int{}}
}

// start prepares the evaluator and the alerts of a lane.
func (r *replay) start(l *lane, in evaluator.Inputs) (err error) {
	if l.eval, err = evaluator.New(evaluator.Options{Source: l.sums, Interval: r.interval}); err != nil {
		return err
	}
	if err := l.eval.SetSpec(in); err != nil {
		return err
	}
	if l.machine, err = r.states(); err != nil {
		return err
	}
	r.lanes = append(r.lanes, l)
	return nil
}

// states are those of an engine without alerts.
func (r *replay) states() (*state.Machine, error) {
	return state.New(state.Options{Alerts: r.alerts, Grace: max(grace, 4*r.interval), KeepResolved: keepResolved})
}

// join adds a config to what is counted, unless the two count something different under one name.
func (t *tally) join(cfg *fold.Config) bool {
	merged := *t.cfg
	merged.Indicators, merged.Services = slices.Clone(merged.Indicators), slices.Clone(merged.Services)
	for _, ind := range cfg.Indicators {
		i := slices.IndexFunc(merged.Indicators, func(x fold.Indicator) bool { return x.ID == ind.ID })
		if i < 0 {
			merged.Indicators = append(merged.Indicators, ind)
			continue
		}
		have := &merged.Indicators[i]
		longest := max(have.Retention, ind.Retention)
		have.Retention, ind.Retention, have.Was, ind.Was = longest, longest, "", ""
		if !reflect.DeepEqual(*have, ind) {
			return false
		}
	}
	for _, s := range cfg.Services {
		i := slices.IndexFunc(merged.Services, func(x fold.Service) bool { return x.Name == s.Name })
		if i < 0 {
			merged.Services = append(merged.Services, s)
			continue
		}
		have := &merged.Services[i]
		buckets := slices.Concat(have.Buckets, s.Buckets)
		slices.Sort(buckets)
		have.Buckets = slices.Compact(buckets)
		s.Buckets = have.Buckets
		if !reflect.DeepEqual(*have, s) {
			return false
		}
	}
	order.By(merged.Indicators, func(a, b *fold.Indicator) int { return strings.Compare(a.ID, b.ID) })
	order.By(merged.Services, func(a, b *fold.Service) int { return strings.Compare(a.Name, b.Name) })
	t.cfg = &merged
	return true
}

// sums answers an evaluator. Specs that share a fold and ask for the same share the answer.
func (l *lane) sums(_ context.Context, req fold.Request) (*fold.Sums, error) {
	t := l.tally
	if t.sums == nil || !reflect.DeepEqual(t.asked, req) {
		t.asked, t.sums = req, t.state.Fold.Sums(req)
	}
	return t.sums, nil
}

// history is how long before the range records are read: the longest window of a spec.
func (r *replay) history() time.Duration {
	longest := warmUp
	for _, t := range r.tallies {
		for i := range t.cfg.Indicators {
			longest = max(longest, t.cfg.Indicators[i].Retention)
		}
	}
	return longest
}

// run replays the log. The range ends with the log at the latest.
func (r *replay) run(ctx context.Context) (err error) {
	r.services = map[string]uint64{}
	for _, t := range r.tallies {
		if t.state.Fold, err = fold.New(fold.Options{}); err != nil {
			return err
		}
		if t.cfg != nil {
			t.services = map[string]bool{}
			for _, s := range t.cfg.Services {
				t.services[s.Name] = true
			}
		}
		t.state.Incidents, t.state.Positions = incident.NewBook(), position.NewBook()
		t.state.Wants = func(v *event.View) bool { return r.noted(t, v) }
	}
	query := retained.Query{ReceivedTo: r.to.UnixNano() + 1}
	next := int64(math.MaxInt64) // no tick but those that the engine logged
	if r.check == nil {
		query.ReceivedFrom = r.from.Add(-r.history()).UnixNano()
		next = r.from.Add(-warmUp).Truncate(r.interval).UnixNano()
	}
	reader, err := r.source.NewReader(query)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	f := feed{next: reader.Next, most: maxAheadBytes}
	if r.share > 0 {
		f.most = ownAheadBytes
	}
	up, ticking := true, false
	for {
		if r.records&1023 == 0 {
			if err := r.pause(ctx); err != nil {
				return err
			}
		}
		e, ticks, late, ok, err := f.pull()
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		for i := range ticks {
			if err := r.made(ctx, &ticks[i], late); err != nil {
				return err
			}
		}
		if !ok {
			break
		}
		if next, err = r.evaluate(ctx, next, e.Time, up, ticking); err != nil {
			return err
		}
		if up, err = r.apply(&e); err != nil {
			return err
		}
		ticking = e.proc.ticks
	}
	r.note()
	r.gaps, r.moreGaps = reader.Gaps()
	if r.records == 0 {
		return nil
	}
	_, err = r.evaluate(ctx, next, min(r.to.UnixNano(), r.end.Add(upGrace).UnixNano()), up, ticking)
	return err
}

// apply applies a record to all folds, and reports whether the engine runs behind it.
func (r *replay) apply(e *entry) (up bool, err error) {
	rec := &e.Record
	at := time.Unix(0, rec.Time).UTC()
	if r.records == 0 {
		r.first, r.firstSeq = at, rec.Seq
		for _, t := range r.tallies { // Compile has checked the configs
			if t.cfg != nil {
				t.state.Fold.Advance(rec.Time, fold.Tick)
				_ = t.state.Fold.SetConfig(t.cfg, rec.Time)
			}
		}
	}
	r.records++
	r.end = at
	switch {
	case rec.Type == record.TypeConfig && r.check != nil:
		return true, r.check.follow(r, rec)
	case rec.Type == record.TypeRebuilt && r.check != nil:
		r.check.rebuilt(rec)
	case rec.Type == record.TypeConfig, rec.Type == record.TypeIncident:
		// The specs that are tried hold all the time, and book has the incidents.
		for _, t := range r.tallies {
			t.sums = nil
			t.state.Fold.Advance(rec.Time, fold.Tick)
		}
		return true, nil
	}
	for i, t := range r.tallies {
		t.sums = nil
		if t.state.Apply(*rec, func(int, []byte, string) {}) != nil && i == 0 {
			r.broken++
		}
	}
	if rec.Type != record.TypeHeartbeat {
		return true, nil
	}
	beat, err := record.ParseBeat(rec.Payload)
	if err != nil {
		return true, nil // it is among the broken ones
	}
	if beat == record.BeatStart && !e.proc.ticks { // a logged tick says which states were restored
		for _, l := range r.lanes {
			if err := l.restore(r, math.MaxInt64); err != nil {
				return true, err
			}
		}
	}
	return beat != record.BeatStop, nil
}

// noted counts the events of services, and reports whether a fold is interested in an event.
func (r *replay) noted(t *tally, v *event.View) bool {
	if t == r.tallies[0] {
		if string(v.Service) != r.last {
			r.note()
			r.last = string(v.Service)
		}
		r.count++
	}
	return t.services == nil || t.services[string(v.Service)]
}

// note adds up the events of the last service.
func (r *replay) note() {
	if r.count > 0 {
		r.services[r.last] += r.count
		r.events += r.count
		r.count = 0
	}
}

// evaluate makes the ticks before a record, unless the engine logged its own, and returns the time of the next one. A
// tick sees what was received up to its time. An engine that is down makes none.
func (r *replay) evaluate(ctx context.Context, next, until int64, up, logged bool) (int64, error) {
	for ; next < until; next += int64(r.interval) {
		switch {
		case r.records == 0:
		case !up || next-r.end.UnixNano() > int64(upGrace):
			if next >= r.from.UnixNano() {
				r.down++
			}
		case !logged:
			if err := r.tick(ctx, time.Unix(0, next).UTC()); err != nil {
				return next, err
			}
		}
	}
	return next, nil
}

// made makes a tick that the engine made.
func (r *replay) made(ctx context.Context, t *record.Tick, late bool) error {
	now := time.Unix(0, t.Time).UTC()
	if r.records == 0 || now.After(r.to) || r.check == nil && now.Before(r.from.Add(-warmUp)) {
		return nil
	}
	if t.Started {
		for _, l := range r.lanes {
			if err := l.restore(r, t.Restored); err != nil {
				return err
			}
		}
	}
	if err := r.tick(ctx, now); err != nil {
		return err
	}
	if r.check != nil {
		r.check.compare(r, t, late)
	}
	return nil
}

func (r *replay) tick(ctx context.Context, now time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, l := range r.lanes {
		report, err := l.eval.Tick(ctx, now)
		if err != nil {
			return err
		}
		l.take(r, report)
	}
	if !now.Before(r.from) {
		r.ticks++
	}
	return r.rest(ctx)
}

// pause says how far the replay is, and refuses counts that take too much memory.
func (r *replay) pause(ctx context.Context) error {
	if all := r.to.Sub(r.first); r.progress != nil && r.records > 0 && all > 0 {
		r.progress(float64(r.end.Sub(r.first)) / float64(all))
	}
	var bytes int64
	for _, t := range r.tallies {
		if r.most > 0 {
			bytes += t.state.Fold.Stats().Bytes
		}
	}
	if bytes > r.most {
		return fmt.Errorf("%w: more than %d MiB (try fewer SLOs, or less group_by)", ErrTooLarge, r.most>>20)
	}
	return r.rest(ctx)
}

// workFor is how long a replay works before it rests.
const workFor = 20 * time.Millisecond

// rest leaves the rest of a core to others, and returns the error of ctx.
func (r *replay) rest(ctx context.Context) error {
	if r.share <= 0 || r.share >= 1 {
		return ctx.Err()
	}
	worked := time.Since(r.worked)
	if worked < workFor {
		return ctx.Err()
	}
	if !r.worked.IsZero() {
		select {
		case <-time.After(time.Duration(float64(worked) * (1 - r.share) / r.share)):
		case <-ctx.Done():
		}
	}
	r.worked = time.Now()
	return ctx.Err()
}

// take steps the alerts of a spec, and remembers what they did and, once a day, the budgets.
func (l *lane) take(r *replay, report *sla.Report) {
	for _, t := range l.machine.Step(report) {
		switch {
		case t.To == state.Firing && len(l.alerts) == maxAlerts:
			l.more++
		case t.To == state.Firing:
			l.firing[t.Alert.Fingerprint] = len(l.alerts)
			l.alerts = append(l.alerts, newAlert(&t.Alert, t.Time, r.from))
		case t.From == state.Firing:
			if i, ok := l.firing[t.Alert.Fingerprint]; ok {
				end := t.Time
				l.alerts[i].End = &end
				delete(l.firing, t.Alert.Fingerprint)
			}
		}
	}
	l.past.note(l.machine, report)
	if r.step != nil {
		r.step(l, report)
	}
	if report.Time.Before(r.from) {
		return
	}
	day, hour := report.Time.In(r.zone).Format(time.DateOnly), report.Time.UTC().Format("2006-01-02T15")
	clear(l.seen)
	for i := range report.SLOs {
		x := &report.SLOs[i]
		l.seen[x.SLO.ID] += x.Total.Valid() + x.Backfilled.Valid()
		if x.Informative {
			continue
		}
		keepLast(l.days, day, report.Time, x)
		if r.own {
			keepLast(l.hours, hour, report.Time, x)
		}
	}
}

// uncounted lists the SLOs that the engine does not evaluate, since they are on series of a Prometheus.
func (l *lane) uncounted() (ids []string) {
	for _, s := range l.spec.SLOs {
		if s.Indicator.RulesOnly() {
			ids = append(ids, string(s.ID))
		}
	}
	return ids
}

// known are the services of the log, sorted.
func (r *replay) known() []string { return slices.Sorted(maps.Keys(r.services)) }
