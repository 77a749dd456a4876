package fleet

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/sloengine/sloengine/ingest/binread"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// This file adds up the work in flight of several engines. All events of one piece of work must reach one engine.

// counters are the figures of an InFlight that add up.
func counters(x *slo.InFlight) []*uint64 {
	return []*uint64{&x.Finished, &x.Expired, &x.Corrected, &x.Repeated, &x.Unmatched, &x.Untracked, &x.Displaced}
}

func appendInFlight(b []byte, all []slo.InFlight) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	for i := range all {
		x := &all[i]
		b = binread.AppendText(b, string(x.SLO))
		b = appendTime(b, x.Oldest)
		for _, n := range counters(x) {
			b = binary.AppendUvarint(b, *n)
		}
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(x.Held)), uint64(x.Bytes))
		b = binary.AppendUvarint(b, uint64(len(x.Groups)))
		for _, g := range x.Groups {
			b = binary.AppendUvarint(binread.AppendTexts(b, g.Group), uint64(len(g.Stages)))
			for _, s := range g.Stages {
				b = binary.AppendUvarint(binary.AppendUvarint(binread.AppendText(b, s.Stage), s.Open), s.Overdue)
			}
		}
		b = binary.AppendUvarint(b, uint64(len(x.Items)))
		for _, it := range x.Items {
			b = binread.AppendTexts(binread.AppendBool(binread.AppendText(b, it.Key), it.Cut), it.Group)
			b = appendTime(appendTime(appendTime(binread.AppendText(b, it.Stage), it.Start), it.Since), it.Deadline)
			b = binread.AppendBool(b, it.Overdue)
		}
	}
	return b
}

// inFlight reads what appendInFlight wrote. It must name the indicators of completion of cfg, in their order.
func (r *reader) inFlight(s *fold.Sums, cfg *fold.Config) error {
	n := r.Count(9)
	for i := range cfg.Indicators {
		ind := &cfg.Indicators[i]
		if ind.Kind != fold.Completion {
			continue
		}
		if n--; n < 0 {
			return ErrFormat
		}
		x := slo.InFlight{SLO: slo.ID(r.Text()), GroupBy: ind.GroupBy, Max: ind.Work.MaxInFlight, Oldest: r.time()}
		for _, c := range counters(&x) {
			*c = r.Uint()
		}
		x.Held, x.Bytes = int(r.Uint()), int(r.Uint())
		fits := x.SLO == slo.ID(ind.ID)
		for range r.Count(2) {
			g := slo.InFlightGroup{Group: r.texts()}
			fits = fits && len(g.Group) == len(ind.GroupBy)
			for range r.Count(3) {
				g.Stages = append(g.Stages, slo.InFlightStage{Stage: r.Text(), Open: r.Uint(), Overdue: r.Uint()})
			}
			if k := len(x.Groups); k > 0 && compareValues(x.Groups[k-1].Group, g.Group) >= 0 {
				fits = false
			}
			x.Groups = append(x.Groups, g)
		}
		for range r.Count(8) {
			it := slo.InFlightItem{Key: r.Text(), Cut: r.Bool(), Group: r.texts(), Stage: r.Text(), Start: r.time(), Since: r.time(), Deadline: r.time()}
			it.Overdue = r.Bool()
			x.Items = append(x.Items, it)
		}
		if !fits || r.Bad() || len(x.Items) > slo.MaxInFlightItems {
			return ErrFormat
		}
		s.InFlight = append(s.InFlight, x)
	}
	if n != 0 {
		return ErrFormat
	}
	return nil
}

// inFlight adds up the work of an indicator. What an engine without an answer has in flight is not known.
func (a *adder) inFlight(ind *fold.Indicator) {
	sum := slo.InFlight{SLO: slo.ID(ind.ID), GroupBy: ind.GroupBy}
	for _, p := range a.parts {
		if p == nil {
			continue
		}
		for i := range p.InFlight {
			x := &p.InFlight[i]
			if x.SLO != sum.SLO {
				continue
			}
			sum.Max += x.Max // of each engine
			to := counters(&sum)
			for k, n := range counters(x) {
				*to[k] += *n
			}
			sum.Held, sum.Bytes = sum.Held+x.Held, sum.Bytes+x.Bytes
			if !x.Oldest.IsZero() && (sum.Oldest.IsZero() || x.Oldest.Before(sum.Oldest)) {
				sum.Oldest = x.Oldest
			}
			for _, g := range x.Groups {
				addGroup(&sum, g)
			}
			sum.Items = append(sum.Items, x.Items...)
		}
	}
	slices.SortStableFunc(sum.Items, func(x, y slo.InFlightItem) int { return x.Start.Compare(y.Start) })
	sum.Items = sum.Items[:min(len(sum.Items), slo.MaxInFlightItems)]
	a.out.InFlight = append(a.out.InFlight, sum)
}

// addGroup adds the work of a group, which stays with its part.
func addGroup(sum *slo.InFlight, g slo.InFlightGroup) {
	at, ok := slices.BinarySearchFunc(sum.Groups, g.Group, func(x slo.InFlightGroup, values slo.Group) int { return compareValues(x.Group, values) })
	if !ok {
		sum.Groups = slices.Insert(sum.Groups, at, slo.InFlightGroup{Group: g.Group, Stages: slices.Clone(g.Stages)})
		return
	}
	stages := &sum.Groups[at].Stages
	for _, s := range g.Stages {
		i, ok := slices.BinarySearchFunc(*stages, s.Stage, func(x slo.InFlightStage, name string) int { return strings.Compare(x.Stage, name) })
		if !ok {
			*stages = slices.Insert(*stages, i, s)
			continue
		}
		(*stages)[i].Open += s.Open
		(*stages)[i].Overdue += s.Overdue
	}
}
