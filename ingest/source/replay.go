package source

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/deadletter"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/dlq"
)

// ever is longer ago than any event.
const ever = 130 * 365 * 24 * time.Hour

// placeHeaders are the headers that a dead letter holds.
type placeHeaders [][2]string

func (h placeHeaders) Len() int                  { return len(h) }
func (h placeHeaders) At(i int) (string, []byte) { return h[i][0], []byte(h[i][1]) }

// again returns a batch for the content of a dead letter. Any age is good.
func (in *Intake) again(catalog event.Catalog) *Batch {
	b := &Batch{in: in, now: in.o.Now(), backfill: true, open: true}
	limits := in.o.SizeLimits
	limits.MaxErrors, limits.MaxEventBytes = 1<<30, dlq.MaxEntryBytes
	limits.MaxBackfill = ever
	b.decoder.Begin(event.DecodeOptions{Now: b.now, Backfill: true, Catalog: catalog, SizeLimits: limits,
		AppendID: b.appendID, DefaultID: b.defaultID}, &b.events)
	return b
}

// addAgain decodes the content of a dead letter.
func (b *Batch) addAgain(e *dlq.Entry) error {
	p := e.From
	m := Message{Value: e.Raw, Time: inRange(p.Time), Topic: p.Topic, Partition: p.Partition, Offset: p.Offset}
	headers := placeHeaders{}
next:
	for name, value := range p.Headers {
		for _, f := range m.own() {
			if f.name == name {
				*f.value = value
				continue next
			}
		}
		headers = append(headers, [2]string{name, value})
	}
	if len(headers) > 0 {
		m.Headers = headers
	}
	at := m.Time
	if at.IsZero() {
		at = e.First
	}
	b.current, b.single = &m, p.Item >= 0
	b.messages = append(b.messages, message{offset: p.Offset, first: 0, part: p.Partition, topic: p.Topic})
	if p.Item > 0 && m.MessageID != "" {
		m.MessageID += "/" + strconv.Itoa(p.Item)
	}
	if p.Item > 0 { // so that the id of an event without one is that of its place
		b.place = append(appendPlace(b.place[:0], p.Topic, "", p.Partition, p.Offset), fmt.Sprintf("/%d", p.Item)...)
	}
	if err := b.decode(&m, at); err != nil {
		return err
	}
	if len(b.events.Errors) > 0 {
		return errors.New(b.events.Errors[0].Detail)
	}
	return nil
}

// Replayer replays dead letters of sources: their content is decoded again, with the mapping, the settings and the spec
// of now. It is a dlq.Target around that of the engine.
type Replayer struct {
	Engine interface {
		Replay(ctx context.Context, events []engine.Replay, delivered bool) []error
		ReplayTarget(ctx context.Context, entries []dlq.Entry) []error
	}
	Catalog func() event.Catalog
	// Of returns the intake of the source with that name, or nil.
	Of func(name string) *Intake
}

// Target replays dead letters of the origin admission or fold.
func (r *Replayer) Target(ctx context.Context, entries []dlq.Entry) []error {
	errs := make([]error, len(entries))
	var plain []dlq.Entry
	var places []int
	for i := range entries {
		e := &entries[i]
		switch {
		case e.From == nil || e.Origin != dlq.Admission || len(e.Event) > 0 && e.Reason == dlq.ReasonRateLimited:
		case len(e.Event) > 0:
			if errs[i] = r.known(e); errs[i] != nil {
				continue
			}
		default:
			errs[i] = r.replay(ctx, e)
			continue
		}
		plain, places = append(plain, *e), append(places, i)
	}
	if len(plain) > 0 {
		for i, err := range r.Engine.ReplayTarget(ctx, plain) {
			errs[places[i]] = err
		}
	}
	return errs
}

// known reports whether the spec now has the service and the type that it did not have.
func (r *Replayer) known(e *dlq.Entry) error {
	catalog := r.Catalog()
	if catalog == nil || catalog.Lookup([]byte(e.Service), []byte(e.Type)).Admitted() {
		return nil
	}
	return fmt.Errorf("the spec still has no service %q with the type %q (add it, then replay)", e.Service, e.Type)
}

// maxReplayed is how many events of one message are replayed with one record.
const maxReplayed = 1000

// replay decodes a dead letter again and counts its events, all or none of those that a record holds.
func (r *Replayer) replay(ctx context.Context, e *dlq.Entry) error {
	in := r.Of(e.From.Source)
	switch {
	case in == nil:
		return fmt.Errorf("source %q is not in engine.yaml any more (add it, then replay)", e.From.Source)
	case len(e.Raw) == 0:
		return deadletter.ErrNoEvent
	case e.From.Bytes > len(e.Raw):
		return fmt.Errorf(
			"only the first %d of %d bytes of the message were kept (take it from the topic, or discard the dead letter)",
			len(e.Raw), e.From.Bytes)
	}
	b := in.again(r.Catalog())
	if err := b.addAgain(e); err != nil {
		return fmt.Errorf("decode the message again: %w", err)
	}
	b.close()
	if in.o.Redact != nil {
		if err := in.o.Redact.Apply(&b.events); err != nil {
			return err
		}
	}
	replays := make([]engine.Replay, len(b.events.Events))
	for i := range replays {
		item := &b.events.Events[i]
		key := item.Key
		if !item.HasKey || e.Class == deadletter.ClassRefused {
			key = xxh3.HashString128(fmt.Sprintf("\x00replay\x00%s\x00%d\x00%d", e.ID, item.Index, refusals(e)))
		}
		replays[i] = engine.Replay{Key: key, ID: e.ID, Event: b.events.Event(i)}
	}
	for from := 0; from < len(replays); from += maxReplayed {
		for _, err := range r.Engine.Replay(ctx, replays[from:min(from+maxReplayed, len(replays))], false) {
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// refusals distinguishes the replays of a dead letter that the fold refused. All other replays have the same key, so
// that an interrupted one does not count twice.
func refusals(e *dlq.Entry) int {
	if e.Class == deadletter.ClassRefused {
		return e.Attempts
	}
	return 0
}
