package dlq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/time/rate"
)

// Target takes entries of one origin back, oldest first, all of one sink where the origin
// is Sink. It returns nil if it took all, or one error (or nil) for each. It may be given
// an entry again after a crash, and has to count it once.
type Target func(ctx context.Context, entries []Entry) []error

// ReplayOptions set the entries, the targets and the rate of a replay.
type ReplayOptions struct {
	Store   Store
	Targets map[Origin]Target
	// Query selects the entries of a scheduled run; empty: all.
	Query Query
	// MaxAge leaves out entries saved longer ago than that; 0: no limit. It does not hold
	// for entries named by their IDs.
	MaxAge time.Duration `yaml:"max_age"`
	// entries that one call of a Target gets at most, 100; up to 1000
	Batch int `yaml:"batch" min:"1" max:"1000"`
	// Rate is how many entries a second may go out in all, 100. In no second are there more, as
	// far as batches divide it; it need not be whole.
	Rate float64 `yaml:"rate" above:"0" max:"1000000"`
	// StopAfter is how many failures in a row, without anything taken between them, end the
	// replay of that origin and sink: 10.
	StopAfter int            `yaml:"stop_after" min:"1" max:"1000000"`
	Cron      string         `yaml:"schedule"` // of scheduled runs; "": Run only waits
	Zone      *time.Location // of Cron, UTC
	Now       func() time.Time
	// Classify names the class of an error for the entry's Class; may be nil.
	Classify func(error) string
	// Done is called after every scheduled run, and may be nil.
	Done    func(ReplayResult, error)
	Metrics *Metrics
}

// ReplayResult is the result of a replay, or the expected result in a dry run.
type ReplayResult struct {
	DryRun bool `json:"dry_run"`
	// Matched is the sum of all that follows.
	Matched  int `json:"matched"`
	Replayed int `json:"replayed"` // in a dry run: entries that would be tried
	Failed   int `json:"failed"`
	TooOld   int `json:"too_old"`
	NoTarget int `json:"no_target"`
	NotFound int `json:"not_found"`
	// HeldBack were not tried, because too many before them failed in a row.
	HeldBack int `json:"held_back"`
	// Errors are the first ten, with the IDs.
	Errors []string `json:"errors,omitempty"`
}

// Replayer replays entries to their origin. Replays run one after the other.
type Replayer struct {
	o        ReplayOptions
	schedule *Schedule
	limiter  *rate.Limiter
	chunk    int
	busy     chan struct{}
}

// NewReplayer checks the options.
func NewReplayer(o ReplayOptions) (*Replayer, error) {
	if o.Store == nil {
		return nil, errors.New("replay of dead letters: Store is required")
	}
	if o.Batch = cmp.Or(o.Batch, 100); o.Batch < 1 || o.Batch > MaxLimit {
		return nil, fmt.Errorf("replay of dead letters: invalid batch size %d (1 to %d)", o.Batch, MaxLimit)
	}
	if o.Rate = cmp.Or(o.Rate, 100); !(o.Rate > 0 && o.Rate <= 1e6) {
		return nil, fmt.Errorf("replay of dead letters: invalid rate %g (above 0, at most 1e6 entries a second)", o.Rate)
	}
	if o.StopAfter = cmp.Or(o.StopAfter, 10); o.StopAfter < 1 {
		return nil, fmt.Errorf("replay of dead letters: invalid stop after %d (at least 1)", o.StopAfter)
	}
	if o.MaxAge < 0 {
		return nil, fmt.Errorf("replay of dead letters: invalid maximum age %s (must not be negative)", o.MaxAge)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Metrics = o.Metrics.orNew()
	r := &Replayer{o: o, chunk: chunkFor(o.Rate, o.Batch), busy: make(chan struct{}, 1)}
	r.limiter = rate.NewLimiter(rate.Limit(o.Rate), r.chunk)
	if o.Cron != "" {
		var err error
		if r.schedule, err = ParseSchedule(o.Cron, o.Zone); err != nil {
			return nil, fmt.Errorf("replay of dead letters: %w", err)
		}
	}
	return r, nil
}

// chunkFor is how many entries go out at once: about ten times a second, and such that
// whole chunks make up a second's worth. The bucket holds one chunk, so two of them are
// never closer than their share of a second.
func chunkFor(perSecond float64, batch int) int {
	for n := min(batch, int(perSecond/10)); n > 1; n-- {
		if int(perSecond)%n == 0 {
			return n
		}
	}
	return 1
}

// Run replays at every tick of Cron until ctx ends.
func (r *Replayer) Run(ctx context.Context) error {
	if r.schedule == nil {
		<-ctx.Done()
		return nil
	}
	return r.schedule.run(ctx, r.o.Now, func(time.Time) {
		result, err := r.Replay(ctx, r.o.Query, false)
		if err != nil && ctx.Err() != nil {
			return
		}
		if r.o.Done != nil {
			r.o.Done(result, err)
		}
	})
}

// Replay replays all entries that match a query: the critical ones first, and oldest first among them and the others.
// After some failures in a row the rest of that origin and sink waits for the next replay. Entries that fail or
// arrive meanwhile are left for the next one too. An error is one of the store, or of ctx.
func (r *Replayer) Replay(ctx context.Context, q Query, dryRun bool) (result ReplayResult, err error) {
	run, err := r.begin(ctx, dryRun)
	if err != nil {
		return run.result, err
	}
	defer run.end(&err)
	q.Newest, q.Cursor, q.Limit = false, "", r.o.Batch
	all := func(*Entry) bool { return true }
	if q.Severity != "" {
		err = run.pass(ctx, q, all)
		return run.result, err
	}
	first := q
	first.Severity = severityCritical
	if err = run.pass(ctx, first, all); err == nil {
		err = run.pass(ctx, q, func(e *Entry) bool { return e.Severity != severityCritical })
	}
	return run.result, err
}

// severityCritical is the severity of entries that a replay takes first.
const severityCritical = "critical"

// pass replays the entries that match a query and are wanted.
func (run *replayRun) pass(ctx context.Context, q Query, wanted func(*Entry) bool) error {
	return Each(ctx, run.o.Store, q, func(entries []Entry) error {
		// Entries newer than the replay arrived during it, or failed in it.
		entries = slices.DeleteFunc(entries, func(e Entry) bool {
			return e.Saved.After(run.began) || run.failed[e.ID] || !wanted(&e)
		})
		if run.o.MaxAge > 0 {
			entries = slices.DeleteFunc(entries, func(e Entry) bool {
				old := e.Saved.Before(run.began.Add(-run.o.MaxAge))
				if old {
					run.count(&run.result.TooOld, "too_old", 1)
				}
				return old
			})
		}
		return run.entries(ctx, entries)
	})
}

// ReplayIDs replays single entries, in the given order.
func (r *Replayer) ReplayIDs(ctx context.Context, ids []string, dryRun bool) (result ReplayResult, err error) {
	run, err := r.begin(ctx, dryRun)
	if err != nil {
		return run.result, err
	}
	defer run.end(&err)
	for chunk := range slices.Chunk(ids, r.o.Batch) {
		entries := make([]Entry, 0, len(chunk))
		for _, id := range chunk {
			e, err := r.o.Store.Get(ctx, id)
			if errors.Is(err, ErrNotFound) {
				run.result.Matched++
				run.result.NotFound++
				run.result.note(id, err)
				continue
			}
			if err != nil {
				return run.result, err
			}
			if !slices.ContainsFunc(entries, func(x Entry) bool { return x.ID == e.ID }) {
				entries = append(entries, e)
			}
		}
		if err := run.entries(ctx, entries); err != nil {
			return run.result, err
		}
	}
	return run.result, nil
}

type replayRun struct {
	*Replayer
	began  time.Time
	result ReplayResult
	inRow  map[route]int // failures since something was taken
	failed map[string]bool
}

// maxFailures ends a replay that hardly anything is taken of.
const maxFailures = 100_000

// route is where entries go together.
type route struct {
	origin Origin
	sink   string
}

func (r *Replayer) begin(ctx context.Context, dryRun bool) (*replayRun, error) {
	run := &replayRun{Replayer: r, began: r.o.Now(), result: ReplayResult{DryRun: dryRun},
		inRow: map[route]int{}, failed: map[string]bool{}}
	if dryRun {
		return run, nil
	}
	select {
	case r.busy <- struct{}{}:
		run.began = r.o.Now()
		return run, nil
	case <-ctx.Done():
		return run, ctx.Err()
	}
}

func (run *replayRun) end(err *error) {
	if run.result.DryRun {
		return
	}
	<-run.busy
	if *err != nil {
		run.o.Metrics.replayRuns["error"].Inc()
	} else {
		run.o.Metrics.replayRuns["ok"].Inc()
	}
}

func (run *replayRun) count(field *int, result string, n int) {
	run.result.Matched += n
	*field += n
	if !run.result.DryRun {
		run.o.Metrics.results[result].Add(n)
	}
}

func (s *ReplayResult) note(id string, err error) {
	if len(s.Errors) < 10 {
		s.Errors = append(s.Errors, fmt.Sprintf("%s: %v", id, err))
	}
}

// entries replays a page, route by route.
func (run *replayRun) entries(ctx context.Context, entries []Entry) error {
	for len(entries) > 0 {
		to := routeOf(&entries[0])
		var these, others []Entry
		for _, e := range entries {
			if routeOf(&e) == to {
				these = append(these, e)
			} else {
				others = append(others, e)
			}
		}
		entries = others
		if run.o.Targets[to.origin] == nil {
			run.count(&run.result.NoTarget, "no_target", len(these))
			continue
		}
		for chunk := range slices.Chunk(these, run.chunk) {
			if err := run.send(ctx, to, chunk); err != nil {
				return err
			}
		}
	}
	return nil
}

func routeOf(e *Entry) route {
	if e.Origin == Sink {
		return route{e.Origin, e.Sink}
	}
	return route{origin: e.Origin}
}

// send replays entries of one route and records their outcomes.
func (run *replayRun) send(ctx context.Context, to route, entries []Entry) error {
	switch {
	case run.inRow[to] >= run.o.StopAfter:
		run.count(&run.result.HeldBack, "held_back", len(entries))
		return nil
	case run.result.DryRun:
		run.count(&run.result.Replayed, "ok", len(entries))
		return nil
	}
	if err := run.limiter.WaitN(ctx, len(entries)); err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	errs := run.o.Targets[to.origin](ctx, entries)
	if errs != nil && len(errs) != len(entries) {
		return fmt.Errorf("replay of dead letters to %s %s: %d answers for %d entries", to.origin, to.sink,
			len(errs), len(entries))
	}
	var taken []string
	var failures []Failure
	for i := range entries {
		if errs == nil || errs[i] == nil {
			taken = append(taken, entries[i].ID)
			run.inRow[to] = 0
			continue
		}
		if ctx.Err() != nil {
			continue // stopped, not refused
		}
		run.inRow[to]++
		failure := Failure{ID: entries[i].ID, At: run.o.Now()}
		if run.o.Classify != nil {
			failure.Class = run.o.Classify(errs[i])
		}
		failures = append(failures, failure)
		run.failed[failure.ID] = true
		run.result.note(failure.ID, errs[i])
	}
	// Accepted entries are recorded even if the replay was stopped meanwhile.
	note := context.WithoutCancel(ctx)
	if _, err := run.o.Store.Replayed(note, taken); err != nil {
		return fmt.Errorf("record replayed dead letters: %w", err)
	}
	run.count(&run.result.Replayed, "ok", len(taken))
	if _, err := run.o.Store.Failed(note, failures); err != nil {
		return fmt.Errorf("record failed replays: %w", err)
	}
	run.count(&run.result.Failed, "failed", len(failures))
	if len(run.failed) > maxFailures {
		return fmt.Errorf("replay of dead letters: more than %d failures", maxFailures)
	}
	return ctx.Err()
}
