package outlook

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/health"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/forecast"
	"github.com/sloengine/sloengine/slo"
)

const (
	// maxHours bounds the hours of all groups that are in memory, 12 bytes each. A thousand groups with a window of 30
	// days have a third of them.
	maxHours = 2_500_000

	// portion is how many groups are forecast after one report, which takes about 50 ms. A thousand groups take a minute.
	portion = 160

	// refresh is how old a forecast may be before it is made again. That of a group which burns is made with every report.
	refresh = time.Minute

	// maxAge is how old a forecast may be to be shown. It is only that old if counts cannot be read.
	maxAge = 10 * time.Minute

	// choosing is how often it is decided which groups are forecast.
	choosing = time.Minute

	// saving is how often the score is saved.
	saving = 5 * time.Minute
)

// Keeper makes outlooks. Observe and Complete may be called from any goroutine.
type Keeper struct {
	opt    Options
	latest chan *sla.Report // the newest report that Run has not seen
	shown  atomic.Pointer[shown]

	// What follows belongs to the goroutine of Run.
	groups   []*group // by priority
	chosen   time.Time
	spec     *slo.SLO // of the first group of the report that they were chosen from
	of       int      // groups in that report
	records  map[slo.ID]*forecast.Record
	restored map[string]openGroup // of an earlier process, by key, until groups are chosen
	file     fsys.StateFile[file]
	changed  bool // the score, since it was saved
	saved    time.Time
	now      time.Time // of the report
	counts   health.Log
	past     forecast.Past
	memory   []forecast.Hour
}

// shown is what reports are completed with.
type shown struct {
	groups []shownGroup
	all    sla.Outlooks
}

type shownGroup struct {
	at      int // in the report that it was made from
	slo     *slo.SLO
	group   slo.Group
	outlook *sla.Outlook
}

// New makes a keeper. It reads the file, which must not have a newer format, and starts nothing.
func New(opt Options) (*Keeper, error) {
	if err := opt.applyDefaults(); err != nil {
		return nil, err
	}
	k := &Keeper{opt: opt, latest: make(chan *sla.Report, 1), records: map[slo.ID]*forecast.Record{}}
	k.counts = health.Log{
		Tracker: health.Tracker{Now: func() time.Time { return k.now }}, Logger: opt.Logger,
		Broken: "forecasts: reading the counts failed, the last forecasts stand for ten minutes",
		Works:  "forecasts: counts can be read again",
	}
	if err := k.restore(); err != nil {
		return nil, err
	}
	return k, nil
}

// Observe has forecasts made from a report and those that come after it. It never waits.
func (k *Keeper) Observe(r *sla.Report) {
	select {
	case <-k.latest: // Run was too slow for it
	default:
	}
	select {
	case k.latest <- r:
	default:
	}
}

// Complete adds the outlooks that there are to a report.
func (k *Keeper) Complete(r *sla.Report) {
	s := k.shown.Load()
	if s == nil {
		return
	}
	all := s.all
	r.Outlooks = &all
	for i := range s.groups {
		g := &s.groups[i]
		if r.Time.Sub(g.outlook.Forecast.Time) > maxAge {
			continue
		}
		if x := find(r, g); x != nil {
			x.Outlook = g.outlook
		}
	}
}

// find finds the row of a group, which is mostly where it was.
func find(r *sla.Report, g *shownGroup) *sla.SLOReport {
	if g.at < len(r.SLOs) {
		if x := &r.SLOs[g.at]; x.SLO == g.slo && slices.Equal(x.Group, g.group) {
			return x
		}
	}
	i, _ := slices.BinarySearchFunc(r.SLOs, g.slo.ID, func(x sla.SLOReport, id slo.ID) int {
		return cmp.Compare(x.SLO.ID, id)
	})
	for ; i < len(r.SLOs) && r.SLOs[i].SLO == g.slo; i++ {
		if slices.Equal(r.SLOs[i].Group, g.group) {
			g.at = i
			return &r.SLOs[i]
		}
	}
	return nil
}

// Run makes forecasts until ctx ends. It then saves the score and returns nil.
func (k *Keeper) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			k.save()
			return nil
		case r := <-k.latest:
			began := k.opt.Now()
			k.step(ctx, r)
			k.opt.Metrics.seconds.Update(k.opt.Now().Sub(began).Seconds())
		}
	}
}

// step does what a report calls for.
func (k *Keeper) step(ctx context.Context, r *sla.Report) {
	now := r.Time
	k.now = now
	if len(r.SLOs) == 0 {
		k.groups, k.spec, k.of = nil, nil, 0
	} else if first := r.SLOs[0].SLO; first != k.spec || len(r.SLOs) != k.of || now.Sub(k.chosen).Abs() >= choosing {
		k.choose(r)
		k.spec, k.of, k.chosen = first, len(r.SLOs), now
	}
	k.check(r)
	due := k.due(now)
	if len(due) > 0 {
		done, err := k.readHours(ctx, due, now)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			k.opt.Metrics.failures.Inc()
		}
		k.counts.Note(err)
		for _, g := range done {
			k.forecast(g, now)
		}
	}
	k.publish()
	if k.changed && now.Sub(k.saved).Abs() >= saving {
		k.saved = now
		k.save()
	}
}

// due are the groups to forecast now: those that burn first, then those whose forecast is oldest.
func (k *Keeper) due(now time.Time) []*group {
	var out []*group
	for _, g := range k.groups {
		if age := now.Sub(g.asked).Abs(); g.report != nil && (age >= refresh || g.burning && age > 0) {
			out = append(out, g)
		}
	}
	const ahead = 2 * refresh // so that many that burn do not stop the others
	when := func(g *group) time.Time {
		if g.burning {
			return g.asked.Add(-ahead)
		}
		return g.asked
	}
	slices.SortStableFunc(out, func(a, b *group) int { return when(a).Compare(when(b)) })
	return out[:min(len(out), portion)]
}

func (k *Keeper) publish() {
	s := &shown{groups: make([]shownGroup, 0, len(k.groups))}
	for _, g := range k.groups {
		if g.outlook != nil {
			s.groups = append(s.groups, shownGroup{g.at, g.slo, g.values, g.outlook})
		}
	}
	var sum forecast.Record
	for _, r := range k.records {
		sum = sum.Add(*r)
	}
	failure := k.counts.Failure()
	s.all = sla.Outlooks{Groups: len(k.groups), Of: k.of, Record: sum, Failed: failure.Text(), Since: failure.Since}
	k.opt.Metrics.record.Store(&sum)
	k.opt.Metrics.groups.Set(float64(len(k.groups)))
	k.shown.Store(s)
}
