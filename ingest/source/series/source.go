package series

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/counter"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/source"
)

// Settings say how often a Prometheus is asked.
type Settings struct {
	Interval time.Duration `yaml:"interval" above:"0"`
	// Scrape is the longest time between two scrapes. After a longer gap, what a counter added counts in its middle.
	Scrape time.Duration `yaml:"scrape_interval" above:"0"`
	// History is how far back an SLO is read that was never read before. No more than its window is kept.
	History time.Duration `yaml:"history"`
}

// Defaults are the settings that are not set.
func Defaults() Settings { return Settings{Interval: 30 * time.Second, Scrape: time.Minute} }

// Engine stores events with the samples that they come from: *engine.Engine.
type Engine interface {
	source.Engine
	CatchUp(ctx context.Context) error
}

// Options of a Source. All are required.
type Options struct {
	Settings
	URL    string // of the Prometheus, without /api
	Client *http.Client
	Units  func() []Unit // asked before each reading

	Engine   Engine
	Counters *counter.Table
	// Until is the end of what was observed last of a stream; zero: nothing was.
	Until func(ctx context.Context, stream string) (time.Time, error)

	Intake     *source.Intake // counts samples as messages, and lists failures
	SizeLimits event.SizeLimits
	Longest    func() time.Duration // window of an SLO
}

// Source reads from one Prometheus.
type Source struct {
	o       Options
	client  client
	plans   map[string]*plan // by stream
	batch   *counter.Batch
	decoder event.Decoder
	events  event.Batch
	hash    xxh3.Hasher
	sums    map[cell]*sum
	id      uint64
	cut     uint64 // of part beyond total, by when both were scraped
	old     bool   // what is read is history
	left    string // why a part of what was read is not counted; "": all is
}

// cell is where events of one unit are counted.
type cell struct {
	slo   int
	at    int64 // Unix nanoseconds, a multiple of step
	group string
}

type sum struct {
	values      []string
	total, part uint64
}

const (
	// step is the resolution in which events are counted, that of the finest windows, and oldStep that of history.
	step, oldStep = int64(10 * time.Second), int64(5 * time.Minute)
	// slice is the longest time that is read at once, and oldSlice that of history.
	slice, oldSlice = 10 * time.Minute, time.Hour
	// scrapeDelay is how old samples are that are read: those of a scrape appear when it ends.
	scrapeDelay = 2 * time.Second
	// maxBatchBytes bounds what one reading writes: it must fit one record.
	maxBatchBytes = 4 << 20
)

// New makes a Source.
func New(o Options) *Source {
	return &Source{o: o, client: client{url: strings.TrimSuffix(o.URL, "/"), http: o.Client}, plans: map[string]*plan{},
		batch: counter.NewBatch(o.Counters), sums: map[cell]*sum{}}
}

// Run reads until ctx ends.
func (s *Source) Run(ctx context.Context) error {
	tick := time.NewTicker(s.o.Interval)
	defer tick.Stop()
	for {
		s.round(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// round reads all units up to now.
func (s *Source) round(ctx context.Context) {
	failed := map[source.Kind]bool{}
	units := s.o.Units()
	for stream, p := range s.plans { // of units that the spec has no more
		if !slices.ContainsFunc(units, func(u Unit) bool { return u.Stream == stream }) {
			s.o.Intake.Works(source.TroubleTopic, p.pair())
			delete(s.plans, stream)
		}
	}
	for _, u := range units {
		p := s.plans[u.Stream]
		if p == nil || !slices.EqualFunc(p.SLOs, u.SLOs, func(a, b SLO) bool {
			return a.Service == b.Service && a.Type == b.Type && slices.Equal(a.GroupBy, b.GroupBy) &&
				slices.Equal(a.Attributes, b.Attributes)
		}) {
			var err error
			if p, err = newPlan(u); err != nil {
				s.o.Intake.Fails(source.TroubleTopic, u.Total, "a selector cannot be read", err.Error())
				continue
			}
			s.plans[u.Stream] = p
		}
		err := s.catchUp(ctx, p)
		if ctx.Err() != nil {
			return
		}
		if kind := s.report(p, err); kind != "" {
			failed[kind] = true
		}
		if failed[source.TroubleConnection] || failed[source.TroubleCredentials] || failed[source.TroubleEngine] {
			break // the next would fail, too
		}
	}
	for _, kind := range []source.Kind{source.TroubleConnection, source.TroubleCredentials, source.TroubleEngine} {
		if !failed[kind] {
			s.o.Intake.Works(kind, "")
		}
	}
}

// errNoSeries means that a selector finds nothing.
var errNoSeries = errors.New("no series has a sample")

// report notes a failure, or that there is none, and returns its kind.
func (s *Source) report(p *plan, err error) source.Kind {
	var answer *queryError
	var busy *engine.UnavailableError
	switch {
	case err == nil && s.left == "":
		s.o.Intake.Works(source.TroubleTopic, p.pair())
		return ""
	case err == nil:
		s.o.Intake.Fails(source.TroubleTopic, p.pair(), "a part of the samples is not counted", s.left)
		return source.TroubleTopic
	case errors.Is(err, errNoSeries):
		s.o.Intake.Fails(source.TroubleTopic, p.pair(), "no series has a sample", "no series of "+p.Total+
			" has a sample: its SLOs are not observed")
		return source.TroubleTopic
	case errors.As(err, &busy):
		s.o.Intake.Fails(source.TroubleEngine, "", busy.Code, err.Error())
		return source.TroubleEngine
	case errors.As(err, &answer) && (answer.status == http.StatusUnauthorized || answer.status == http.StatusForbidden):
		s.o.Intake.Fails(source.TroubleCredentials, "", "the Prometheus refuses the credentials", err.Error())
		return source.TroubleCredentials
	case errors.As(err, &answer) && answer.status/100 == 4:
		s.o.Intake.Fails(source.TroubleTopic, p.pair(), "the Prometheus refuses a query", err.Error())
		return source.TroubleTopic
	}
	s.o.Intake.Fails(source.TroubleConnection, "", "the Prometheus does not answer", err.Error())
	return source.TroubleConnection
}

// catchUp reads a unit from where it was read last, in steps.
func (s *Source) catchUp(ctx context.Context, p *plan) error {
	s.left = ""
	from, err := s.o.Until(ctx, p.Stream)
	if err != nil {
		return err
	}
	now := s.o.Intake.Now().Add(-scrapeDelay)
	back := s.o.Longest()
	if from.IsZero() {
		back = max(min(s.o.History, back), 2*s.o.Scrape)
	}
	if oldest := now.Add(-back); from.Before(oldest) {
		from = oldest
	}
	// What is older than the allowed lateness is history, up to an hour that may pass while it is read.
	late := now.Add(time.Hour - s.o.SizeLimits.AllowedLateness)
	for smaller := time.Duration(1); from.Before(now); {
		length, end := slice, now
		if s.old = from.Before(late); s.old {
			length, end = oldSlice, late
		}
		to := from.Add(min(length/smaller, end.Sub(from)))
		err := s.read(ctx, p, from, to)
		if errors.Is(err, errNoSeries) && to.Before(now) {
			err = s.skip(ctx, p, to) // nobody was scraped then, or the Prometheus does not keep it
		}
		switch {
		case err == nil:
			from = to
		case errors.Is(err, errTooLarge) && to.Sub(from) > 2*s.o.Scrape:
			smaller *= 2
		default:
			return err
		}
	}
	return nil
}

// skip remembers that there is nothing to read before a time.
func (s *Source) skip(ctx context.Context, p *plan, to time.Time) error {
	s.batch.Begin()
	s.events.Reset()
	at := to.UnixNano()
	s.batch.Observed(counter.Observation{Source: p.Stream, From: at - 1, To: at})
	if _, err := s.o.Engine.AdmitAt(ctx, &s.events, nil, nil, s.batch); err != nil {
		return err
	}
	return s.o.Engine.CatchUp(ctx)
}

// read counts what happened between two times. Samples that came late for the time before are read once more: what is
// known of a series tells which are new.
func (s *Source) read(ctx context.Context, p *plan, from, to time.Time) error {
	s.batch.Begin()
	clear(s.sums)
	s.cut = 0
	samples, fresh := 0, false
	count := func(partToo, isPart bool) func(*oneSeries) {
		return func(one *oneSeries) {
			samples += len(one.points)
			fresh = fresh || !isPart
			s.count(p, one, partToo && p.part.matches(one.labels), isPart)
		}
	}
	since := from.Add(-s.o.Scrape)
	size, err := s.client.samples(ctx, p.Total, since, to, count(p.inside, false))
	if err != nil {
		return err
	}
	if !p.inside {
		more, err := s.client.samples(ctx, p.Part, since, to, count(false, true))
		if size += more; err != nil {
			return err
		}
	}
	if !fresh {
		return errNoSeries
	}
	if err := s.write(p); err != nil {
		return err
	}
	s.batch.Observed(counter.Observation{Source: p.Stream, From: from.UnixNano(), To: to.UnixNano()})
	result, err := s.o.Engine.AdmitAt(ctx, &s.events, nil, nil, s.batch)
	if err == nil {
		err = s.o.Engine.CatchUp(ctx)
	}
	if err == nil {
		s.o.Intake.Took(samples, size, result.Accepted, s.events.Rejected, s.cut)
	}
	return err
}

// count adds what the samples of one series say to the sums.
func (s *Source) count(p *plan, one *oneSeries, both, isPart bool) {
	series, target := one.labels.hash(&s.hash)
	if isPart { // also where a series is one of the total
		series ^= p.part.key.Lo
	}
	for _, sample := range one.points {
		if !(sample.n >= 0 && sample.n < 1<<63) {
			continue // a stale marker is NaN
		}
		x := counter.Point{Class: p.class, Metric: p.total.key, Source: target, Series: series, Time: sample.at,
			Counts: counter.Counts{Count: uint64(sample.n)}}
		switch s.batch.Observe(&x) {
		case counter.Adds:
			s.batch.Keep()
		case counter.Baseline:
			s.batch.Keep()
			continue
		case counter.Full:
			s.left = fmt.Sprintf("the last samples of all series take %d MiB, and more are not counted: select fewer",
				counter.MaxBytes>>20)
			continue
		default:
			continue
		}
		if n := x.Count; n > 0 {
			at := sample.at
			if x.Before > 0 && at-x.Before > 3*int64(s.o.Scrape) {
				at -= (at - x.Before) / 2 // nobody knows when
			}
			width := step
			if s.old {
				width = oldStep
			}
			s.add(p, one.labels, at-at%width, n, both, isPart)
		}
	}
}

// add counts n events of a series for all SLOs of the unit.
func (s *Source) add(p *plan, of seriesLabels, at int64, n uint64, both, isPart bool) {
	for i := range p.SLOs {
		var values []string
		for _, name := range p.SLOs[i].GroupBy {
			values = append(values, of.get(name))
		}
		c := cell{i, at, strings.Join(values, "\xff")}
		to := s.sums[c]
		if to == nil {
			to = &sum{values: values}
			s.sums[c] = to
		}
		if !isPart {
			to.total += n
		}
		if isPart || both {
			to.part += n
		}
	}
}

// write makes events of the sums.
func (s *Source) write(p *plan) error {
	limits := s.o.SizeLimits
	limits.MaxBackfill = s.o.Longest() + 2*oldSlice
	s.decoder.Begin(event.DecodeOptions{Now: s.o.Intake.Now(), SizeLimits: limits, AppendID: s.appendID,
		Backfill: s.old}, &s.events)
	for _, c := range slices.SortedFunc(maps.Keys(s.sums), func(a, b cell) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.slo, b.slo), strings.Compare(a.group, b.group))
	}) {
		x := s.sums[c]
		bad := min(x.part, x.total)
		s.cut += x.part - bad
		if p.Good {
			bad = x.total - bad
		}
		s.draft(&p.SLOs[c.slo], x, c.at, event.Failure, bad)
		s.draft(&p.SLOs[c.slo], x, c.at, event.Success, x.total-bad)
	}
	s.decoder.End()
	if len(s.events.Buf) > maxBatchBytes {
		return errTooLarge
	}
	return nil
}

func (s *Source) draft(of *SLO, x *sum, at int64, outcome event.Outcome, n uint64) {
	d := event.Draft{Service: []byte(of.Service), Type: []byte(of.Type), Outcome: outcome, Time: at, Weight: 1,
		Duration: event.NoDuration, Own: true, Once: true}
	for i, name := range of.Attributes {
		d.Attributes = append(d.Attributes, event.Attribute{Name: []byte(name), Value: []byte(x.values[i])})
	}
	slices.SortFunc(d.Attributes, func(a, b event.Attribute) int { return bytes.Compare(a.Name, b.Name) })
	for ; n > 0; n -= uint64(d.Count) {
		d.Count = uint32(min(n, math.MaxUint32))
		if code := s.decoder.Add(&d); code != "" {
			s.left = "events are rejected with the code " + string(code)
		}
	}
}

// appendID names an event, which has no identity: what is known of its series tells that it is new.
func (s *Source) appendID(dst []byte, _ int) []byte {
	s.id++
	return strconv.AppendUint(append(dst, "prometheus-"...), s.id, 36)
}
