package counting

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/retained"
	"github.com/sloengine/sloengine/reliability/wal"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/traces"
)

// EventLog finds events of an SLO in the log and its history, judged by the definition in force. It is safe for
// concurrent use, and reads for one caller at a time.
type EventLog struct {
	source *retained.Source
	specs  *Specs
	turn   chan struct{}
}

// NewEventLog reads from source.
func NewEventLog(source *retained.Source, specs *Specs) *EventLog {
	return &EventLog{source: source, specs: specs, turn: make(chan struct{}, 1)}
}

// EventQuery asks for events of an SLO by their time.
type EventQuery struct {
	SLO      slo.ID
	Group    slo.Group    // nil: all
	From, To time.Time    // From <= time < To
	Where    slo.Selector // of type, outcome, severity and attributes
	// Bad and Good are how many of each are wanted, at most MaxEvents: the latest ones.
	Bad, Good int
	Compare   bool // what is different about the bad ones; then all events are read, and not only the latest
}

// The bounds of a query.
const (
	MaxEvents     = 1000
	maxSearch     = 3 * time.Second
	maxSearchRead = 1 << 30 // bytes of records
)

// EventAnswer is what was found.
type EventAnswer struct {
	Bad, Good []FoundEvent // latest first
	Since     time.Time    // when the oldest record was received that is still there; zero: there is none
	Records   uint64       // that were read
	// Unread says what was not read of the records that may hold such events; "": all was read, or what is later than the
	// last event found.
	Unread string
	// With EventQuery.Compare: sums of all events, and the differences.
	BadSum, GoodSum float64
	Differences     []slo.Difference
}

// FoundEvent is an event of the log.
type FoundEvent struct {
	event.Event
	Received time.Time
	Bad      bool
	Group    slo.Group
	Trace    traces.ID // zero if it carries none
	seq      uint64
}

// ErrNoSLO means that the spec in force has no such SLO.
var ErrNoSLO = errors.New("no such SLO")

// Find answers a query. The error wraps ErrNoSLO or fold.ErrNotJudged, or is of the context or the disk.
func (l *EventLog) Find(ctx context.Context, q *EventQuery) (*EventAnswer, error) {
	cfg := l.specs.InForce().config
	if !slices.ContainsFunc(cfg.Indicators, func(i fold.Indicator) bool { return i.ID == string(q.SLO) }) {
		return nil, fmt.Errorf("%w: %s", ErrNoSLO, q.SLO)
	}
	judge, err := cfg.NewJudge(string(q.SLO))
	if err != nil {
		return nil, err
	}
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	s := &search{q: q, judge: judge, contrast: slo.NewContrast(judge.Names()), out: &EventAnswer{},
		found: [2]latest{newLatest(q.Good), newLatest(q.Bad)}, deadline: time.Now().Add(maxSearch)}
	for again := true; again; {
		s.again = false
		if err := s.run(ctx, l.source); err != nil {
			return nil, fmt.Errorf("read events: %w", err)
		}
		if again = s.again; again { // without what the service was before it was forgotten
			s.contrast, s.out.Records = slo.NewContrast(judge.Names()), 0
			s.found = [2]latest{newLatest(q.Good), newLatest(q.Bad)}
		}
	}
	s.out.Good, s.out.Bad = s.found[0].list, s.found[1].list
	if q.Compare {
		s.out.BadSum, s.out.GoodSum = s.contrast.Counts()
		s.out.Differences = s.contrast.Differences()
	}
	return s.out, nil
}

func later(a, b FoundEvent) int { return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(b.seq, a.seq)) }

// search is a query at work.
type search struct {
	q        *EventQuery
	judge    *fold.Judge
	contrast *slo.Contrast
	found    [2]latest // good and bad
	out      *EventAnswer
	deadline time.Time
	read     int64
	from, to int64

	floor uint64 // a forget record of the service: events before it count no more
	again bool   // events before floor were compared
	view  event.View
}

func (s *search) run(ctx context.Context, source *retained.Source) (err error) {
	s.from, s.to = s.q.From.UnixNano(), s.q.To.UnixNano()
	r, err := source.NewReader(retained.Query{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	var rec wal.Record
	if ok, err := r.Next(&rec); err != nil {
		return err
	} else if ok {
		s.out.Since = time.Unix(0, rec.Time).UTC()
	}
	query := retained.Query{EventFrom: s.from, EventTo: s.to, Service: s.judge.Service()}
	for c, err := range source.Chunks(query) {
		if err != nil {
			return err
		}
		if c.Next <= s.floor || c.EventTo < s.enough() {
			continue
		}
		if why := s.stop(); why != "" {
			s.out.Unread = fmt.Sprintf("%s, so records before number %d were not read", why, c.Next)
			break
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := r.Seek(retained.Query{From: c.First, To: c.Next}); err != nil {
			return err
		}
		if err := s.chunk(r, &rec); err != nil {
			return err
		}
		if s.again {
			return nil
		}
	}
	if gaps, more := r.Gaps(); len(gaps) > 0 && s.out.Unread == "" {
		s.out.Unread = fmt.Sprintf("%d ranges of records could not be read, first %d to %d: %s", len(gaps)+more,
			gaps[0].First, gaps[0].Next-1, gaps[0].Reason)
	}
	return nil
}

func (s *search) stop() string {
	switch {
	case time.Now().After(s.deadline):
		return fmt.Sprintf("the search took %s", slo.FormatDuration(maxSearch))
	case s.read > maxSearchRead:
		return fmt.Sprintf("%d MiB were read", s.read>>20)
	}
	return ""
}

// enough is the time before which an event would not be shown.
func (s *search) enough() int64 {
	if s.q.Compare {
		return math.MinInt64
	}
	at := int64(math.MaxInt64)
	for i := range s.found {
		if s.found[i].most > 0 {
			at = min(at, s.found[i].worst)
		}
	}
	return at
}

func (s *search) chunk(r *retained.Reader, rec *wal.Record) error {
	for {
		ok, err := r.Next(rec)
		if err != nil || !ok {
			s.found[0].trim()
			s.found[1].trim()
			return err
		}
		s.out.Records++
		s.read += int64(len(rec.Payload))
		switch rec.Type {
		case record.TypeForget:
			f, err := record.ParseForget(rec.Payload)
			if err == nil && slices.Contains(f.Services, s.judge.Service()) {
				s.forget(rec.Seq)
			}
		case record.TypeEvents, record.TypeReplay:
			if err := s.events(rec); err != nil {
				return fmt.Errorf("record %d: %w", rec.Seq, err)
			}
		}
	}
}

// forget drops what was found before a forget record.
func (s *search) forget(seq uint64) {
	if seq > s.floor {
		s.floor, s.again = seq, s.q.Compare
	}
	for i := range s.found {
		l := &s.found[i]
		l.list, l.worst = slices.DeleteFunc(l.list, func(e FoundEvent) bool { return e.seq < seq }), math.MinInt64
	}
}

func (s *search) events(rec *wal.Record) error {
	events, err := record.ParseEvents(rec.Payload)
	if err != nil {
		return err
	}
	for body := events.Body; len(body) > 0; {
		n, err := s.view.Parse(body)
		if err != nil {
			return err
		}
		body = body[n:]
		if v := &s.view; v.Time >= s.from && v.Time < s.to && rec.Seq >= s.floor {
			s.event(rec)
		}
	}
	return nil
}

func (s *search) event(rec *wal.Record) {
	v := &s.view
	good, bad, group := s.judge.Of(v)
	if good+bad == 0 || s.q.Group != nil && !slices.Equal(s.q.Group, group) ||
		len(s.q.Where) > 0 && !s.q.Where.Matches(label(v)) {
		return
	}
	weight := float64(v.Weight)
	for i, n := range [2]uint64{good, bad} {
		if n == 0 {
			continue
		}
		if s.q.Compare {
			s.contrast.Add(v.Time, i == 1, float64(n)/weight, weight, v.Attrs)
		}
		s.found[i].add(v, i == 1, group, rec)
	}
}

// latest are the latest events of one verdict.
type latest struct {
	list  []FoundEvent
	most  int
	worst int64 // events before it are not among them
}

func newLatest(most int) latest { return latest{most: most, worst: math.MinInt64} }

// trim sorts the list, and cuts it.
func (l *latest) trim() {
	slices.SortFunc(l.list, later)
	if l.most > 0 && len(l.list) >= l.most {
		clear(l.list[l.most:])
		l.list = l.list[:l.most]
		l.worst = l.list[l.most-1].Time.UnixNano()
	}
}

// add notes an event if it is one of the latest.
func (l *latest) add(v *event.View, isBad bool, group slo.Group, rec *wal.Record) {
	if l.most == 0 || v.Time < l.worst {
		return
	}
	e := FoundEvent{Received: time.Unix(0, rec.Time).UTC(), Bad: isBad, Group: slices.Clone(group), seq: rec.Seq}
	v.Event(&e.Event)
	if id, ok := traceOf(v); ok {
		e.Trace = traces.ID(id)
	}
	l.list = append(l.list, e)
	if len(l.list) >= 2*l.most+16 {
		l.trim()
	}
}

// label is the value of a field or an attribute that a selector names.
func label(v *event.View) func(name string) string {
	return func(name string) string {
		switch name {
		case "type":
			return string(v.Type)
		case "outcome":
			return v.Outcome.String()
		case "severity":
			return string(v.Severity)
		}
		value, _ := v.Attr(name)
		return string(value)
	}
}
