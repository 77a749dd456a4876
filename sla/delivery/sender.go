package delivery

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/health"
	"github.com/sloengine/sloengine/reliability/mail"
	"github.com/sloengine/sloengine/reliability/retry"
	"github.com/sloengine/sloengine/sla/report"
)

const (
	// maxLate is how long after it was due a report is still sent, if the engine was down.
	maxLate = 7 * 24 * time.Hour
	// giveUp is how long a report is tried to be delivered.
	giveUp = 24 * time.Hour
	// checkEvery is how often it is looked what is due.
	checkEvery = 20 * time.Second
	// checkStart is the same until the engine has made its first numbers.
	checkStart = 500 * time.Millisecond
	// checkRunning is how often a report is made whose period is not over in all zones.
	checkRunning = 10 * time.Minute
)

// backoff between the attempts to reach a target.
var backoff = retry.Options{Base: 30 * time.Second, Cap: time.Hour, Jitter: retry.Equal, MaxRetries: retry.Unlimited}

// Options of a Sender. File, Clock and Zone are required.
type Options struct {
	Settings Settings
	File     string                          // keeps what was sent
	Instance string                          // of the engine: message ids differ between engines
	Files    fsys.FS                         // default: of the system
	Clock    func() (now time.Time, ok bool) // of the newest numbers; false: there are none yet
	Zone     ZoneFunc                        // of reports whose settings have none
	Metrics  *Metrics                        // default: unregistered
	Logger   *slog.Logger                    // default: none
	Now      func() time.Time                // for retries. Default: time.Now
}

func (o *Options) applyDefaults() {
	o.Files = cmp.Or(o.Files, fsys.OS())
	o.Metrics = cmp.Or(o.Metrics, NewMetrics(metrics.NewSet()))
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
}

// Sender sends reports when they are due. Its methods may be called from several goroutines.
type Sender struct {
	opt    Options
	policy *retry.Policy
	wake   chan struct{} // holds one
	byHand sync.Mutex    // held while a report is sent by hand

	mu       sync.Mutex // guards the fields below. It is not held while a report is made or sent
	settings Settings
	targets  []*target
	known    map[string]record // nil until the file is read
	file     fsys.StateFile[stateFile]
	saving   health.Log
}

// New checks the settings and the version of the file. It sends nothing.
func New(o Options) (*Sender, error) {
	o.applyDefaults()
	if o.File == "" || o.Clock == nil || o.Zone == nil {
		return nil, errors.New("reports: File, Clock and Zone are required")
	}
	policy, err := retry.New(backoff)
	if err != nil {
		return nil, err
	}
	s := &Sender{opt: o, policy: policy, wake: make(chan struct{}, 1), file: newStateFile(&o), saving: health.Log{
		Tracker: health.Tracker{Now: o.Now}, Logger: o.Logger,
		Broken: "saving what reports were sent failed", Works: "saving what reports were sent works again",
	}}
	apply, err := s.Prepare(o.Settings)
	if err != nil {
		return nil, err
	}
	apply()
	return s, s.file.CheckVersion()
}

// Prepare checks other settings and returns what puts them in force. What waits for a retry is tried again at once.
func (s *Sender) Prepare(next Settings) (apply func(), err error) {
	next.Reports = slices.Clone(next.Reports)
	next.applyDefaults()
	if err := next.validate(); err != nil {
		return nil, err
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		before := map[string]*health.Tracker{}
		for _, t := range s.targets {
			before[t.key] = t.failing
		}
		names := map[string]bool{}
		for i := range next.Reports {
			names[next.Reports[i].Name] = true
			s.opt.Metrics.Of(next.Reports[i].Name) // zeros
		}
		for i := range s.settings.Reports {
			if name := s.settings.Reports[i].Name; !names[name] {
				s.opt.Metrics.Forget(name)
			}
		}
		s.settings = next
		s.targets = s.settings.targets()
		for _, t := range s.targets {
			if t.failing = before[t.key]; t.failing == nil {
				t.failing = &health.Tracker{Now: s.opt.Now, Cause: brief}
			}
		}
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}, nil
}

// Run sends what is due until ctx ends. A report on its way is not cut off, so that it is known what became of it.
func (s *Sender) Run(ctx context.Context, build MakeFunc) error {
	check := time.NewTimer(0)
	defer check.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-check.C:
		case <-s.wake:
		}
		wait := checkEvery
		if !s.step(ctx, build) {
			wait = checkStart
		}
		check.Reset(wait)
	}
}

// step sends what is due now. It is false as long as there are no numbers.
func (s *Sender) step(ctx context.Context, build MakeFunc) bool {
	now, ok := s.opt.Clock()
	if !ok {
		return false
	}
	if s.ready(now) {
		s.send(ctx, now, build)
	}
	return true
}

// send sends what is due at a time.
func (s *Sender) send(ctx context.Context, now time.Time, build MakeFunc) {
	s.mu.Lock()
	targets := s.targets
	s.mu.Unlock()
	if len(targets) == 0 {
		return
	}
	made := map[string]*product{} // by report, each made once
	var down error                // of the mail server
	zones := map[*Report]*time.Location{}
	for _, t := range targets {
		if ctx.Err() != nil {
			return
		}
		zone := zones[t.report]
		if zone == nil {
			zone = s.zone(t.report)
			zones[t.report] = zone
		}
		p, pending := s.pending(t, now, zone)
		if !pending || s.opt.Now().Before(t.next) {
			continue
		}
		m := made[t.report.Name]
		if m == nil {
			m = &product{}
			m.content, m.err = build(ctx, t.report, p)
			made[t.report.Name] = m
		}
		if ctx.Err() != nil {
			return
		}
		if m.err == nil && m.content.Running {
			t.next = s.opt.Now().Add(checkRunning)
			continue
		}
		err := s.begin(t, p)
		switch {
		case err != nil:
		case m.err != nil:
			err = m.err
		case t.kind == ToMail && down != nil:
			err = down
		default:
			// What is begun is carried through, also while the engine stops, within the time-out of the target.
			err = t.send(context.WithoutCancel(ctx), s.opt.Files, s.opt.Instance, p, s.opt.Now(), m.content)
			var of *mail.Error
			if errors.As(err, &of) && of.Down() {
				down = err // the others wait for the same server
			}
		}
		if err != nil {
			s.fail(t, p, err)
		} else {
			s.done(t, p)
		}
	}
	s.measure(targets, now, zones)
}

// product is a report that was made, or why it was not.
type product struct {
	content *Content
	err     error
}

func (s *Sender) zone(r *Report) *time.Location {
	if r.Zone != nil {
		return r.Zone
	}
	return s.opt.Zone(r)
}

// ready reads the file, once, and writes what could not be written before.
func (s *Sender) ready(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil && !s.read(now) {
		return false
	}
	if s.saving.Failing() {
		_ = s.save() // it is in the log
	}
	return true
}

// read is false if the file could not be read for now.
func (s *Sender) read(now time.Time) bool {
	f, err := s.file.Load(nil)
	if err != nil {
		s.opt.Logger.Error("reading what reports were sent failed, no reports are sent until it succeeds", "file",
			s.opt.File, "err", err)
		return false
	}
	known := f.Targets
	if known == nil {
		known = map[string]record{}
	}
	mine := map[string]bool{}
	for _, t := range s.targets {
		mine[t.key] = true
		if r := known[t.key]; r.Outcome == Sending {
			s.opt.Logger.Info("delivery of a report was interrupted, sending it again", "report", t.report.Name, "period",
				r.Period, "to", t.name)
		}
	}
	maps.DeleteFunc(known, func(key string, r record) bool {
		last := r.Since
		if r.At.After(last) {
			last = r.At
		}
		return !mine[key] && now.Sub(last) > forgetAfter
	})
	s.known = known
	return true
}

// save writes the file. The caller holds mu.
func (s *Sender) save() error {
	err := s.file.Save(stateFile{StateVersion, s.known})
	s.saving.Note(err, "file", s.opt.File)
	return err
}

// pending is the newest period that is due, and whether its report waits to be sent.
func (s *Sender) pending(t *target, now time.Time, zone *time.Location) (p report.Period, yes bool) {
	p, due := t.report.latest(now, zone)
	s.mu.Lock()
	defer s.mu.Unlock()
	r, known := s.known[t.key]
	switch {
	case !known:
		s.known[t.key] = record{Since: now}
		_ = s.save() // kept, and tried again
		return p, false
	case r.Period == p.String():
		return p, r.Outcome == Sending
	case r.Period > p.String() || !due.After(r.Since):
		return p, false
	case now.Sub(due) > maxLate:
		s.opt.Logger.Error("report was due too long ago, not sending it", "report", t.report.Name, "period", p,
			"to", t.name, "due", due)
		s.series(t.report).late.Inc()
		r.Period, r.Outcome, r.At = p.String(), Late, s.opt.Now()
		s.known[t.key] = r
		_ = s.save()
		return p, false
	}
	return p, true
}

// begin keeps on disk that a report is about to be sent.
func (s *Sender) begin(t *target, p report.Period) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.known[t.key]
	if before.Period == p.String() && before.Outcome == Sending {
		return nil
	}
	r := before
	r.Period, r.Outcome, r.Begun, r.At = p.String(), Sending, s.opt.Now(), s.opt.Now()
	s.known[t.key] = r
	if err := s.save(); err != nil {
		s.known[t.key] = before
		return &stateError{err}
	}
	return nil
}

// stateError means that nothing is sent, since it could not be kept that it was.
type stateError struct{ error }

func (e *stateError) Brief() string { return "the state of reports cannot be saved" }
func (e *stateError) Unwrap() error { return e.error }

func (s *Sender) done(t *target, p report.Period) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opt.Now()
	r := s.known[t.key]
	r.Outcome, r.At = Sent, now
	s.known[t.key] = r
	_ = s.save() // if it fails: this process knows, and the next step tries again
	text := "report sent"
	f, _ := t.failing.Recovered()
	if f.Count > 0 {
		text = "report sent after failures"
	}
	s.opt.Logger.Info(text, "report", t.report.Name, "period", p, "kind", t.kind, "to", t.name, "failures", f.Count)
	t.next, t.wait = time.Time{}, 0
	m := s.series(t.report)
	m.sent[t.kind].Inc()
	m.lastSuccess.Set(float64(now.Unix()))
}

func (s *Sender) fail(t *target, p report.Period, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opt.Now()
	f, _ := t.failing.Failed(err)
	if f.Count == 1 {
		s.opt.Logger.Error("sending a report failed, trying again for a day", "report", t.report.Name, "period", p, "kind",
			t.kind, "to", t.name, "err", err)
	}
	if t.wait = s.policy.Delay(int(min(f.Count-1, 32)), t.wait); retry.ClassOf(err) == retry.ClassPermanent {
		t.wait = backoff.Cap // it comes back until somebody changes the other side
	}
	if after, ok := retry.AfterOf(err); ok {
		t.wait = max(t.wait, min(after, backoff.Cap))
	}
	t.next = now.Add(t.wait)
	m := s.series(t.report)
	m.failures.Inc()
	if r := s.known[t.key]; r.Period == p.String() && r.Outcome == Sending && now.Sub(r.Begun) >= giveUp {
		r.Outcome, r.At = Failed, now
		s.known[t.key] = r
		_ = s.save()
		m.failed.Inc()
		s.opt.Logger.Error("report given up", "report", t.report.Name, "period", p, "kind", t.kind, "to", t.name,
			"failures", f.Count, "err", err)
	}
}

// series are those of a report. One that has left the settings meanwhile gets none.
func (s *Sender) series(r *Report) *series {
	if m, ok := s.opt.Metrics.Lookup(r.Name); ok {
		return m
	}
	return NewMetrics(metrics.NewSet()).Of(r.Name)
}

// measure sets the gauges.
func (s *Sender) measure(targets []*target, now time.Time, zones map[*Report]*time.Location) {
	pending, failing := map[string]int{}, map[string]int{}
	for _, t := range targets {
		if _, yes := s.pending(t, now, zones[t.report]); yes {
			pending[t.report.Name]++
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range targets {
		if t.failing.Failing() {
			failing[t.report.Name]++
		}
	}
	for i := range s.settings.Reports {
		name := s.settings.Reports[i].Name
		m := s.opt.Metrics.Of(name)
		m.pending.Set(float64(pending[name]))
		m.failing.Set(float64(failing[name]))
	}
}
