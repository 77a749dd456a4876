package counting

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// RebuildRequest asks to rebuild SLOs from the retained log, or not to.
type RebuildRequest struct {
	SLOs   []string `json:"slos,omitempty"`
	All    bool     `json:"all,omitempty"`
	Cancel bool     `json:"cancel,omitempty"`
}

// RebuildAnswer is the effect of a RebuildRequest.
type RebuildAnswer struct {
	SLOs      []string `json:"slos"`      // that are to be rebuilt, or are not any more
	Activated []string `json:"activated"` // of a cancel: those whose changed definition is in force now, without a past
}

// The errors of Ask that are the caller's.
var (
	ErrRebuildOff = errors.New("engine.yaml has rebuild: off, or no log.retain: there is nothing to rebuild from")
	ErrUnknownSLO = errors.New("the spec in force has no such SLO")
	ErrNoRebuild  = errors.New("no rebuild of these SLOs waits or is running")
)

// Ask does what a request says, by a record of the log.
func (r *Rebuilder) Ask(ctx context.Context, q RebuildRequest) (RebuildAnswer, error) {
	out := RebuildAnswer{SLOs: []string{}, Activated: []string{}}
	if r.o.Off || r.counts.engine.History().Bounds().Age == 0 {
		return out, ErrRebuildOff
	}
	if q.Cancel {
		return r.cancel(ctx, &q, out)
	}
	var cfg *fold.Config
	var basis uint64
	eng := r.counts.engine
	if err := eng.Do(ctx, func() { cfg, basis = r.counts.fold.Config(), eng.Position() }); err != nil {
		return out, err
	}
	var ids []string
	for i := range cfg.Indicators {
		if id := cfg.Indicators[i].ID; q.names(id) {
			ids = append(ids, id)
		}
	}
	for _, name := range q.SLOs {
		if !slices.Contains(ids, name) {
			return out, fmt.Errorf("%q: %w", name, ErrUnknownSLO)
		}
	}
	if len(ids) == 0 {
		return out, nil
	}
	err := eng.TakeOver(ctx, record.Rebuilt{Kind: record.RebuiltAsked, Indicators: ids}, nil, basis)
	if err == nil {
		out.SLOs = sloIDs(ids)
	}
	return out, err
}

// names reports whether a request is about an indicator.
func (q *RebuildRequest) names(id string) bool {
	name, _, _ := strings.Cut(id, "#")
	return q.All || slices.Contains(q.SLOs, name)
}

func (r *Rebuilder) cancel(ctx context.Context, q *RebuildRequest, out RebuildAnswer) (RebuildAnswer, error) {
	var held []slo.ID
	var ids []string
	if s := r.inForce(); s != nil {
		for _, id := range s.Held {
			if q.names(string(id)) {
				held = append(held, id)
			}
		}
		if len(held) > 0 {
			for i := range s.Wanted.config.Indicators { // they start with the record, and must not wait behind it
				if id := s.Wanted.config.Indicators[i].ID; slices.ContainsFunc(held, func(h slo.ID) bool {
					return id == string(h) || strings.HasPrefix(id, string(h)+"#")
				}) {
					ids = append(ids, id)
				}
			}
		}
	}
	for _, w := range r.waiting() {
		if q.names(w.Indicator) {
			ids = append(ids, w.Indicator)
		}
	}
	if len(ids) == 0 {
		return out, ErrNoRebuild
	}
	b := record.Rebuilt{Kind: record.RebuiltCanceled, Indicators: ids}
	if len(held) > 0 {
		err := r.Activate(ctx, held, b, func() bool {
			return !slices.ContainsFunc(held, func(id slo.ID) bool { return !slices.Contains(r.inForce().Held, id) })
		})
		if err != nil {
			return out, err
		}
		out.Activated = texts(held)
	} else if err := r.counts.engine.TakeOver(ctx, b, nil, r.counts.engine.Position()); err != nil {
		return out, err
	}
	out.SLOs = sloIDs(ids)
	return out, nil
}
