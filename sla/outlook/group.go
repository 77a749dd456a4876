package outlook

import (
	"context"
	"hash/fnv"
	"reflect"
	"time"

	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/forecast"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
)

type group struct {
	slo     *slo.SLO
	values  slo.Group
	key     string
	seed    uint64
	at      int // in the last report
	report  *sla.SLOReport
	burning bool
	budget  series  // what the budget is about
	traffic *series // the events of a throughput with a capacity, in any state of its slices

	// backfilled is what had been backfilled when the hours were read. Once there is more, hours of any age may have
	// changed.
	backfilled slo.Counts

	asked   time.Time
	outlook *sla.Outlook
	open    [len(forecast.LeadNames)]open
}

// keyOf tells groups of all SLOs apart.
func keyOf(id slo.ID, g slo.Group) string { return string(id) + "\xff\xff" + g.Key() }

func newGroup(r *sla.SLOReport, key string) *group {
	h := fnv.New64a()
	h.Write([]byte(key))
	g := &group{slo: r.SLO, values: r.Group, key: key, seed: h.Sum64(), budget: series{counter: string(r.SLO.ID)}}
	if !r.SLO.Indicator.Capacity.IsZero() {
		g.traffic = &series{counter: sla.EventsID(r.SLO.ID)}
	}
	return g
}

// back is how far hours must reach.
func back(s *slo.SLO) time.Duration {
	d := forecast.Lookback + time.Hour
	if s.Window.Calendar == "" {
		d = max(d, s.Window.Rolling+time.Hour)
	}
	return d
}

// choose decides which groups are forecast: all, or if there are too many those that burn most. A group that has its
// hours already goes before one that would need to read them.
func (k *Keeper) choose(r *sla.Report) {
	known := make(map[string]*group, len(k.groups))
	for _, g := range k.groups {
		known[g.key] = g
	}
	type candidate struct {
		at   int
		key  string
		rank float64
	}
	all := make([]candidate, len(r.SLOs))
	for i := range r.SLOs {
		x := &r.SLOs[i]
		c := candidate{at: i, key: keyOf(x.SLO.ID, x.Group), rank: urgency(x)}
		if known[c.key] != nil {
			c.rank *= 1.25
		}
		all[i] = c
	}
	if len(all) > k.opt.Groups {
		order.By(all, func(a, b *candidate) int {
			if a.rank > b.rank {
				return -1
			} else if a.rank < b.rank {
				return 1
			}
			return 0
		})
	}
	records := make(map[slo.ID]*forecast.Record, len(k.records))
	for i := range r.SLOs {
		id := r.SLOs[i].SLO.ID
		if records[id] == nil {
			records[id] = k.records[id]
			if records[id] == nil {
				records[id] = &forecast.Record{}
			}
		}
	}
	k.records = records
	k.groups = k.groups[:0:0]
	hours := 0
	for _, c := range all {
		x := &r.SLOs[c.at]
		need := int(back(x.SLO)/time.Hour) + 25
		if !x.SLO.Indicator.Capacity.IsZero() {
			need += int(forecast.Lookback/time.Hour) + 25
		}
		if hours+need > maxHours || len(k.groups) == k.opt.Groups {
			break
		}
		hours += need
		g := known[c.key]
		if g == nil || !g.fits(x) {
			was := g
			g = newGroup(x, c.key)
			if was != nil {
				k.drop(was)
			}
			k.takeUp(g, x)
		}
		g.slo, g.values, g.at = x.SLO, x.Group, c.at
		delete(known, c.key)
		k.groups = append(k.groups, g)
	}
	for _, g := range known {
		k.drop(g)
	}
	for _, was := range k.restored { // by an earlier process, of groups that are not forecast now
		if record := k.records[was.SLO]; record != nil {
			for h, o := range was.Open {
				if o != nil {
					record[h].Missed++
					k.changed = true
				}
			}
		}
	}
	k.restored = nil
}

// unread has all hours of a group read again.
func (g *group) unread() {
	g.budget.read = time.Time{}
	if g.traffic != nil {
		g.traffic.read = time.Time{}
	}
}

// fits reports whether the hours of a group are still those of the SLO, which a reload may have changed.
func (g *group) fits(r *sla.SLOReport) bool {
	if g.slo == r.SLO {
		return g.report == nil || g.report.Generation == r.Generation
	}
	a, b := *g.slo, *r.SLO
	a.Description, a.Labels, a.Alerting, a.MaxGroups, a.Expect = b.Description, b.Labels, b.Alerting, b.MaxGroups, b.Expect
	return reflect.DeepEqual(&a, &b) && (g.report == nil || g.report.Generation == r.Generation)
}

// urgency orders groups by how much a forecast of them matters.
func urgency(r *sla.SLOReport) float64 {
	u := 0.01
	if r.Budget.HasData {
		u += max(0, r.Budget.Consumed)
	}
	for _, b := range r.Burns {
		if b.HasData && b.Window >= time.Hour && b.Window <= 3*24*time.Hour {
			u = max(u, b.Rate)
		}
	}
	if r.Informative {
		u /= 100
	}
	if r.SLO.Alerting.Soon.Within > 0 {
		u += 1e6 // somebody wants to be alerted
	}
	return u
}

// burning reports whether the budget is being spent faster than it lasts.
func burning(r *sla.SLOReport) bool {
	for _, b := range r.Burns {
		if b.HasData && !b.Period && b.Window <= time.Hour && b.Rate > 1 {
			return true
		}
	}
	return false
}

// readHours reads what is missing of the hours of groups, and returns the groups that have all of it. The counts that
// one call asks for are bounded, so after a start it takes some calls until all groups are there.
func (k *Keeper) readHours(ctx context.Context, due []*group, now time.Time) ([]*group, error) {
	type reading struct {
		from   time.Time
		groups []*group
		series []*series
		got    *history.Series
	}
	var all []*reading
	known := map[string]*reading{}
	counts, done := 0, 0
	add := func(g *group, s *series, reach time.Duration) {
		from := s.next(now, reach)
		key := s.counter + from.String()
		rd := known[key]
		if rd == nil {
			rd = &reading{from: from}
			known[key], all = rd, append(all, rd)
		}
		rd.groups, rd.series = append(rd.groups, g), append(rd.series, s)
		counts += int(now.Sub(from)/time.Hour) + 1
	}
	for done < len(due) && counts < history.MaxAsk {
		g := due[done]
		if g.backfilled != g.report.Backfilled {
			g.backfilled = g.report.Backfilled
			g.unread()
		}
		add(g, &g.budget, back(g.slo))
		if g.traffic != nil {
			add(g, g.traffic, forecast.Lookback+time.Hour)
		}
		done++
	}
	var batch history.Batch
	for _, rd := range all {
		first := rd.groups[0]
		sp := slo.Span{From: rd.from, To: now}
		grid := history.NewGrid(sp, time.Hour, history.Excluded(first.slo, sp, first.report.Slice))
		var values []slo.Group
		for _, g := range rd.groups {
			values = append(values, g.values)
		}
		rd.got = batch.Add(rd.series[0].counter, rd.from.String(), grid, values)
	}
	if err := batch.Run(ctx, k.opt.Counts); err != nil {
		return nil, err
	}
	for _, rd := range all {
		if len(rd.got.Grid.Steps) == 0 {
			continue
		}
		observed := observedShares(rd.got)
		for i, s := range rd.series {
			reach := back(rd.groups[i].slo)
			if s != &rd.groups[i].budget {
				reach = forecast.Lookback + time.Hour
			}
			s.take(rd.groups[i].slo, rd.got, observed, i, now, reach)
		}
	}
	return due[:done], nil
}

// forecast makes the outlook of a group whose hours are known.
func (k *Keeper) forecast(g *group, now time.Time) {
	g.asked = now
	r, s := g.report, g.slo
	out := &sla.Outlook{Forecast: forecast.Forecast{Time: now}}
	valid := float64(r.Budget.Counts.Valid())
	switch {
	case s.Indicator.Kind == slo.KindVolume:
		out.Forecast.TooLittle = "a volume is judged when its day, week or month is over, not by the hour"
	case !r.Budget.HasData:
		out.Forecast.TooLittle = "no valid event in the window"
	default:
		k.memory = g.budget.load(&k.past, k.memory)
		out.Forecast = k.past.At(forecast.Question{
			Now: now, Window: s.Window, Budget: s.Objective.Budget(), Valid: valid,
			Bad:   r.Budget.Consumed * s.Objective.Budget() * valid,
			Ahead: ahead(s, now, r.Slice), Soon: s.Alerting.Soon.Within, Seed: g.seed,
		})
		out.Week = k.past.Week(now)
		k.begin(g, &out.Forecast)
	}
	if g.traffic != nil {
		k.memory = g.traffic.load(&k.past, k.memory)
		c := k.past.Capacity(now, s.Indicator.Capacity.PerSecond())
		out.Capacity = &c
	}
	out.Record = *k.records[s.ID]
	g.outlook = out
}
