package engine

import (
	"context"
	"errors"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
)

// This file forgets services: their counts and their ids. The State drops the counts where it reaches the
// record. The committer is ahead of it and turns over the keys of the service with the first record behind it,
// so both happen at the same place of the log, also when the log is read again.

// ErrConfigChanged means that the counts to be forgotten were chosen under another configuration. Choose again.
var ErrConfigChanged = errors.New("the spec changed meanwhile; try again")

// Position is the number of the last record that the State applied. Within Do, f sees the effect of exactly that
// record.
//
// Outside of Do it is only a lower bound by the time that the caller looks at it.
func (e *Engine) Position() uint64 { return e.folded.Load() }

// Forget writes a record that drops counts, and returns when the State has applied it. basis is the Position at which
// the counts were chosen. If a configuration followed it, unused counts may be in use by now, and the error is
// ErrConfigChanged.
//
// An error of the wait for the fold says nothing about the record, which is durable by then.
func (e *Engine) Forget(ctx context.Context, f record.Forget, basis uint64) error {
	return e.onBasis(ctx, e.queue.request(record.TypeForget), f.Append(nil), basis)
}

// TakeOver writes a record on rebuilt counts, and returns when the State has applied it, or with the reason why it did
// not. config, if any, is a configuration that takes effect with it: both are durable, or neither is. basis is the
// Position at which it was looked for what is counted. If a configuration followed it, the error is ErrConfigChanged,
// and there is no record.
func (e *Engine) TakeOver(ctx context.Context, r record.Rebuilt, config []byte, basis uint64) error {
	q := e.queue.request(record.TypeRebuilt)
	q.config = config
	return e.onBasis(ctx, q, r.Append(nil), basis)
}

// onBasis writes a record unless a configuration followed its basis.
func (e *Engine) onBasis(ctx context.Context, r *request, payload []byte, basis uint64) error {
	r.payload, r.basis = payload, basis
	r.bytes = int64(len(r.payload)+len(r.config)) + requestOverhead
	result, err := e.wait(ctx, r)
	if err != nil {
		return err
	}
	return e.read.wait(ctx, result.Seq)
}

// rekey gives events of forgotten services the keys of their epoch. It computes them from the event, so that it may see
// a request more than once. If nothing was ever forgotten it costs nothing.
//
// The keys were computed by the decoder, which does not know the epochs. They are computed again here, where
// every earlier forget is known.
func (c *committer) rekey() {
	if !c.ids.AnyForgotten() {
		return
	}
	for _, r := range c.group {
		switch r.kind {
		case record.TypeEvents:
			for k := range r.places() {
				i := r.place(k)
				item := &r.batch.Events[i]
				if !item.HasKey {
					continue
				}
				if id, service, ok := event.Identity(r.batch.Event(i)); ok {
					item.Key = c.ids.Key(service, event.Key(service, id))
				}
			}
		case record.TypeReplay:
			for i := range r.replay {
				x := &r.replay[i]
				// else it is the dead letter's own key
				if id, service, ok := event.Identity(x.Event); ok && x.Key == event.Key(service, id) {
					x.Key = c.ids.Key(service, x.Key)
				}
			}
		}
	}
}

// forgetLast moves a forget request to the end of its group, since the other requests have the keys of the epochs
// before it.
func (c *committer) forgetLast() {
	for i, r := range c.group {
		if r.kind == record.TypeForget {
			copy(c.group[i:], c.group[i+1:])
			c.group[len(c.group)-1] = r
			return // a group has one at most
		}
	}
}

// admitOnBasis turns a request into a record, unless a configuration followed its basis.
//
// A configuration in the same group is written in front of a forget request, since forgetLast has moved it to the end.
func (c *committer) admitOnBasis(r *request, at int64) {
	stale := r.basis < c.configured
	for _, other := range c.group {
		stale = stale || other.kind == record.TypeConfig || other != r && other.config != nil
	}
	if stale {
		r.err = ErrConfigChanged
		return
	}
	if r.config != nil {
		c.add(r, at, record.TypeConfig, r.config)
	}
	c.add(r, at, r.kind, r.payload)
}

// noteWritten applies the effects of a durable record on later ones. It runs after the sync: a configuration or a
// new epoch that a failed write rolled back must have no effect.
func (c *committer) noteWritten(r *request) {
	switch {
	case r.wrote == 0:
	case r.kind == record.TypeConfig, r.config != nil:
		c.configured = r.result.Seq
	case r.kind == record.TypeForget:
		f, err := record.ParseForget(r.payload)
		if err != nil { // cannot happen: this engine made the record
			c.e.opt.Logger.Error("ids of forgotten services stay in the deduplication table", "err", err)
			return
		}
		c.ids.Forget(f.Services)
	}
}
