package fold

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/sloengine/sloengine/ingest/binread"
	"github.com/sloengine/sloengine/slo"
)

// This file is the observation of indicators that a source counts, such as counters that are read from Prometheus. The
// engine may be up while nothing is read, and the counters of a time in which it was down can be read afterwards, so
// that such an indicator has the times that its source observed in place of the engine's up-time.

// maxTail is how long after the last reading a source counts as observing: until the next one. Nothing that happens
// meanwhile is counted yet, so that windows up to now are taken to end with the last reading.
const maxTail = 2 * time.Minute

// stream is what a source observed, in Unix nanoseconds.
type stream struct {
	spans []upSpan
	eras  []*era // of its indicators
}

// Observe says that a source read everything that happened from one time to another, in Unix nanoseconds. What it read
// of the time before an indicator began counts as backfilled. It changes nothing if no indicator has the source.
func (f *Fold) Observe(source string, from, to int64) {
	s := f.streams[source]
	if from = max(from, f.known); s == nil || from >= to {
		return
	}
	f.clock++
	for _, e := range s.eras {
		if from < e.since {
			e.add(from, to)
		}
	}
	if n := len(s.spans) - 1; n >= 0 && s.spans[n].from <= from && from <= s.spans[n].to {
		s.spans[n].to = max(s.spans[n].to, to) // it goes on
		return
	}
	s.spans = merged(append(s.spans, upSpan{from, to}))
	if over := len(s.spans) - maxBackfills; over > 0 {
		s.spans = slices.Delete(s.spans, 0, over)
	}
}

// ObservedUntil is the end of what a source observed last; zero if nothing was, or no indicator has the source.
func (f *Fold) ObservedUntil(source string) time.Time {
	if s := f.streams[source]; s != nil && len(s.spans) > 0 {
		return unix(s.spans[len(s.spans)-1].to)
	}
	return time.Time{}
}

// setStreams gives the indicators' eras the sources that the config says, and forgets sources that none has. An
// indicator that changes its source begins another era: what the source before observed is told span by span.
func (f *Fold) setStreams() {
	used := map[string]bool{}
	type key struct {
		era    *era
		source string
	}
	changed := map[key]*era{}
	for _, ind := range f.inds {
		source := ind.spec.Source
		if source != "" {
			if used[source] = true; f.streams[source] == nil {
				f.streams[source] = &stream{}
			}
		}
		if ind.era.source != source {
			k := key{ind.era, source}
			if changed[k] == nil {
				changed[k] = &era{since: f.rec, source: source, older: ind.era.older,
					spans: merged(append(slices.Clone(ind.era.spans), until(f.upOf(ind.era), ind.era.since, f.rec)...))}
			}
			ind.era = changed[k]
		}
	}
	for source := range f.streams {
		if !used[source] {
			delete(f.streams, source)
		}
	}
}

// until are spans between two times.
func until(spans []upSpan, from, to int64) (out []upSpan) {
	for _, s := range spans {
		if from, to := max(s.from, from), min(s.to, to); from < to {
			out = append(out, upSpan{from, to})
		}
	}
	return out
}

// upOf is when the indicators of an era were observed, from the time on since which they count.
func (f *Fold) upOf(e *era) []upSpan {
	if e.source == "" {
		return f.up.spans
	}
	if s := f.streams[e.source]; s != nil {
		return s.spans
	}
	return nil
}

// shares are the parts of spans in which the indicators of an era with a source were observed; nil for an era without.
func (f *Fold) shares(e *era, now time.Time, spans, extra []slo.Span) []float64 {
	if e.source == "" {
		return nil
	}
	up := until(f.upOf(e), e.since, nanos(now))
	if n := len(up) - 1; n >= 0 && nanos(now)-up[n].to <= int64(maxTail) {
		up[n].to = nanos(now)
	}
	up = merged(append(up, e.spans...))
	out := make([]float64, 0, len(spans)+len(extra))
	for _, list := range [2][]slo.Span{spans, extra} {
		for _, s := range list {
			from, to := nanos(s.From), nanos(s.To)
			seen := int64(0)
			for _, u := range until(up, from, to) {
				seen += u.to - u.from
			}
			if to <= from {
				out = append(out, 1)
				continue
			}
			out = append(out, float64(seen)/float64(to-from))
		}
	}
	return out
}

// partStreams is the part of a snapshot that says what sources observed. It is there if there are any.
const partStreams = "streams"

func (f *Fold) appendStreams(b []byte) []byte {
	b = append(b, snapshotFormat)
	b = binary.AppendUvarint(b, f.clock)
	b = binary.AppendUvarint(b, uint64(len(f.streams)))
	for _, source := range sortedKeys(f.streams) {
		b = appendSpans(binread.AppendText(b, source), f.streams[source].spans)
	}
	return b
}

// readStreams is the inverse of appendStreams.
func (x *restoring) readStreams(r *reader) error {
	x.streams = map[string]*stream{}
	r.Uint()
	for range r.Count(1) {
		source := r.Text()
		x.streams[source] = &stream{spans: r.spans()}
	}
	return r.done()
}
