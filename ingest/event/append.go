package event

import (
	"math"
	"time"
	"unicode/utf8"
)

// Extra is an attribute that comes with a body, such as a header. An event that has an attribute
// of that name keeps its own.
type Extra struct {
	Name  string // valid as an attribute's name: see ValidAttribute
	Value []byte
}

// ValidAttribute reports whether an attribute may have that name.
func ValidAttribute(name string) bool {
	return name != "" && isAttrName([]byte(name)) && len(name) <= SizeLimits{}.withDefaults().MaxNameBytes &&
		!isReserved([]byte(name))
}

// Begin starts a batch that Append adds bodies to. It resets b.
func (d *Decoder) Begin(opt DecodeOptions, b *Batch) {
	b.Reset()
	b.Backfill, b.Covers = opt.Backfill, opt.Covers
	b.MinTime, b.MaxTime = math.MaxInt64, math.MinInt64
	d.opt, d.batch = opt, b
	d.limits = opt.SizeLimits.withDefaults()
	d.bounds()
	lateness := d.limits.AllowedLateness
	if opt.Backfill {
		lateness = d.limits.MaxBackfill
	}
	d.timeless, d.weighted = false, opt.AllowWeight
	d.now = opt.Now.UnixNano()
	d.missing, d.extra, d.drafts = d.now, nil, d.drafts[:0]
	d.newest = opt.Now.Add(d.limits.MaxFuture).UnixNano()
	d.oldest = opt.Now.Add(-lateness).UnixNano()
	d.vouched.forget()
}

// Append reads one more body into the batch. Events without a time have the given one, and the
// extra attributes unless they have their own. After an error, which is a *BodyError, the batch
// is as it was. SizeLimits.MaxBatchEvents bounds the body, SizeLimits.MaxErrors the batch.
//
// The catalogue and the present are those of Begin, so a batch should not stay open for long.
func (d *Decoder) Append(format Format, body []byte, at time.Time, extra []Extra) error {
	b := d.batch
	before := b.Mark()
	d.missing, d.extra = at.UnixNano(), extra
	err := d.read(format, body)
	d.b, d.extra = nil, nil
	if err != nil {
		b.Truncate(before)
		return err
	}
	return nil
}

// Mark is how much a batch holds.
type Mark struct {
	received, rejected, events, bytes, errors int
	unlisted                                  int
	lastUnlisted                              Run // which grows
	truncated                                 bool
	minTime, maxTime                          int64
}

// Mark notes how much a batch holds while bodies are appended to it.
func (b *Batch) Mark() Mark {
	m := Mark{b.Received, b.Rejected, len(b.Events), len(b.Buf), len(b.Errors), len(b.Unlisted), Run{},
		b.ErrorsTruncated, b.MinTime, b.MaxTime}
	if m.unlisted > 0 {
		m.lastUnlisted = b.Unlisted[m.unlisted-1]
	}
	return m
}

// Truncate removes all events appended since Mark.
func (b *Batch) Truncate(m Mark) {
	b.Received, b.Rejected, b.ErrorsTruncated = m.received, m.rejected, m.truncated
	b.MinTime, b.MaxTime = m.minTime, m.maxTime
	clear(b.Errors[m.errors:])
	b.Events, b.Buf, b.Errors = b.Events[:m.events], b.Buf[:m.bytes], b.Errors[:m.errors]
	if b.Unlisted = b.Unlisted[:m.unlisted]; m.unlisted > 0 {
		b.Unlisted[m.unlisted-1] = m.lastUnlisted
	}
}

// End completes the batch, and releases the arguments of Begin.
func (d *Decoder) End() {
	if b := d.batch; len(b.Events) == 0 {
		b.MinTime, b.MaxTime = 0, 0
	}
	d.b, d.batch, d.opt = nil, nil, DecodeOptions{} // do not keep the caller's things alive
	if cap(d.mapped) > maxKeptMapped {
		d.mapped = nil
	}
}

// addExtra gives the event the extra attributes that it does not have itself, in the order of names.
func (d *Decoder) addExtra() {
	f := &d.f
	if d.problem != "" {
		return
	}
	if f.order != nil {
		sorted := make([]Attribute, len(f.attrs))
		for i := range sorted {
			sorted[i] = *f.attribute(i)
		}
		f.attrs, f.order = append(f.attrs[:0], sorted...), nil
	}
	own := len(f.attrs)
next:
	for _, x := range d.extra {
		for i := range own {
			if string(f.attrs[i].Name) == x.Name {
				continue next
			}
		}
		switch {
		case len(x.Value) > d.limits.MaxValueBytes:
			d.fail(CodeBadAttribute, "Attribute %s, which comes from a header, has %d bytes, but the maximum is %d.",
				quote([]byte(x.Name)), len(x.Value), d.limits.MaxValueBytes)
		case !utf8.Valid(x.Value):
			d.fail(CodeInvalidUTF8, "Attribute %s, which comes from a header, is not valid UTF-8.", quote([]byte(x.Name)))
		case len(f.attrs) >= d.limits.MaxAttributes:
			d.fail(CodeTooManyAttributes, "An event can have at most %d attributes, those from headers included.",
				d.limits.MaxAttributes)
		default:
			f.attrs = append(f.attrs, Attribute{Name: []byte(x.Name), Value: x.Value})
		}
	}
	if len(f.attrs) > own {
		d.sortAttributes()
	}
}
