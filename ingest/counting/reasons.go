package counting

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/sloengine/sloengine/reliability/health"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// Reasons finds in the background what is different about the bad events of SLOs that page. It is safe for concurrent
// use.
type Reasons struct {
	log    *EventLog
	asked  chan reasonKey
	health health.Log

	mu    sync.Mutex
	known map[reasonKey]reason
}

type reasonKey struct {
	slo   slo.ID
	group string // slo.Group.Key; "" with all set
	all   bool
}

type reason struct {
	group slo.Group
	text  string
	at    time.Time // of the last attempt
}

const (
	reasonLast  = 15 * time.Minute // the events that are compared
	reasonAge   = 2 * time.Minute  // after which an answer is made again
	maxReasons  = 1000
	maxQueued   = 16
	reasonPause = time.Second // between two searches, so that a storm of alerts costs a bounded share of a core
)

// NewReasons answers from log. Run finds the answers.
func NewReasons(log *EventLog, logger *slog.Logger) *Reasons {
	return &Reasons{log: log, asked: make(chan reasonKey, maxQueued), known: map[reasonKey]reason{}, health: health.Log{
		Tracker: health.Tracker{Cause: func(error) string { return "the log cannot be read" }}, Logger: logger,
		Broken: "alerts lack what is different about bad events, retrying",
		Works:  "alerts have again what is different about bad events"}}
}

// Of is what was found last for a group of an SLO, or for all with nil; "" if nothing is known yet. It never waits.
func (r *Reasons) Of(id slo.ID, group slo.Group) string {
	key := reasonKey{id, group.Key(), group == nil}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	x, known := r.known[key]
	if now.Sub(x.at) < reasonAge {
		return x.text
	}
	if !known && len(r.known) == maxReasons {
		for k, old := range r.known {
			if now.Sub(old.at) > reasonAge {
				delete(r.known, k)
			}
		}
		if len(r.known) == maxReasons {
			return ""
		}
	}
	select {
	case r.asked <- key:
		x.group, x.at = slices.Clone(group), now
		r.known[key] = x
	default: // asked again with the next step
	}
	return x.text
}

// Run finds answers until ctx ends.
func (r *Reasons) Run(ctx context.Context) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-pause.C:
		}
		select {
		case <-ctx.Done():
			return nil
		case key := <-r.asked:
			r.find(ctx, key)
		}
		pause.Reset(reasonPause)
	}
}

func (r *Reasons) find(ctx context.Context, key reasonKey) {
	r.mu.Lock()
	group := r.known[key].group
	r.mu.Unlock()
	now := time.Now()
	text := ""
	found, err := r.log.Find(ctx, &EventQuery{SLO: key.slo, Group: group, From: now.Add(-reasonLast),
		To: now.Add(reasonLast), Compare: true})
	switch {
	case errors.Is(err, ErrNoSLO) || errors.Is(err, fold.ErrNotJudged) || ctx.Err() != nil:
	default:
		r.health.Note(err)
		if err == nil {
			text = r.log.explain(key.slo, found)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if x, ok := r.known[key]; ok && text != "" {
		x.text = text
		r.known[key] = x
	}
}

// explain is the sentence on a comparison; "" if the SLO is gone.
func (l *EventLog) explain(id slo.ID, found *EventAnswer) string {
	all := l.specs.InForce().Spec.SLOs
	i := slices.IndexFunc(all, func(s *slo.SLO) bool { return s.ID == id })
	if i < 0 || found.BadSum == 0 {
		return ""
	}
	return found.Text(all[i].Objective.Budget())
}

// Burn is the burn rate of the events that were compared.
func (a *EventAnswer) Burn(budget float64) float64 {
	if a.BadSum+a.GoodSum == 0 {
		return 0
	}
	return a.BadSum / (a.BadSum + a.GoodSum) / budget
}

// Text says what is different about the bad events of an SLO with that budget, as a share.
func (a *EventAnswer) Text(budget float64) string {
	if len(a.Differences) == 0 {
		return "No attribute explains it."
	}
	d := &a.Differences[0]
	return fmt.Sprintf("Without %s the burn rate would be %.3g instead of %.3g.", d.Name(), d.Without/budget,
		a.Burn(budget))
}
