package series

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/ingest/counter"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/internal/every"
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

// Options of a Source. All are required, but for those of a Receiver.
type Options struct {
	Settings
	URL    string // of the Prometheus, without /api
	Client *http.Client
	Units  func() []Unit // asked before each reading

	Engine   Engine
	Counters *counter.Table
	// Spans is what was observed of a stream, rising. Only Servers needs it.
	Spans func(ctx context.Context, stream string) ([]counter.Observation, error)
	// Until is the end of what was observed last of a stream; zero: nothing was.
	Until func(ctx context.Context, stream string) (time.Time, error)

	Intake     *source.Intake // counts samples as messages, and lists failures
	SizeLimits event.SizeLimits
	Longest    func() time.Duration // window of an SLO

	// The rest is for a Receiver, which has no URL and no Client.
	HA      *HA // nil: no replicas
	Metrics *source.Metrics
	Logger  *slog.Logger
}

// Source reads from one Prometheus.
type Source struct {
	o      Options
	client client
	plans  map[string]*plan // by stream
	tally
	book
	told bool // that another kind of reader counted before

	// The rest is of one of several servers.
	all      *Servers // nil: it is the only one
	server   Server
	external seriesLabels
	learned  bool      // external is known
	asked    time.Time // for the labels
	inLog    bool      // the labels are
}

const (
	// slice is the longest time that is read at once, and oldSlice that of history.
	slice, oldSlice = 10 * time.Minute, time.Hour
	// scrapeDelay is how old samples are that are read: those of a scrape appear when it ends.
	scrapeDelay = 2 * time.Second
)

// New makes a Source.
func New(o Options) *Source {
	return &Source{o: o, client: client{url: strings.TrimSuffix(o.URL, "/"), http: o.Client}, plans: map[string]*plan{},
		tally: newTally(o.Counters, o.Scrape)}
}

// Run reads until ctx ends.
func (s *Source) Run(ctx context.Context) error {
	for range every.Tick(ctx, s.o.Interval) {
		s.Round(ctx)
	}
	return nil
}

// Round reads all units up to now.
func (s *Source) Round(ctx context.Context) {
	failed := map[source.Kind]bool{}
	if !s.learn(ctx) {
		return
	}
	limit := s.o.Intake.Now().Add(s.o.Interval) // of what is read of the past
	units := s.units()
	s.list(units)
	for stream, p := range s.plans { // of units that the spec has no more
		if !slices.ContainsFunc(units, func(u Unit) bool { return u.Stream == stream }) {
			s.o.Intake.Works(source.TroubleTopic, s.named(p.pair()))
			delete(s.plans, stream)
			s.forget(stream)
		}
	}
	for _, u := range units {
		p := s.plans[u.Stream]
		if p == nil || p.Every != u.Every || p.groups != u.groups ||
			!slices.EqualFunc(p.SLOs, u.SLOs, func(a, b SLO) bool { return a.equal(&b) }) {
			var err error
			if p, err = newPlan(u, s.o.Window(), s.external); err != nil {
				s.o.Intake.Fails(source.TroubleTopic, s.named(u.Total), "a selector cannot be read", err.Error())
				continue
			}
			s.plans[u.Stream] = p
		}
		err := s.catchUp(ctx, p, limit)
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
			s.o.Intake.Works(kind, s.named(""))
		}
	}
}

// errNoSeries means that a selector finds nothing.
var errNoSeries = errors.New("no series has a sample")

// report notes a failure, or that there is none, and returns its kind.
func (s *Source) report(p *plan, err error) source.Kind {
	var answer *queryError
	var busy *engine.UnavailableError
	var bound *BoundError
	switch {
	case errors.Is(err, errEarly):
		return ""
	case err == nil && s.left == "":
		s.o.Intake.Works(source.TroubleTopic, s.named(p.pair()))
		return ""
	case err == nil:
		s.o.Intake.Fails(source.TroubleTopic, s.named(p.pair()), "a part of the samples is not counted", s.left)
		return source.TroubleTopic
	case errors.Is(err, errNoSeries):
		s.o.Intake.Fails(source.TroubleTopic, s.named(p.pair()), "no series has a sample", "no series of "+
			cmp.Or(p.Total, p.Part)+" has a sample: its SLOs are not observed")
		return source.TroubleTopic
	case errors.Is(err, errTooMany), errors.Is(err, errTooLarge):
		s.o.Intake.Fails(source.TroubleTopic, s.named(p.pair()), "an answer of the Prometheus is too large", err.Error())
		return source.TroubleTopic
	case errors.As(err, &bound):
		s.o.Intake.Fails(source.TroubleTopic, s.named(p.pair()), "a threshold is no bound of the histogram", err.Error())
		return source.TroubleTopic
	case errors.As(err, &busy):
		s.o.Intake.Fails(source.TroubleEngine, s.named(""), busy.Code, err.Error())
		return source.TroubleEngine
	case errors.As(err, &answer) && (answer.status == http.StatusUnauthorized || answer.status == http.StatusForbidden):
		s.o.Intake.Fails(source.TroubleCredentials, s.named(""), "the Prometheus refuses the credentials", err.Error())
		return source.TroubleCredentials
	case errors.As(err, &answer) && answer.ofQuery():
		s.o.Intake.Fails(source.TroubleTopic, s.named(p.pair()), "the Prometheus refuses a query", err.Error())
		return source.TroubleTopic
	}
	s.o.Intake.Fails(source.TroubleConnection, s.named(""), "the Prometheus does not answer", err.Error())
	return source.TroubleConnection
}

// catchUp reads a unit from where it was read last, in steps, and then what is missing before.
func (s *Source) catchUp(ctx context.Context, p *plan, limit time.Time) error {
	s.left, s.first = "", nil
	if err := s.o.Engine.CatchUp(ctx); err != nil { // what was stored last may be in the log and not in the table yet
		return err
	}
	from, err := s.o.Until(ctx, p.Stream)
	if err != nil {
		return err
	}
	if from, err = s.takeOver(ctx, p, from); err != nil {
		return err
	}
	known := !from.IsZero()
	now := p.align(s.o.Intake.Now().Add(-scrapeDelay))
	back := s.o.Longest()
	if !known {
		back = max(min(s.o.History, back), 2*s.o.Scrape)
	}
	if oldest := p.align(now.Add(-back)); from.Before(oldest) {
		from = oldest
	}
	s.began(&p.Unit, from)
	missing := s.wantsPast(p, now)
	switch {
	case !known:
		s.first = &past{From: from.UnixNano(), Since: from.Add(-s.o.Scrape).UnixNano()}
	case missing != nil:
		s.pastReached(p.Stream, missing)
	}
	// What is older than the allowed lateness is history, up to an hour that may pass while it is read.
	late := p.align(now.Add(time.Hour - s.o.SizeLimits.AllowedLateness))
	for smaller := time.Duration(1); from.Before(now); {
		length, end := slice, now
		if s.old = from.Before(late); s.old {
			length, end = oldSlice, late
		}
		to := p.align(from.Add(min(max(length, p.Every)/smaller, end.Sub(from))))
		if !to.After(from) {
			return errTooLarge
		}
		reached, err := s.read(ctx, p, from, to)
		if errors.Is(err, errNoSeries) && to.Before(now) {
			reached, err = to, s.skip(ctx, p, to) // nobody was scraped then, or the Prometheus does not keep it
		}
		switch {
		case p.Form != Counters && known && errors.Is(err, errNoSeries) && to.Sub(from) <= s.o.Window():
			return errEarly
		case err == nil:
			from = reached
			s.reached(p.Stream, from)
		case errors.Is(err, errTooLarge) && to.Sub(from) > 2*s.o.Scrape:
			smaller *= 2
		default:
			return err
		}
	}
	if missing != nil && known {
		return s.readPast(ctx, p, missing, now, limit)
	}
	return nil
}

// skip remembers that there is nothing to read before a time.
func (s *Source) skip(ctx context.Context, p *plan, to time.Time) error {
	s.begin()
	s.events.Reset()
	at := to.UnixNano()
	s.batch.Observed(counter.Observation{Source: p.Stream, From: at - 1, To: at})
	s.note(p, at)
	s.handOver(p)
	if _, err := s.o.Engine.AdmitAt(ctx, &s.events, nil, nil, s.batch); err != nil {
		return err
	}
	err := s.o.Engine.CatchUp(ctx)
	if err == nil {
		s.noted(at)
		s.book.read(p.Stream, 0, s.of(p), s.left)
	}
	return err
}

// read counts what happened between two times, and says how far it came.
func (s *Source) read(ctx context.Context, p *plan, from, to time.Time) (reached time.Time, err error) {
	if p.Form != Counters {
		return s.evaluate(ctx, p, from, to)
	}
	return to, s.readCounters(ctx, p, from, to)
}

// readCounters counts what counters added. Samples that came late for the time before are read once more: what is known
// of a series tells which are new.
func (s *Source) readCounters(ctx context.Context, p *plan, from, to time.Time) error {
	s.begin()
	samples, fresh, parts := 0, false, false
	since := from.Add(-s.o.Scrape)
	seen := newSampled(since, to, s.o.Scrape)
	count := func(partToo, isPart bool) func(*oneSeries) {
		return func(one *oneSeries) {
			of := &p.total
			if isPart {
				of = &p.part
			}
			if one.labels = one.labels.with(s.external); s.all != nil && !of.matches(one.labels) {
				return // a label of the series takes the place of an external one
			}
			samples += len(one.points)
			if parts = parts || isPart; !isPart {
				fresh = true
				seen.note(one.points)
			}
			s.count(p, one, partToo && p.part.matches(one.labels), isPart)
		}
	}
	size, err := s.client.samples(ctx, p.total.ask, since, to, count(p.inside, false))
	if err != nil {
		return err
	}
	if !p.inside {
		more, err := s.client.samples(ctx, p.part.ask, since, to, count(false, true))
		if size += more; err != nil {
			return err
		}
	}
	if !fresh {
		return errNoSeries
	}
	if !p.inside && !parts {
		if err := s.checkBound(ctx, p, to); err != nil {
			return err
		}
	}
	s.rest()
	err = s.store(ctx, p, seen.spans(p.Stream, from, to), to, samples, size)
	for gaps := s.gaps; err == nil && len(gaps) > 0; gaps = s.gaps {
		err = s.countGaps(ctx, p, gaps)
	}
	return err
}

// sampled says in which times between two, as long as one between two scrapes, some series has a sample.
type sampled struct {
	since, width int64
	has          []bool
}

func newSampled(since, to time.Time, scrape time.Duration) *sampled {
	return &sampled{since.UnixNano(), int64(scrape), make([]bool, to.Sub(since)/scrape+1)}
}

func (s *sampled) note(points []point) {
	for _, p := range points {
		if i := (p.at - s.since) / s.width; i >= 0 && i < int64(len(s.has)) {
			s.has[i] = true
		}
	}
}

// spans are the times without a gap in which a stream was observed.
func (s *sampled) spans(stream string, from, to time.Time) (out []counter.Observation) {
	first, end := from.UnixNano(), to.UnixNano()
	last := int64(0)
	for i := range int64(len(s.has)) {
		switch at := s.since + i*s.width; {
		case !s.has[i]:
			continue
		case i-last > gapScrapes || len(out) == 0 && i > gapScrapes:
			out = append(out, counter.Observation{Source: stream, From: max(at, first)})
		case len(out) == 0:
			out = append(out, counter.Observation{Source: stream, From: first})
		}
		last = i
		out[len(out)-1].To = min(s.since+(i+1)*s.width, end)
	}
	if n := len(out) - 1; n >= 0 && int64(len(s.has))-1-last <= gapScrapes {
		out[n].To = end
	}
	return slices.DeleteFunc(out, func(o counter.Observation) bool { return o.From >= o.To })
}

// countGaps counts what was added in gaps, and then the samples behind them.
func (s *Source) countGaps(ctx context.Context, p *plan, gaps []gap) error {
	s.addGaps(gaps)
	if err := s.store(ctx, p, nil, time.Time{}, 0, 0); err != nil {
		return err
	}
	s.addBehind(gaps)
	return s.store(ctx, p, nil, time.Time{}, 0, 0)
}

// store makes what was counted durable, with what was observed of the time up to one that was read; zero: none was.
func (s *Source) store(ctx context.Context, p *plan, observed []counter.Observation, to time.Time,
	samples, size int) error {
	if err := s.write(s.o.Intake.Now(), s.o.SizeLimits, s.o.Longest()); err != nil {
		return err
	}
	for _, o := range observed {
		s.batch.Observed(o)
	}
	if !to.IsZero() {
		s.note(p, to.UnixNano())
		s.handOver(p)
	}
	if s.all != nil {
		s.all.mu.Lock()
		defer s.all.mu.Unlock()
		if err := s.beside(ctx, p, observed); err != nil {
			return err
		}
	}
	result, err := s.o.Engine.AdmitAt(ctx, &s.events, nil, nil, s.batch)
	if err == nil {
		err = s.o.Engine.CatchUp(ctx)
	}
	if err == nil && !to.IsZero() {
		s.noted(to.UnixNano())
	}
	if err == nil {
		s.stored(observed)
		s.o.Intake.Took(samples, size, result.Accepted, s.events.Rejected, s.of(p).Cut)
		s.book.read(p.Stream, samples, s.of(p), s.left)
	}
	return err
}
