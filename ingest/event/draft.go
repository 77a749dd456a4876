package event

import (
	"time"

	"github.com/sloengine/sloengine/ingest/trace"
)

// Draft is an event that came in another form than JSON, such as a span. Its texts are valid UTF-8.
type Draft struct {
	ID            []byte // 1 to 256 bytes without control characters
	Service, Type []byte
	Outcome       Outcome
	Time          int64           // Unix nanoseconds
	Duration      int64           // nanoseconds, NoDuration if absent
	Weight        uint32          // 1 or more
	Count         uint32          // equal events that this one is; 0 is 1
	Durations     []DurationCount // of them, if they are measured and several

	// Own: the engine made the event, for a service and type of its own.
	Own bool

	// Once: the sender's position says that it counts once, so that its id may be forgotten.
	Once bool

	Trace trace.ID // which the event does not carry; zero: none

	// Attributes are sorted by name. Each name appears once, and ValidAttribute holds for it.
	Attributes []Attribute

	Problem Code   // why it cannot count; "" if it may
	Detail  string // of the problem, with advice
}

// maxAhead is how far ahead of the clock a draft may be, at most: the further, the sooner its id may be forgotten when
// the memory for ids is small.
const maxAhead = time.Minute

// Add judges a draft as the decoder judges JSON, between Begin and End, and adds it to the batch as an event or as an
// error, whose From and To are a place in Drafts. The batch keeps nothing of the draft. Its sender may hold a request
// back for as long as it likes, so that the event has an Earliest, unless it is Once. The
// code is that of the problem, "" if there is none.
func (d *Decoder) Add(e *Draft) Code {
	d.next()
	d.foreign = true
	f := &d.f
	f.outcome, f.weight, f.count = e.Outcome, max(e.Weight, 1), max(e.Count, 1)
	if f.durations = append(f.durations, e.Durations...); len(f.durations) > 0 {
		f.given |= fieldDurations
	}
	f.time, f.hasTime, f.duration = e.Time, true, e.Duration
	f.service, f.typ = e.Service, e.Type
	f.attrs = append(f.attrs, e.Attributes...)
	f.sameService = d.vouched.ok && string(e.Service) == string(d.vouched.service)
	f.sameType = d.vouched.ok && string(e.Type) == string(d.vouched.typ)
	if e.Problem != "" {
		d.fail(e.Problem, "%s", e.Detail)
	}
	f.id = e.ID
	if !f.sameService && !e.Own {
		d.checkName(CodeBadService, []byte("service"), e.Service)
	}
	if !f.sameType && !e.Own {
		d.checkName(CodeBadType, []byte("type"), e.Type)
	}
	if e.Duration != NoDuration && (e.Duration < 0 || e.Duration > int64(MaxDuration)) {
		d.fail(CodeBadDuration, "The duration must be between 0 and 366 days.")
	}
	for i := range f.attrs {
		if a := &f.attrs[i]; len(a.Value) > d.limits.MaxValueBytes {
			d.fail(CodeBadAttribute, "Attribute %s has %d bytes, but the maximum is %d. Shorten it.", quote(a.Name),
				len(a.Value), d.limits.MaxValueBytes)
		}
	}
	if len(f.attrs) > d.limits.MaxAttributes {
		d.fail(CodeTooManyAttributes, "An event can have at most %d attributes. Send fewer.", d.limits.MaxAttributes)
	}
	ahead := min(d.limits.MaxFuture, maxAhead)
	if f.time > d.now+int64(ahead) {
		d.fail(CodeTimeInFuture, "Time %s is more than %v ahead of the server's clock, which shows %s. Correct the sender's "+
			"clock.", d.shownTime(), ahead, showTime(d.now))
	}
	if d.check(); d.problem == "" {
		d.accept(0)
		b := d.batch
		item := &b.Events[len(b.Events)-1]
		if !e.Once {
			item.Earliest = f.time - int64(ahead)
			b.Timed = true
		}
		if e.Trace != (trace.ID{}) {
			if b.Traces == nil {
				b.Traces = new(trace.Batch)
			}
			b.Traces.Add(item.Key, e.Trace)
		}
		return ""
	}
	from := len(d.drafts)
	if !d.quiet {
		d.drafts = f.appendJSON(d.drafts)
	}
	d.reject(0, from, len(d.drafts))
	return d.problem
}

// Drafts is the JSON of the rejected drafts that are listed, until the next Begin.
func (d *Decoder) Drafts() []byte { return d.drafts }

func (f *fields) appendJSON(dst []byte) []byte {
	dst = f.head.appendJSON(dst)
	for i := range f.attrs {
		dst = appendJSONAttr(dst, i, f.attrs[i].Name, f.attrs[i].Value)
	}
	if len(f.attrs) > 0 {
		dst = append(dst, '}')
	}
	for i, p := range f.durations {
		dst = appendJSONPair(dst, i, int64(p.Duration), p.Count)
	}
	if len(f.durations) > 0 {
		dst = append(dst, ']')
	}
	return append(dst, '}')
}
