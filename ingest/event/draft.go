package event

import "time"

// Draft is an event that came in another form than JSON, such as a span. Its texts are valid UTF-8.
type Draft struct {
	ID            []byte // 1 to 256 bytes without control characters
	Service, Type []byte
	Outcome       Outcome
	Time          int64  // Unix nanoseconds
	Duration      int64  // nanoseconds, NoDuration if absent
	Weight        uint32 // 1 or more

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
// back for as long as it likes, so that the event has an Earliest.
func (d *Decoder) Add(e *Draft) {
	d.next()
	d.foreign = true
	f := &d.f
	f.outcome, f.weight = e.Outcome, max(e.Weight, 1)
	f.time, f.hasTime, f.duration = e.Time, true, e.Duration
	f.service, f.typ = e.Service, e.Type
	f.attrs = append(f.attrs, e.Attributes...)
	f.sameService = d.vouched.ok && string(e.Service) == string(d.vouched.service)
	f.sameType = d.vouched.ok && string(e.Type) == string(d.vouched.typ)
	if e.Problem != "" {
		d.fail(e.Problem, "%s", e.Detail)
	}
	f.id = e.ID
	if !f.sameService {
		d.checkName(CodeBadService, []byte("service"), e.Service)
	}
	if !f.sameType {
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
		b.Events[len(b.Events)-1].Earliest = f.time - int64(ahead)
		return
	}
	from := len(d.drafts)
	if !d.quiet {
		d.drafts = f.appendJSON(d.drafts)
	}
	d.reject(0, from, len(d.drafts))
}

// Drafts is the JSON of the rejected drafts that are listed, until the next Begin.
func (d *Decoder) Drafts() []byte { return d.drafts }

// appendJSON appends an event without durations of its own.
func (f *fields) appendJSON(dst []byte) []byte {
	dst = f.head.appendJSON(dst)
	for i := range f.attrs {
		dst = appendJSONAttr(dst, i, f.attrs[i].Name, f.attrs[i].Value)
	}
	if len(f.attrs) > 0 {
		dst = append(dst, '}')
	}
	return append(dst, '}')
}
