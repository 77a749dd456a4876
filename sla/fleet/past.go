package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// Read answers as one fold does that counted what all engines did. Slices are judged here by what was fetched for the
// reports, as far back as windows reach. An engine that does not answer observed nothing. It fails if none does.
func (f *Fleet) Read(ctx context.Context, requests []fold.ReadRequest) ([]fold.ReadResult, error) {
	out := make([]fold.ReadResult, len(requests))
	q, of, alike, joined, err := f.split(requests, out)
	if err != nil || len(of) == 0 {
		return out, err
	}
	parts, err := f.ask(ctx, q, joined)
	if err != nil {
		return nil, err
	}
	got, err := addReads(len(of), parts, alike)
	if err != nil {
		return nil, err
	}
	for i, at := range of {
		out[at] = got[i]
	}
	return out, nil
}

// split answers requests about slices, and makes a query of the others. alike are those that all engines with the same
// source count.
func (f *Fleet) split(requests []fold.ReadRequest, out []fold.ReadResult) (q *CountsQuery, of []int,
	alike []bool, joined *fold.Joined, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.joined == nil {
		return nil, nil, nil, nil, errors.New("there is no spec yet")
	}
	sliced, sources := f.indicators(isSliced), f.indicators(func(ind *fold.Indicator) bool { return ind.Source != "" })
	q = &CountsQuery{Spec: f.spec}
	for i, r := range requests {
		if sliced[r.ID] {
			got, err := f.joined.Read(requests[i : i+1])
			if err != nil {
				return nil, nil, nil, nil, err
			}
			out[i] = got[0]
			continue
		}
		x := CountRead{ID: r.ID, Groups: r.Groups}
		for _, s := range r.Spans {
			x.Spans = append(x.Spans, [2]int64{s.From.UnixNano(), s.To.UnixNano()})
		}
		q.Reads, of, alike = append(q.Reads, x), append(of, i), append(alike, sources[r.ID])
	}
	return q, of, alike, f.joined, nil
}

func isSliced(ind *fold.Indicator) bool { return ind.Slice != nil }

// indicators are the IDs of some indicators.
func (f *Fleet) indicators(some func(*fold.Indicator) bool) map[string]bool {
	out := map[string]bool{}
	for i := range f.cfg.Indicators {
		if some(&f.cfg.Indicators[i]) {
			out[f.cfg.Indicators[i].ID] = true
		}
	}
	return out
}

// Kept is the share of the events offered to each counter, on all engines, that no limit dropped.
func (f *Fleet) Kept(ctx context.Context, ids []string, sp slo.Span) ([]float64, error) {
	f.mu.Lock()
	if f.joined == nil {
		f.mu.Unlock()
		return nil, errors.New("there is no spec yet")
	}
	joined, sliced := f.joined, f.indicators(isSliced)
	offers, err := joined.Offers(ids, sp)
	q := &CountsQuery{Spec: f.spec, Span: [2]int64{sp.From.UnixNano(), sp.To.UnixNano()}}
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	var of []int
	for i, id := range ids {
		if !sliced[id] {
			q.Losses, of = append(q.Losses, id), append(of, i)
		}
	}
	if len(of) > 0 {
		parts, err := f.ask(ctx, q, joined)
		if err != nil {
			return nil, err
		}
		for _, p := range parts {
			for i, at := range of {
				if p != nil {
					offers[at].Dropped += p.Losses[i].Dropped
					offers[at].Offered += p.Losses[i].Offered
				}
			}
		}
	}
	out := make([]float64, len(ids))
	for i, o := range offers {
		out[i] = o.Kept()
	}
	return out, nil
}

// ask asks all engines side by side. Engines that do not answer are nil; it fails if none does.
func (f *Fleet) ask(ctx context.Context, q *CountsQuery, joined *fold.Joined) ([]*Counts, error) {
	parts, errs := make([]*Counts, len(f.clients)), make([]error, len(f.clients))
	var all sync.WaitGroup
	for i, c := range f.clients {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, f.opt.Timeout)
			defer cancel()
			var data []byte
			if data, errs[i] = c.counts(ctx, q); errs[i] == nil {
				parts[i], errs[i] = DecodeCounts(data, q)
			}
		})
	}
	all.Wait()
	f.mu.Lock()
	changed := f.joined != joined
	f.mu.Unlock()
	if changed {
		return nil, errChanged
	}
	for _, p := range parts {
		if p != nil {
			return parts, nil
		}
	}
	return nil, fmt.Errorf("%w: %s: %w", errNobody, nameOf(f.opt.Engines[0]), errs[0])
}
