package send

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sloengine/sloengine/client/post"
	"github.com/sloengine/sloengine/ingest/event"
)

// RejectedError says that everything was sent, and some of it rejected for good.
type RejectedError struct{ Rejected, Read int }

func (e *RejectedError) Error() string {
	return fmt.Sprintf("%d of %d events were rejected", e.Rejected, e.Read)
}

// UnsentError says that not everything was sent. It unwraps to the reason.
type UnsentError struct {
	Unsent int // of what was read; more may not have been read at all
	Err    error
}

func (e *UnsentError) Error() string {
	if e.Unsent == 0 {
		return e.Err.Error()
	}
	return fmt.Sprintf("%d events were not sent: %v", e.Unsent, e.Err)
}

func (e *UnsentError) Unwrap() error { return e.Err }

// Denied reports whether the server refused the token, or the lack of one.
func (e *UnsentError) Denied() bool {
	status, ok := errors.AsType[*post.StatusError](e.Err)
	return ok && (status.Status == http.StatusUnauthorized || status.Status == http.StatusForbidden)
}

// Run sends the input and prints a summary, also when it fails. The error is nil
// if every event is accepted or known; a *UsageError; a *RejectedError; an
// *UnsentError; or another one from before anything was sent.
//
// When ctx ends, reading stops and what was read has Options.Grace to be sent.
// That is how following ends, and no error there.
func Run(ctx context.Context, o Options) error {
	if err := o.fill(); err != nil {
		return err
	}
	r := &runner{o: &o}
	for _, name := range o.Files {
		if name != "-" && !o.Follow {
			if _, err := os.Stat(name); err != nil {
				return err
			}
		}
	}
	var rejects io.Writer
	if o.Rejects != "" {
		file, err := os.Create(o.Rejects)
		if err != nil {
			return fmt.Errorf("rejects file: %w", err)
		}
		defer file.Close()
		rejects = file
	}
	r.result = newResult(&o, rejects)
	var err error
	if r.delivery, err = newDelivery(&o, r.result); err != nil {
		return err
	}
	defer r.delivery.close()
	if o.Shift {
		if r.shift, err = r.measureShift(ctx); err != nil {
			return err
		}
	}
	return r.run(ctx)
}

type runner struct {
	o        *Options
	result   *result
	delivery *delivery
	batcher  *batcher
	progress *progress
	shift    time.Duration
	untimed  atomic.Int64 // events of access logs without a duration
}

func (r *runner) run(ctx context.Context) error {
	start := time.Now()
	total := int64(-1)
	if !r.o.Follow {
		total = sizeOf(r.o.Files)
	}
	r.progress = newProgress(r.o.Stderr, total)
	r.batcher = newBatcher(r.o, r.progress.share)

	// Readers stop with ctx or when a sender gives up; senders go on for a
	// while after ctx, to bring home what was read.
	reading, stopReading := context.WithCancelCause(ctx)
	defer stopReading(nil)
	sending, stopSending := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopSending(nil)
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(r.o.Grace, func() { stopSending(context.Cause(ctx)) })
	})()

	var senders sync.WaitGroup
	var failed error
	var once sync.Once
	for range r.o.Concurrency {
		senders.Go(func() {
			for b := range r.batcher.out {
				if sending.Err() != nil {
					continue // drain, so that no writer waits for a sender that is gone
				}
				if err := r.delivery.deliver(sending, &b.Batch); err != nil {
					once.Do(func() { failed = err })
					stopReading(err)
					stopSending(err)
					continue
				}
				r.progress.sent(b.input)
			}
		})
	}
	stopTimer := make(chan struct{})
	var timer sync.WaitGroup
	timer.Go(func() { r.batcher.run(sending, stopTimer) })

	readErr := r.readAll(reading)
	close(stopTimer)
	timer.Wait()
	_ = r.batcher.finish(sending) // what is not taken counts as unsent
	senders.Wait()
	r.progress.close(failed == nil && readErr == nil)

	r.result.count(func(s *Summary) { s.ShiftHours = int64(r.shift / time.Hour) })
	summary := r.result.final(time.Since(start), r.delivery.retries.Load())
	if n := r.untimed.Load(); n > 0 && summary.WithDuration == 0 {
		r.o.Logger.Warn("no event of the log has a duration, so latency SLOs will have no data from it", "events", n,
			"hint", "write the log as JSON with request_time and set --format nginx-json")
	}
	err := r.verdict(ctx, &summary, readErr, failed)
	if writeErr := summary.write(r.o.Stdout, r.o.Output); writeErr != nil {
		return errors.Join(err, writeErr)
	}
	return err
}

// verdict turns what happened into the error of Run.
func (r *runner) verdict(ctx context.Context, s *Summary, readErr, failed error) error {
	interrupted := ctx.Err() != nil
	switch {
	case failed != nil:
		return &UnsentError{s.Unsent, failed}
	case s.Unsent > 0:
		return &UnsentError{s.Unsent, errors.Join(readErr, context.Cause(ctx))}
	case interrupted && !r.o.Follow:
		return &UnsentError{0, fmt.Errorf("interrupted before the end of the input: %w", context.Cause(ctx))}
	case readErr != nil && !interrupted:
		return &UnsentError{0, readErr}
	case s.Rejected > 0:
		return &RejectedError{s.Rejected, s.Read}
	}
	return nil
}

// readAll reads the files one after the other, or side by side if they are followed.
func (r *runner) readAll(ctx context.Context) error {
	if !r.o.Follow {
		for _, name := range r.o.Files {
			if err := r.readFile(ctx, name); err != nil {
				return err
			}
		}
		return nil
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	errs := make(chan error, len(r.o.Files))
	for _, name := range r.o.Files {
		go func() {
			err := r.follow(ctx, name)
			if err != nil {
				stop(err)
			}
			errs <- err
		}()
	}
	var first error
	for range r.o.Files {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

func (r *runner) readFile(ctx context.Context, name string) error {
	in, err := open(ctx, name, r.o.Stdin, r.progress.read)
	if err != nil {
		return err
	}
	err = r.read(ctx, in.name, in)
	return errors.Join(err, in.Close())
}

// follow reads every file that has the name, one after the other. Standard input
// grows by itself.
func (r *runner) follow(ctx context.Context, name string) error {
	if name == "-" {
		return r.readFile(ctx, name)
	}
	f := &follower{name: name, poll: r.o.Poll}
	defer f.close()
	for {
		in, err := f.next(ctx)
		if err != nil {
			return err
		}
		if err := r.read(ctx, name, &counter{in, r.progress.read}); err != nil {
			return err
		}
	}
}

// take puts one event into a batch. times are those of the events of its file so far.
func (r *runner) take(ctx context.Context, it item, e *event.Event, times *event.Span) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if r.shift != 0 && !e.Time.IsZero() {
		e.Time = e.Time.Add(r.shift)
	}
	if year := e.Time.Year(); 1970 <= year && year < 2262 {
		at := e.Time.UnixNano()
		if times.From == 0 {
			*times = event.Span{From: at, To: at}
		}
		*times = event.Span{From: min(times.From, at), To: max(times.To, at)}
		it.covers = *times
	}
	timed := e.HasDuration || len(e.Durations) > 0
	r.result.count(func(s *Summary) {
		s.Read++
		if timed {
			s.WithDuration++
		}
	})
	return r.batcher.add(ctx, it, e.AppendJSON)
}

// refuse counts a line that is no event.
func (r *runner) refuse(it item, code, detail string) error {
	r.result.count(func(s *Summary) { s.Read++; s.Rejected++ })
	return r.result.reject(rejection{item: it, Code: code, Detail: detail})
}
