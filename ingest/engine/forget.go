package engine

import (
	"context"
	"errors"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
)

// ErrConfigChanged means that what was to be forgotten was chosen under another
// configuration. Choose again.
var ErrConfigChanged = errors.New("the spec changed meanwhile; try again")

// Position is the number of the last record that the State took. Within Do it is
// the one that f sees the effect of.
func (e *Engine) Position() uint64 { return e.folded.Load() }

// Forget writes a record that drops counts and returns when the State took it.
// basis is the Position at which they were chosen: if a configuration came after it,
// what was not in use may be in use by now, and the error is ErrConfigChanged.
func (e *Engine) Forget(ctx context.Context, f record.Forget, basis uint64) error {
	r := e.queue.request(record.TypeForget)
	r.payload, r.basis = f.Append(nil), basis
	r.bytes = int64(len(r.payload)) + requestOverhead
	result, err := e.wait(ctx, r)
	if err != nil {
		return err
	}
	return e.read.wait(ctx, result.Seq)
}

// rekey gives the events of services that were forgotten the keys of their epoch. It
// may see a request more than once. Where nothing was ever forgotten it costs nothing.
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
				if id, service, ok := event.Identity(x.Event); ok && x.Key == event.Key(service, id) { // else it is the letter's
					x.Key = c.ids.Key(service, x.Key)
				}
			}
		}
	}
}

// forgetLast moves a request to forget to the end of its group: those before it have
// the keys of the epochs before it.
func (c *committer) forgetLast() {
	for i, r := range c.group {
		if r.kind == record.TypeForget {
			copy(c.group[i:], c.group[i+1:])
			c.group[len(c.group)-1] = r
			return // the queue gives one at a time
		}
	}
}

// admitForget turns a request to forget into a record, unless a configuration came
// after its basis.
func (c *committer) admitForget(r *request, at int64) {
	stale := r.basis < c.configured
	for _, other := range c.group {
		stale = stale || other.kind == record.TypeConfig
	}
	if stale {
		r.err = ErrConfigChanged
		return
	}
	c.add(r, at, r.kind, r.payload)
}

// noteWritten takes up what records that are now durable mean for those to come.
func (c *committer) noteWritten(r *request) {
	switch {
	case r.wrote == 0:
	case r.kind == record.TypeConfig:
		c.configured = r.result.Seq
	case r.kind == record.TypeForget:
		f, err := record.ParseForget(r.payload)
		if err != nil { // it was made here
			c.e.opt.Logger.Error("ids of forgotten services stay known", "err", err)
			return
		}
		c.ids.Forget(f.Services)
	}
}
