package fold

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// Request asks for window sums.
//
// The spans of one request share work if they have the same right edge. It is read by the goroutine of the fold
// and must not change meanwhile.
type Request struct {
	Now time.Time
	// Spans are asked of every group. Edges are moved up to the next bucket
	// boundary: multiples of 10s within an hour of the watermark, of 1m within
	// three days, of 5m beyond. The right edge Now therefore takes in all that has
	// happened, and spans that meet share no event and miss none. For sliced
	// indicators a slice belongs to the span that holds its start.
	Spans []slo.Span

	// Extra are spans asked of the groups of one indicator only, by its ID: the
	// times that corrections take out of its windows.
	Extra map[string][]slo.Span

	// Unjudged leaves out Spans and Loss of sliced indicators, for a reader who judges by the counts of several folds.
	Unjudged bool

	// Minutes says that Extra has the minutes of the last hour, of which peaks are found. The fold does not read it. An
	// engine that is asked by a view needs it to ask for the same spans.
	Minutes bool
}

// Sums are the counts of every group over the asked spans, at one position of
// the log. They share no memory with the fold that it changes.
type Sums struct {
	Now       time.Time
	Watermark time.Time   // receive time of the last folded record
	Groups    []Group     // by indicator ID, then by group values, the "other" group last
	Traffic   []Traffic   // by service, type, outcome, severity, dimensions
	Durations []Durations // by service, type, outcome, dimensions

	// Up are the times in which the engine was up, oldest first, none touching,
	// within retention. A group's coverage is computed from them, from Since and
	// from Backfilled.
	Up []slo.Span

	Eras []Era // of all indicators, by ID, also of those without groups

	InFlight []slo.InFlight // of all indicators of completion, by ID

	Stats Stats
}

// Era is since when an indicator counts what it counts. Groups say the same of theirs.
type Era struct {
	Indicator  string // its ID
	Generation uint32
	Since      time.Time
	Backfilled []slo.Span
	Loss       *Loss
}

// Observed are the times within retention in which an indicator of the era was counted, or which were backfilled, of a
// fold that was up at some times: oldest first, none touching.
func (e *Era) Observed(up []slo.Span) []slo.Span {
	all := make([]upSpan, 0, len(up)+len(e.Backfilled))
	for _, s := range e.Backfilled {
		all = append(all, upSpan{nanos(s.From), min(nanos(s.To), nanos(e.Since))})
	}
	for _, s := range up {
		all = append(all, upSpan{max(nanos(s.From), nanos(e.Since)), nanos(s.To)})
	}
	return spanList(merged(all))
}

// Group is one indicator's group.
//
// Total and Old are cumulative, Spans are windows. The two are counted apart, and events that are too old for any
// bucket are in the former only.
type Group struct {
	Indicator *Indicator // of the current config; must not be changed
	Values    slo.Group

	Generation uint32    // grows when what is counted changes
	Since      time.Time // record time at which the generation began, or was last resumed
	LastEvent  time.Time // latest time of a valid event; zero if none

	// Backfilled is what was observed before Since: what backfills of the service
	// brought after it, and when the generation counted before it was parked; oldest
	// first, none touching, within retention; some spans may be empty. Groups that share their Since share the list, which
	// must not be changed.
	Backfilled []slo.Span
	Total      []uint64   // per bin, since Since, without Old; for counters, never falls while it counts
	Old        []uint64   // per bin, since Since: backfills and late replays; nil if none, and for slices
	Spans      [][]uint64 // per asked span, per bin; the Extra spans of the indicator follow

	// Excess is, per span of Spans, what weights above 1 add to the sum of the
	// events' squared weights, as slo.Effective wants it: each counted event of
	// weight w adds w*w - w. It is nil if there was no such weight, and for slices.
	Excess []uint64

	// Moved is what alert conditions count at another time than windows do, for Received; nil if nothing.
	Moved []Shift

	// Loss is what limits dropped of the indicator; nil if nothing in the asked
	// spans. The groups of an indicator share it.
	Loss *Loss

	// Observed is set in sums of several folds, and of an indicator that a source observes: the share of each span in
	// Spans, in [0,1], that was observed. It replaces what Up, Since and Backfilled say. Groups that observed the same
	// share it.
	Observed []float64
	Live     []float64 // the same without what was backfilled, if something was; else nil

	// Understated says, of sums of several folds, that one of them counted events of this group in its other group.
	Understated bool
}

// Loss is how many of the events offered to an indicator were dropped. Nobody
// knows the group of those.
type Loss struct {
	// Both are per span of Request.Spans. Offered are the dropped ones and the
	// valid ones of all groups. Of slices only those that are closed and judged count.
	Dropped, Offered []uint64
}

// Kept is the share, in [0,1], of the events offered in a span of Request.Spans
// that was counted. It is 1 for a nil loss.
func (l *Loss) Kept(span int) float64 {
	if l == nil || l.Dropped[span] == 0 {
		return 1
	}
	return 1 - float64(l.Dropped[span])/float64(l.Offered[span])
}

// Traffic is the cumulative number of events by service, type, outcome and so on,
// without backfills and late replays.
type Traffic struct {
	Service, Type, Outcome, Severity string
	Dimensions                       []string // values, in the order of Service.Dimensions
	Count                            uint64
	LastEvent                        time.Time
}

// Durations is the cumulative duration histogram of one service, type, outcome and
// so on, without backfills and late replays.
type Durations struct {
	Service, Type, Outcome string
	Dimensions             []string        // values, in the order of Service.Dimensions
	Buckets                []time.Duration // upper bounds; shared by all of a service, must not be changed
	Counts                 []uint64        // per bucket, not cumulative over buckets; one more for +Inf
	Sum                    time.Duration   // of all durations times their counts; stays at the longest Duration, 292 years
	SumSeconds             float64         // the same without that bound
}

// Stats are the fold's own figures, cumulative since the log began unless noted.
type Stats struct {
	Records, Events uint64
	Late            uint64            // events received more than a minute after their time, without backfills
	TooOld          uint64            // events older than the retention of every indicator: counted in no window
	Unmeasured      map[string]uint64 // indicator ID: matching events without a duration
	Refused         uint64
	Replayed        uint64 // events that were applied as replays
	// events that were no new traffic: backfills, and replays more than a minute after their time
	Backfilled uint64
	Dropped    map[string]uint64 // events that limits dropped, by reason; few reasons
	Groups     int               // now
	Full       []Full            // indicators that had no group for some value and have none now, by ID
	Evicted    uint64            // groups evicted to make room
	// indicators of completion that lost a start event and have no room for another one now, by ID
	Crowded    []Crowded
	Untracked  uint64 // start events of work that there was no room for, of the generations that count
	PlanHits   uint64 // since the process began, as is PlanMisses
	PlanMisses uint64
	Bytes      int64 // memory of the buckets, now

	Parked      int   // parked generations, now
	ParkedBytes int64 // their memory
}

// What follows gives the raw counts of slices to whoever adds up several folds. The threshold of a slice applies to
// what all folds counted in it together, so judgements cannot be added, and counts must travel.

// RawRequest asks for the slices that changed.
type RawRequest struct {
	Since uint64    // RawSlices.Clock of an earlier answer; 0 asks for all slices
	From  RawCursor // RawSlices.Next of the answer before; zero for the first
	Bytes int       // most bytes of counts in the answer, at least one slice
}

// RawCursor is a place in the slices of all stores. The zero value is their start.
type RawCursor struct {
	Store int   // index into RawSlices.Stores
	Slice int64 // number of a slice
}

// RawSlices are raw counts of slices at one position of the log. Everything in it is a copy.
type RawSlices struct {
	Clock  uint64 // what Since is the next time, once Next has been followed to its end
	Config uint64 // differs between configurations: what an earlier one counted is to be forgotten
	Stores []RawStore
	More   bool      // the answer was cut at Bytes
	Next   RawCursor // where it was cut
}

// RawStore are the slices of one length and retention.
type RawStore struct {
	Per, Keep   time.Duration
	First, Next int64 // slices [First, Next) are kept and closed; slices are numbered from the Unix epoch
	Columns     []RawColumn
	Blocks      []RawBlock // by number; open slices are among them
}

// RawColumn says whose counts a column holds.
type RawColumn struct {
	At        uint32
	Indicator string
	Values    slo.Group
	From      int64 // Unix nanoseconds from which on the group exists, as empty slices count
	Dropped   bool  // events that limits dropped; it has no values
}

// RawBlock are the counts of one slice, of all groups that have some. It replaces what an earlier answer gave.
type RawBlock struct {
	Number int64
	Data   []byte // for each column, rising: the difference to the one before, good and bad, as uvarints
}

// Raw answers a request for raw counts of slices. It changes nothing, and costs the number of slices that are kept plus
// that of the counts in those that changed.
func (f *Fold) Raw(r RawRequest) RawSlices {
	out := RawSlices{Clock: f.clock, Config: f.cfgVersion}
	for _, s := range f.slices {
		out.Stores = append(out.Stores, s.rawStore())
	}
	left := max(1, r.Bytes)
	for i := min(max(0, r.From.Store), len(f.slices)); i < len(f.slices); i++ {
		s, store := f.slices[i], &out.Stores[i]
		at := int64(0)
		if i == r.From.Store {
			at = max(0, r.From.Slice-s.first)
		}
		for ; at < int64(len(s.blocks)); at++ {
			b := &s.blocks[at]
			if b.ver <= r.Since || r.Since == 0 && b.cells == nil {
				continue
			}
			if left <= 0 {
				out.More, out.Next = true, RawCursor{i, s.first + at}
				return out
			}
			data := appendRaw(nil, b)
			left -= len(data) + 8
			store.Blocks = append(store.Blocks, RawBlock{s.first + at, data})
		}
	}
	return out
}

// rawStore is a store without its counts.
func (s *sliceStore) rawStore() RawStore {
	out := RawStore{Per: time.Duration(s.per), Keep: time.Duration(s.keep), First: s.first, Next: s.next}
	for _, ind := range s.inds {
		for _, g := range ind.all() {
			out.Columns = append(out.Columns, RawColumn{
				At: g.col / sliceColumns, Indicator: ind.spec.ID, Values: slices.Clone(g.values), From: g.from,
				Dropped: g == ind.dropped,
			})
		}
	}
	slices.SortFunc(out.Columns, func(a, b RawColumn) int { return cmp.Compare(a.At, b.At) })
	return out
}

// appendRaw encodes the counts of a slice as RawBlock.Data says.
func appendRaw(out []byte, b *block[uint16]) []byte {
	last := uint32(0)
	for c := uint32(0); int(c) < len(b.cells); c += sliceColumns {
		good, bad := b.at(c), b.at(c+1)
		if good == 0 && bad == 0 {
			continue
		}
		at := c / sliceColumns
		out = binary.AppendUvarint(out, uint64(at-last))
		out = binary.AppendUvarint(out, good)
		out = binary.AppendUvarint(out, bad)
		last = at
	}
	return out
}

// readRaw is the inverse of appendRaw. It reports false for data that appendRaw would not write.
func readRaw(data []byte, each func(at uint32, good, bad uint64)) bool {
	r := newReader(data)
	at := uint64(0)
	for len(r.Rest) > 0 {
		at += r.Uint()
		good, bad := r.Uint(), r.Uint()
		if r.Bad() || at > maxColumns {
			return false
		}
		each(uint32(at), good, bad)
	}
	return true
}

// ConfigVersion is RawSlices.Config of the configuration in force.
func (f *Fold) ConfigVersion() uint64 { return f.cfgVersion }

// shares are the parts of spans in which a group of an indicator with a source was observed; nil for one without. seen
// are those of the indicator's groups before.
func (f *Fold) shares(ind *indicator, g *group, now time.Time, spans, extra []slo.Span,
	seen map[*stream][]float64) []float64 {
	e := ind.era
	if e.source == "" {
		return nil
	}
	of := f.groupStream(ind, g)
	if out := seen[of]; out != nil {
		return out
	}
	out := f.sharesOf(e, f.upOfGroup(ind, g), now, spans, extra)
	seen[of] = out
	return out
}

func (f *Fold) sharesOf(e *era, up []upSpan, now time.Time, spans, extra []slo.Span) []float64 {
	up = until(up, e.since, nanos(now))
	if n := len(up) - 1; n >= 0 && nanos(now)-up[n].to <= int64(maxTail) {
		up[n].to = nanos(now)
	}
	up = merged(append(up, e.earlier()...))
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
