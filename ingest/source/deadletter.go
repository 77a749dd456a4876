package source

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/deadletter"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/dlq"
)

// The reasons of dead letters of sources. Their class is the code of the error.
const (
	ReasonUnreadable = "unreadable" // the message as a whole
	ReasonRejected   = "rejected"   // one event
	ReasonOversized  = "oversized"
)

// maxRaw is how much of a message a dead letter holds. It leaves room for the rest of the entry in its JSON form.
const maxRaw = 512 << 10

// maxOversized is how much a dead letter holds of a message that is too large.
const maxOversized = 4 << 10

// maxHeaderBytes bounds the headers that a dead letter holds.
const maxHeaderBytes = 16 << 10

// deadLetterID is the ID of a dead letter. It follows from the place, so that a message which is read again after a
// crash gives a dead letter that the storage recognises.
func deadLetterID(p *dlq.Place, generation string) string {
	topic := generation
	if topic == "" {
		sum := xxh3.HashString128(p.Topic).Bytes()
		topic = hex.EncodeToString(sum[:])
	}
	name := p.Source
	if strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-'
	}) || len(name) > 64 {
		sum := xxh3.HashString128(name).Bytes()
		name = hex.EncodeToString(sum[:])
	}
	id := fmt.Sprintf("%s-%s-%s-%d-%d", dlq.Admission, name, topic, p.Partition, p.Offset)
	if p.Item >= 0 {
		id += "-" + strconv.Itoa(p.Item)
	}
	return id
}

// fail makes the dead letter of the message that is being added, or of an event in it.
func (b *Batch) fail(reason string, code event.Code, text string, item int, raw []byte, size int) *dlq.Entry {
	m := b.current
	p := &dlq.Place{
		Source: b.in.o.Name, Topic: m.Topic, Partition: m.Partition, Offset: m.Offset, Item: item, Bytes: size, Time: m.Time,
		Headers: b.in.keptHeaders(m),
	}
	now := b.in.o.Now()
	e := dlq.Entry{
		ID: deadLetterID(p, m.Generation), Origin: dlq.Admission, Reason: reason, Class: string(code), Error: text,
		First: now, Last: now, From: p,
	}
	// Redaction rules apply to attributes of events. This message has no attributes, so none of its content is stored.
	if r := b.in.o.Redact; r != nil && r.Active() {
		e.Error += " (the content is not kept, because redact rules cannot be applied to it)"
	} else {
		e.Raw = append([]byte{}, raw...)
	}
	b.dead = append(b.dead, e)
	return &b.dead[len(b.dead)-1]
}

func (b *Batch) oversized() {
	b.messages[len(b.messages)-1].refused = true
	v := b.current.Value
	b.fail(ReasonOversized, "", fmt.Sprintf("the message of %d bytes exceeds max_message, which is %d bytes", len(v),
		b.in.o.Settings.MaxMessage),
		-1, v[:min(len(v), maxOversized)], len(v))
}

// unreadable keeps a message that cannot be read as a whole.
func (b *Batch) unreadable(err error) {
	b.messages[len(b.messages)-1].refused = true
	v := b.current.Value
	var code event.Code
	text := err.Error()
	var broken *event.BodyError
	if errors.As(err, &broken) {
		if b.in.o.Redact != nil {
			b.in.o.Redact.BodyError(broken)
		}
		code, text = broken.Code, broken.Error()
	}
	b.fail(ReasonUnreadable, code, text, -1, v[:min(len(v), maxRaw)], len(v))
}

// rejected keeps the events of the last message that were refused, but for those that are too old for any window.
func (b *Batch) rejected(listed, first int) {
	text := b.current.Value
	if len(b.reader.raw) > 0 {
		text = nil
	}
	for i := listed; i < len(b.events.Errors); i++ {
		e := &b.events.Errors[i]
		if e.Code == event.CodeTimeTooOld {
			if b.backfill {
				b.in.counts.expired.Inc()
				continue
			}
			e.Detail = strings.Replace(e.Detail, "Send old events with ?backfill=true.",
				"Set backfill of the source to auto or always.", 1)
		}
		item := e.Index - first
		var raw []byte
		if text != nil {
			raw = text[e.From:e.To]
		} else {
			raw = b.reader.raw[min(item, len(b.reader.raw)-1)]
		}
		if b.in.o.Redact != nil {
			b.in.o.Redact.ItemError(e)
		}
		l := b.fail(ReasonRejected, e.Code, e.Detail, item, raw[:min(len(raw), maxRaw)], len(raw))
		if e.Code == event.CodeUnknownService || e.Code == event.CodeUnknownType {
			b.in.describe(l, raw)
		}
	}
	clear(b.events.Errors[listed:])
	b.events.Errors = b.events.Errors[:listed]
}

// describe puts the event that only the catalogue refuses into its dead letter, redacted.
func (in *Intake) describe(e *dlq.Entry, raw []byte) {
	e2 := *e
	e2.Raw = raw
	b := in.again(nil)
	if err := b.addAgain(&e2); err != nil || len(b.dead) > 0 || len(b.events.Events) != 1 {
		return // the raw form stays
	}
	b.close()
	if in.o.Redact != nil && in.o.Redact.Apply(&b.events) != nil {
		return
	}
	if _, err := b.view.Parse(b.events.Event(0)); err != nil {
		return
	}
	deadletter.Describe(e, &b.view)
	e.Raw = nil
	e.Error, _, _ = strings.Cut(e.Error, " (the content is not kept")
}

// own are the fields of a message besides its headers that the content of an event depends on, and the names under
// which a dead letter has them among its headers. No header of a broker begins with a colon.
func (m *Message) own() [3]ownField {
	return [...]ownField{{":id", &m.MessageID}, {":service", &m.Service}, {":type", &m.Type}}
}

type ownField struct {
	name  string
	value *string
}

// keptHeaders are the headers that the content of a message depends on.
func (in *Intake) keptHeaders(m *Message) map[string]string {
	var kept map[string]string
	left := maxHeaderBytes
	keep := func(name, value string) {
		if left -= len(name) + len(value); left < 0 {
			return
		}
		if kept == nil {
			kept = map[string]string{}
		}
		kept[name] = value
	}
	if media := contentType(m); media != "" {
		keep("content-type", media)
	}
	for _, f := range m.own() {
		if *f.value != "" {
			keep(f.name, *f.value)
		}
	}
	if m.Headers == nil {
		return kept
	}
	for _, name := range []string{"specversion", "id", "source", "type", "time"} {
		if value, ok := cloudHeader(m.Headers, name); ok {
			keep(cloudPrefixes[0]+name, string(value))
		}
	}
	if r := in.o.Redact; r == nil || !r.Active() {
		for _, h := range in.reading.headers {
			if value, ok := header(m.Headers, h.header); ok {
				keep(h.header, string(value))
			}
		}
	}
	return kept
}

// critical makes the dead letters of events that are over their limit and must not be lost.
func (b *Batch) critical(places []int32) {
	for _, i := range places {
		m, item := b.of(i)
		if _, err := b.view.Parse(b.events.Event(int(i))); err != nil {
			b.in.o.Logger.Error("failed to parse rate-limited event", "err", err)
			continue
		}
		p := &dlq.Place{
			Source: b.in.o.Name, Topic: m.topic, Partition: m.part, Offset: m.offset, Item: item,
			Time: time.Unix(0, m.time).UTC(),
		}
		now := b.in.o.Now()
		e := dlq.Entry{
			ID: deadLetterID(p, m.gen), Origin: dlq.Admission, Reason: dlq.ReasonRateLimited, Class: "overload",
			First: now, Last: now, From: p,
			Error: "exceeds rate limit " + b.tickets.List[i].RuleName(),
		}
		deadletter.Describe(&e, &b.view)
		p.Bytes = len(e.Event)
		b.dead = append(b.dead, e)
	}
}
