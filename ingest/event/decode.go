package event

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/zeebo/xxh3"
)

// Decoder turns bodies into batches. The zero value is ready. It keeps its
// working memory between calls and is not safe for concurrent use.
type Decoder struct {
	scanner
	f      fields
	limits SizeLimits
	opt    DecodeOptions
	batch  *Batch

	fieldShape, attrShape shape
	shapedFor             int  // SizeLimits.MaxNameBytes when the shapes were learned
	nullAttr              bool // an attribute of the event is null
	vouched               vouched
	refrain               refrain

	identity            []byte // input of the hash for a key
	id                  []byte // that AppendID or DefaultID made
	headers             *Envelope
	mapped              []byte // result of MapData
	drafts              []byte // JSON of rejected drafts
	extra               []Extra
	now, newest, oldest int64 // Unix nanoseconds
	missing             int64 // the time of an event without one
	base                int   // events of the batch before this body
	origin, from        int   // of the text in the body, and of the event in the text
	timeless            bool  // every time is valid, and the time may be absent
	weighted            bool  // a weight is good
	foreign             bool  // the event is a Draft
}

// Decode reads body into b, which it resets first. Problems of single events are added to b.Errors.
// The error, if any, is a *BodyError: the body cannot be read as a whole, and b is empty. b does
// not refer to body.
func (d *Decoder) Decode(format Format, body []byte, opt DecodeOptions, b *Batch) error {
	d.Begin(opt, b)
	err := d.read(format, body)
	d.End()
	if err != nil {
		b.Reset()
		return err
	}
	return nil
}

// read reads one body into the batch.
func (d *Decoder) read(format Format, body []byte) *BodyError {
	b := d.batch
	d.base, d.origin = b.Received, 0
	b.Buf = slices.Grow(b.Buf, len(body)/2) // about as long as its binary form
	switch format {
	case NDJSON:
		return d.lines(body)
	case JSON:
		return d.document(body, d.event, true, true)
	case CloudEvent:
		return d.document(body, d.cloudEvent, true, false)
	case CloudEventBatch:
		return d.document(body, d.cloudEvent, false, true)
	case cloudEventBinary:
		return d.binary(body)
	}
	return &BodyError{Code: CodeInvalidJSON, Reason: fmt.Sprintf("unknown format %d", format), Line: 1, Column: 1}
}

// bounds takes the limits over.
func (d *Decoder) bounds() {
	d.maxDepth = d.limits.MaxDepth
	if d.shapedFor != d.limits.MaxNameBytes {
		d.shapedFor = d.limits.MaxNameBytes
		d.fieldShape.forget()
		d.attrShape.forget()
		d.refrain = refrain{}
	}
}

// lines reads NDJSON: each line stands for itself.
func (d *Decoder) lines(body []byte) *BodyError {
	line := 0
	for from := 0; from < len(body); {
		to := bytes.IndexByte(body[from:], '\n')
		next := from + to + 1
		if to < 0 {
			next = len(body)
			to = len(body)
		} else {
			to += from
		}
		line++
		text := body[from:to]
		start := from
		from = next
		d.origin = start
		d.start(text)
		d.space()
		if d.i == len(text) {
			continue
		}
		if d.batch.Received-d.base == d.limits.MaxBatchEvents {
			return d.tooMany(body, start)
		}
		d.line(line)
	}
	if d.batch.Received == d.base {
		return bodyError(body, len(body), CodeEmptyBody, emptyBody)
	}
	return nil
}

const emptyBody = "the body is empty (send at least one event)"

// line reads the event of one line, at whose first character the scanner stands.
func (d *Decoder) line(line int) {
	switch {
	case len(d.b) > d.limits.MaxEventBytes:
		d.tooLong(len(d.b))
	case !d.value(d.event, "Each line must be one event object. Send an array as application/json."):
		d.syntaxProblem()
	default:
		if d.space(); d.i < len(d.b) {
			d.syntax(d.i, "expected the end of the line after the event")
			d.syntaxProblem()
		}
	}
	d.finish(line)
}

// syntaxProblem makes the syntax error the event's problem, in place of any other problem: a
// partial event cannot be judged.
func (d *Decoder) syntaxProblem() {
	d.problem, d.detail = d.syntaxBad, ""
	if !d.quiet {
		d.detail = fmt.Sprintf("Column %d: %s.", d.syntaxAt+1, d.syntaxReason())
	}
}

// document reads a body that is one JSON text.
func (d *Decoder) document(body []byte, event func(depth int) bool, object, array bool) *BodyError {
	d.start(body)
	d.space()
	var tooMany *BodyError
	switch c := d.peek(); {
	case d.i == len(body):
		return bodyError(body, d.i, CodeEmptyBody, emptyBody)
	case c == '{' && object:
		if !event(1) {
			return d.bodyError()
		}
		if len(body) > d.limits.MaxEventBytes {
			d.tooLong(len(body))
		}
		d.finish(0)
	case c == '[' && array:
		ok := d.array(1, func() bool {
			if d.batch.Received-d.base == d.limits.MaxBatchEvents {
				tooMany = d.tooMany(body, d.i)
				return false
			}
			from := d.i
			d.next()
			if !d.value(event, "Each element must be one event object.") {
				return false
			}
			if n := d.i - from; n > d.limits.MaxEventBytes {
				d.tooLong(n)
			}
			d.finish(0)
			return true
		})
		if tooMany != nil {
			return tooMany
		}
		if !ok {
			return d.bodyError()
		}
	case !d.skip(1):
		return d.bodyError()
	default:
		return bodyError(body, 0, CodeNotAnObject, "the body must be "+expected(object, array))
	}
	if d.space(); d.i < len(body) {
		d.syntax(
			d.i, "expected the end of the body after the event (send several events as an array or as application/x-ndjson)")
		return d.bodyError()
	}
	return nil
}

func expected(object, array bool) string {
	switch {
	case object && array:
		return "an event object or an array of them"
	case object:
		return "one CloudEvents object (send an array as application/cloudevents-batch+json)"
	}
	return "an array of CloudEvents (send a single one as application/cloudevents+json)"
}

// value reads an event if one is next. depth of its members counts from 1 in both NDJSON and
// arrays, so that both have the same limit.
func (d *Decoder) value(event func(depth int) bool, otherwise string) bool {
	if d.peek() == '{' {
		return event(1)
	}
	d.fail(CodeNotAnObject, "%s", otherwise)
	return d.skip(1)
}

// BOM is the byte order mark that some editors and exports put before UTF-8. It is passed over before a body, a line
// and a message.
const BOM = "\xef\xbb\xbf"

// start puts the scanner at the beginning of text.
func (d *Decoder) start(text []byte) {
	d.b, d.i = text, 0
	if len(text) >= len(BOM) && string(text[:len(BOM)]) == BOM {
		d.i = len(BOM)
	}
	d.next()
}

// next forgets the event before.
func (d *Decoder) next() {
	d.f.reset()
	d.scratch = d.scratch[:0]
	d.problem, d.detail = "", ""
	d.from, d.foreign = d.i, false
	d.refrain.next()
	d.quiet = d.batch != nil && len(d.batch.Errors) >= d.limits.MaxErrors
}

func (d *Decoder) bodyError() *BodyError {
	return bodyError(d.b, d.syntaxAt, d.syntaxBad, d.syntaxReason())
}

func (d *Decoder) tooMany(body []byte, offset int) *BodyError {
	return bodyError(body, offset, CodeBatchTooLarge,
		fmt.Sprintf("a batch can have at most %d events (send several smaller batches)", d.limits.MaxBatchEvents))
}

func (d *Decoder) tooLong(n int) {
	d.problem = CodeEventTooLarge
	d.detail = fmt.Sprintf("The event has %d bytes, but the maximum is %d. Shorten it.", n, d.limits.MaxEventBytes)
}

// finish judges the event that was read as a whole and adds it to the batch, as
// an event or as an error.
func (d *Decoder) finish(line int) {
	if len(d.extra) > 0 {
		d.addExtra()
	}
	if d.check(); d.problem == "" {
		d.accept(line)
		return
	}
	to := d.origin + d.i
	if line > 0 {
		to = d.origin + len(d.b) // the scanner may stand anywhere
	}
	d.reject(line, d.origin+d.from, to)
}

// reject adds the event as an error. Its text is in the body at from.
func (d *Decoder) reject(line, from, to int) {
	b := d.batch
	index := b.Received
	b.Received++
	b.Rejected++
	if d.quiet {
		b.leaveOut(index, d.problem)
		return
	}
	e := ItemError{Index: index, Line: line, Code: d.problem, Detail: d.detail, From: from, To: to}
	if utf8.Valid(d.f.id) {
		e.ID = string(d.f.id)
	}
	b.Errors = append(b.Errors, e)
}

// accept adds the event.
func (d *Decoder) accept(line int) {
	b := d.batch
	index := b.Received
	b.Received++
	f := &d.f
	item := Item{Start: len(b.Buf), Index: index, Line: line, Time: f.time}
	if f.id == nil && d.opt.DefaultID != nil {
		if d.id = d.opt.DefaultID(d.id[:0], index); ValidID(d.id) && utf8.Valid(d.id) {
			f.id = d.id
		}
	}
	if f.id != nil {
		item.HasKey = true
		if f.source != nil {
			f.id = d.sourcedID()
		}
		d.identity = appendIdentity(d.identity[:0], f.service, f.id)
		item.Key = xxh3.Hash128(d.identity)
	} else if d.opt.AssignID != nil {
		item.Assigned = d.opt.AssignID(index)
		f.id, f.assigned = append(d.scratch, item.Assigned...), true
	} else if d.opt.AppendID != nil {
		d.id = d.opt.AppendID(d.id[:0], index)
		f.id, f.assigned = d.id, true
	}
	b.Buf = f.appendBinary(b.Buf)
	item.End = len(b.Buf)
	b.Events = append(b.Events, item)
	b.MinTime = min(b.MinTime, f.time)
	b.MaxTime = max(b.MaxTime, f.time)
}

func (f *fields) appendBinary(dst []byte) []byte {
	start := len(dst)
	f.pairs = len(f.durations) > 0
	dst = f.head.appendBinary(dst)
	dst = binary.AppendUvarint(dst, uint64(len(f.attrs)))
	for i := range f.attrs {
		a := f.attribute(i)
		dst = appendText(dst, a.Name)
		dst = appendText(dst, a.Value)
	}
	if f.pairs {
		dst = binary.AppendUvarint(dst, uint64(len(f.durations)))
		for _, p := range f.durations {
			dst = binary.AppendUvarint(dst, uint64(p.Duration))
			dst = binary.AppendUvarint(dst, uint64(p.Count))
		}
	}
	return closeBinary(dst, start)
}

// check finds problems that involve several fields.
func (d *Decoder) check() {
	f := &d.f
	if d.problem != "" {
		return
	}
	switch {
	case len(f.service) == 0:
		d.fail(CodeMissingField, `Field "service" is required.`)
	case len(f.typ) == 0:
		d.fail(CodeMissingField, `Field "type" is required.`)
	case f.given&fieldDuration != 0 && f.given&fieldDurationMillis != 0:
		d.fail(CodeBadDuration, `Give either "duration_ms" or "duration", not both.`)
	case f.given&fieldDurations != 0:
		d.checkDurations()
	}
	if d.problem != "" || d.timeless {
		return
	}
	if !f.hasTime {
		f.time, f.hasTime = d.missing, true
	}
	switch {
	case f.time > d.newest:
		d.fail(
			CodeTimeInFuture, "Time %s is more than %v ahead of the server's clock, which shows %s. Correct the sender's clock.",
			d.shownTime(), d.limits.MaxFuture, showTime(d.now))
	case f.time < d.oldest:
		if d.opt.Backfill {
			d.fail(CodeTimeTooOld, "Time %s is more than %v ago, the maximum age in a backfill.",
				d.shownTime(), d.limits.MaxBackfill)
		} else if d.foreign {
			d.fail(CodeTimeTooOld, "Time %s is more than %v ago. Raise ingest.allowed_lateness to count it.", d.shownTime(),
				d.limits.AllowedLateness)
		} else {
			d.fail(CodeTimeTooOld, "Time %s is more than %v ago. Send old events with ?backfill=true.", d.shownTime(),
				d.limits.AllowedLateness)
		}
	}
	if d.problem != "" || f.sameService && f.sameType {
		return
	}
	if d.opt.AllowService != nil && !d.opt.AllowService(f.service) {
		d.fail(CodeServiceNotAllowed, "This token may not send for service %s.", quote(f.service))
	}
	if d.problem == "" && d.opt.Catalog != nil {
		d.checkCatalog()
	}
	if d.problem == "" {
		d.vouched.keep(f)
	}
}

func (d *Decoder) checkDurations() {
	f := &d.f
	var sum uint64
	for _, p := range f.durations {
		sum += uint64(p.Count)
	}
	switch {
	case f.duration >= 0:
		d.fail(CodeBadDurations, `Give either one duration or "durations", not both.`)
	case sum != uint64(f.count):
		d.fail(CodeBadDurations, "The counts of the durations add up to %d, but count is %d. Make them equal.", sum, f.count)
	}
}

func (d *Decoder) checkCatalog() {
	known := d.opt.Catalog.Lookup(d.f.service, d.f.typ)
	if known.Admitted() {
		return
	}
	code, what, text := CodeUnknownService, "service", d.f.service
	if known == UnknownType {
		code, what, text = CodeUnknownType, "type", d.f.typ
	}
	hint := "Add it to the spec"
	if s, ok := d.opt.Catalog.(Suggester); ok && !d.quiet {
		if near := s.Suggest(d.f.service, d.f.typ); near != "" {
			hint = fmt.Sprintf("Did you mean %q?", near)
		}
	}
	end := "."
	if hint[len(hint)-1] == '?' {
		end = ""
	}
	if d.batch != nil {
		d.batch.Refuse(d.f.service, d.f.typ, code, uint64(d.f.count))
	}
	d.fail(code, "The spec has no %s %s. %s%s", what, quote(text), hint, end)
}

// DecodeEvent reads one event object into e, reusing its slices. Its time may be
// any that int64 nanoseconds hold; without one, e.Time is zero. As from every
// sender, a weight is an unknown field. The error is an *EventError.
func (d *Decoder) DecodeEvent(data []byte, e *Event) error {
	return d.decodeEvent(data, false, e)
}

func (d *Decoder) decodeEvent(data []byte, weighted bool, e *Event) error {
	d.limits = SizeLimits{}.withDefaults()
	d.bounds()
	d.timeless, d.weighted = true, weighted
	d.vouched.forget()
	d.start(data)
	d.space()
	switch {
	case len(data) > d.limits.MaxEventBytes:
		d.tooLong(len(data))
	case !d.value(d.event, "An event must be a JSON object."):
		d.syntaxProblem()
	default:
		if d.space(); d.i < len(data) {
			d.syntax(d.i, "expected the end of the text after the event")
			d.syntaxProblem()
		}
		d.check()
		if f := &d.f; f.hasTime && (f.time == math.MaxInt64 || f.time == math.MinInt64) {
			d.fail(CodeBadTime, "The time must be between the years 1678 and 2261.")
		}
	}
	d.b = nil
	if d.problem != "" {
		return &EventError{Code: d.problem, Detail: d.detail}
	}
	d.f.copyTo(e)
	return nil
}

func (f *fields) copyTo(e *Event) {
	e.Reset()
	e.ID, e.Service, e.Type, e.Severity = string(f.id), string(f.service), string(f.typ), string(f.severity)
	e.Outcome, e.Count, e.Weight = f.outcome, f.count, f.weight
	if f.hasTime {
		e.Time = time.Unix(0, f.time).UTC()
	}
	if f.duration >= 0 {
		e.Duration, e.HasDuration = time.Duration(f.duration), true
	}
	for i := range f.attrs {
		a := f.attribute(i)
		e.Attributes = append(e.Attributes, Attr{string(a.Name), string(a.Value)})
	}
	e.Durations = append(e.Durations, f.durations...)
}
