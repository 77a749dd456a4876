package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/sloengine/sloengine/ingest/event"
)

// Forget is what a record of forgotten counts says. The State drops them where it
// comes to the record, and the committer, which is ahead of it, lets go of the ids of
// the services at the same place of the log.
type Forget struct {
	// Generations are numbers that mean something to the State alone.
	Generations []uint64
	// Services are those of which nothing is counted any more. The record begins an
	// epoch of theirs: an id that was known before it is not known after it.
	Services []string
}

func (f *Forget) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(f.Generations)))
	for _, n := range f.Generations {
		dst = binary.AppendUvarint(dst, n)
	}
	dst = binary.AppendUvarint(dst, uint64(len(f.Services)))
	for _, s := range f.Services {
		dst = binary.AppendUvarint(dst, uint64(len(s)))
		dst = append(dst, s...)
	}
	return dst
}

// ParseForget reads the payload of a record of forgotten counts.
func ParseForget(payload []byte) (Forget, error) {
	r := manifestReader{b: payload}
	var f Forget
	for range r.count(1) {
		f.Generations = append(f.Generations, r.uint())
	}
	for range r.count(1) {
		f.Services = append(f.Services, r.text())
	}
	if r.bad || len(r.b) > 0 {
		return Forget{}, fmt.Errorf("record of forgotten counts: broken in %d bytes", len(payload))
	}
	return f, nil
}

// ErrConfigChanged means that what was to be forgotten was chosen under another
// configuration. Choose again.
var ErrConfigChanged = errors.New("the spec changed meanwhile; try again")

// Position is the number of the last record that the State took. Within Do it is
// the one that f sees the effect of.
func (e *Engine) Position() uint64 { return e.folded.Load() }

// Forget writes a record that drops counts and returns when the State took it.
// basis is the Position at which they were chosen: if a configuration came after it,
// what was not in use may be in use by now, and the error is ErrConfigChanged.
func (e *Engine) Forget(ctx context.Context, f Forget, basis uint64) error {
	r := e.queue.request(RecordForget)
	r.payload, r.basis = f.append(nil), basis
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
		case RecordEvents:
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
		case RecordReplay:
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
		if r.kind == RecordForget {
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
		stale = stale || other.kind == RecordConfig
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
	case r.kind == RecordConfig:
		c.configured = r.result.Seq
	case r.kind == RecordForget:
		f, err := ParseForget(r.payload)
		if err != nil { // it was made here
			c.e.opt.Logger.Error("ids of forgotten services stay known", "err", err)
			return
		}
		c.ids.Forget(f.Services)
	}
}
