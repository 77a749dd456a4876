package counting

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"time"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// This file says what is to be rebuilt: definitions that began without a past, those that somebody asked for, and those
// that the files have while earlier ones are in force.

// job is what is rebuilt at once: indicators of one service.
type job struct {
	service string
	cfg     *fold.Config // has their definitions
	ids     []string
	held    []slo.ID // whose earlier definitions are in force until then; none: those of cfg are
	wanted  *Spec    // that has them; nil: none are
}

// choose picks the indicators of one service that wait and have a past: first those whose earlier definition is in
// force.
func (r *Rebuilder) choose(ctx context.Context) (*job, error) {
	if j, err := r.chooseHeld(ctx); j != nil || err != nil {
		return j, err
	}
	j := &job{}
	for _, w := range r.waiting() {
		of := slo.ID(w.Indicator).Service()
		if r.resting(of) || j.service != "" && of != j.service {
			continue
		}
		j.service = of
		j.ids = append(j.ids, w.Indicator)
	}
	if len(j.ids) == 0 {
		return nil, nil //nolint:nilnil // there is no job
	}
	return j, r.counts.engine.Do(ctx, func() { j.cfg = r.counts.fold.Config() })
}

// resting reports whether a service has to wait after a failure.
func (r *Rebuilder) resting(service string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.failures[service].retryAt)
}

func (r *Rebuilder) chooseHeld(ctx context.Context) (*job, error) {
	now := r.inForce()
	if now == nil || now.Wanted == nil {
		return nil, nil //nolint:nilnil // there is no job
	}
	j := &job{cfg: new(fold.Config), wanted: now.Wanted}
	for _, id := range now.Held {
		if of := id.Service(); j.service == of || j.service == "" && !r.resting(of) {
			j.service = of
			j.held = append(j.held, id)
		}
	}
	if len(j.held) == 0 {
		return nil, nil //nolint:nilnil // there is no job
	}
	// As the log has it: the takeover compares with that.
	if err := json.Unmarshal(j.wanted.Encoded, j.cfg); err != nil {
		return nil, err
	}
	var err error
	j.ids, err = r.starting(ctx, j.cfg, j.service)
	return j, err
}

// starting are the indicators of a service that would start from zero with a configuration.
func (r *Rebuilder) starting(ctx context.Context, cfg *fold.Config, service string) (ids []string, err error) {
	var held []fold.Generation
	if err := r.counts.engine.Do(ctx, func() { held = r.counts.fold.Generations(0) }); err != nil {
		return nil, err
	}
	change, err := fold.Compare(held, cfg)
	if err != nil {
		return nil, err
	}
	for i := range cfg.Indicators {
		if ind := &cfg.Indicators[i]; ind.Service == service && slices.Contains(change.Started, ind.ID) {
			ids = append(ids, ind.ID)
		}
	}
	return ids, nil
}

// same reports whether the definitions of a job are to be rebuilt. now is what is counted.
func (r *Rebuilder) same(j *job, now *fold.Config) bool {
	if j.wanted == nil {
		r.Rebuilds.mu.Lock()
		defer r.Rebuilds.mu.Unlock()
		return sameIndicators(j.cfg, now, j.ids) && !slices.ContainsFunc(j.ids, func(id string) bool {
			return !slices.ContainsFunc(r.state.Waiting, func(w WaitingSLO) bool { return w.Indicator == id })
		})
	}
	s := r.inForce()
	if s.Wanted == nil || slices.ContainsFunc(j.held, func(id slo.ID) bool { return !slices.Contains(s.Held, id) }) {
		return false
	}
	if s.Wanted == j.wanted {
		return true
	}
	var cfg fold.Config
	return json.Unmarshal(s.Wanted.Encoded, &cfg) == nil && sameIndicators(j.cfg, &cfg, j.ids)
}

// sameIndicators reports whether two configurations count the same for some indicators, and as long.
func sameIndicators(a, b *fold.Config, ids []string) bool {
	of := func(c *fold.Config, id string) *fold.Indicator {
		for i := range c.Indicators {
			if c.Indicators[i].ID == id {
				return &c.Indicators[i]
			}
		}
		return nil
	}
	other := func(id string) bool { return !reflect.DeepEqual(of(a, id), of(b, id)) }
	return a == b || !slices.ContainsFunc(ids, other)
}
