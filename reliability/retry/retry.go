package retry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Values for Options.MaxRetries besides a positive number.
const (
	// Unlimited retries until the error is permanent or the context ends.
	Unlimited = -1
	// Never makes the first attempt the only one.
	Never = -2
	// DefaultMaxRetries is the meaning of 0.
	DefaultMaxRetries = 3
)

// Decision is the reaction to an error.
type Decision int

const (
	// Stop gives up: the error will not pass.
	Stop Decision = iota
	// Again tries again after the backoff.
	Again
)

// Options of a Policy. The zero value is the project's default policy.
type Options struct {
	// Base is the scale of the first delay. Default 100 ms.
	Base time.Duration `yaml:"base" min:"1ms" max:"1d"`
	// Cap is the longest delay that the backoff itself asks for. Default 5 s, or Base if that is longer.
	Cap time.Duration `yaml:"cap" min:"1ms" max:"1d"`
	// Jitter is how delays are drawn. Default Full.
	Jitter Jitter `yaml:"jitter" one:"full equal decorrelated plusminus none"`
	// Spread of PlusMinus, in (0,1]. Default 0.5.
	Spread float64 `yaml:"spread" above:"0" max:"1"`
	// MaxRetries counts the attempts after the first. 0 is the default of 3;
	// see Unlimited and Never.
	MaxRetries int
	// MaxElapsed ends the retries once a further wait would end later than this
	// after the first attempt began. 0 is no limit.
	MaxElapsed time.Duration `yaml:"max_elapsed"`
	// MaxRetryAfter caps the Retry-After of a server. Default 1 minute.
	MaxRetryAfter time.Duration `yaml:"max_retry_after" min:"1ms" max:"1d"`
	// Classify decides about an error. Default ByClass.
	Classify func(error) Decision
	// OnRetry is called for each retry before its wait; it may be nil.
	OnRetry func(n int, wait time.Duration, err error)
	// Rand answers in [0,1); it must be safe for concurrent use if the policy is
	// used so. Default math/rand/v2.
	Rand func() float64
}

func (o *Options) applyDefaults() {
	o.Base = cmp.Or(o.Base, 100*time.Millisecond)
	o.Cap = cmp.Or(o.Cap, max(5*time.Second, o.Base))
	o.Jitter = cmp.Or(o.Jitter, Full)
	o.Spread = cmp.Or(o.Spread, 0.5)
	o.MaxRetries = cmp.Or(o.MaxRetries, DefaultMaxRetries)
	o.MaxRetryAfter = cmp.Or(o.MaxRetryAfter, time.Minute)
	if o.Classify == nil {
		o.Classify = ByClass
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
}

func (o *Options) validate() error {
	switch {
	case o.Base < 0 || o.Cap < o.Base:
		return fmt.Errorf("retry: invalid base delay %s (must be positive and at most the cap of %s)", o.Base, o.Cap)
	case o.Cap > math.MaxInt64/4:
		return fmt.Errorf("retry: invalid cap %s (too long)", o.Cap)
	case !(o.Spread > 0 && o.Spread <= 1):
		return fmt.Errorf("retry: invalid spread %v (above 0, at most 1)", o.Spread)
	case o.MaxRetries < Never:
		return fmt.Errorf("retry: invalid MaxRetries %d (want a count, Unlimited or Never)", o.MaxRetries)
	case o.MaxElapsed < 0 || o.MaxRetryAfter < 0:
		return errors.New("retry: MaxElapsed and MaxRetryAfter must not be negative")
	case !slices.Contains([]Jitter{Full, Equal, Decorrelated, PlusMinus, None}, o.Jitter):
		return fmt.Errorf("retry: unknown jitter %q", o.Jitter)
	}
	return nil
}

// Policy is safe for concurrent use; it keeps no state between calls of Do.
type Policy struct{ o Options }

// New checks the options and fills in the defaults.
func New(o Options) (*Policy, error) {
	o.applyDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Policy{o}, nil
}

// Reason says why Do gave up.
type Reason string

const (
	Refused   Reason = "permanent"   // Classify said Stop
	Exhausted Reason = "max_retries" // the last retry failed too
	Elapsed   Reason = "max_elapsed" // a further wait would pass MaxElapsed
	Deadline  Reason = "deadline"    // a further wait would pass the deadline of the context
	Cancelled Reason = "cancelled"   // the context ended
)

// Error is returned by Do when it gives up. It unwraps to the error of the last attempt and, when
// the context had ended, to the cause of that.
type Error struct {
	Reason   Reason
	Attempts int // how often the function was called
	Last     error
	Cause    error // context.Cause for Cancelled, else nil
}

func (e *Error) Error() string {
	last := e.Last
	if last == nil {
		last = e.Cause
	}
	if e.Attempts == 1 && e.Reason == Refused {
		return last.Error()
	}
	return fmt.Sprintf("gave up after %d attempts (%s): %v", e.Attempts, e.Reason, last)
}

// Unwrap gives the last error and the end of the context, whichever there are.
func (e *Error) Unwrap() []error {
	errs := make([]error, 0, 2)
	if e.Last != nil {
		errs = append(errs, e.Last)
	}
	if e.Cause != nil {
		errs = append(errs, e.Cause)
	}
	return errs
}

// Do calls f until it succeeds or the policy gives up, and returns nil or an
// *Error. attempt is 0 for the first call. f is not called at all once ctx has ended.
func (p *Policy) Do(ctx context.Context, f func(ctx context.Context, attempt int) error) error {
	start := time.Now()
	var previous time.Duration
	var last error
	for n := 0; ; n++ {
		if ctx.Err() != nil {
			return &Error{Cancelled, n, last, context.Cause(ctx)}
		}
		last = f(ctx, n)
		if last == nil {
			return nil
		}
		if ctx.Err() != nil {
			return &Error{Cancelled, n + 1, last, context.Cause(ctx)}
		}
		if p.o.Classify(last) == Stop {
			return &Error{Refused, n + 1, last, nil}
		}
		if !p.Allows(n + 1) {
			return &Error{Exhausted, n + 1, last, nil}
		}
		previous = p.Delay(n, previous)
		wait := p.wait(previous, last)
		now := time.Now()
		if p.o.MaxElapsed > 0 && now.Sub(start)+wait > p.o.MaxElapsed {
			return &Error{Elapsed, n + 1, last, nil}
		}
		if at, ok := ctx.Deadline(); ok && !now.Add(wait).Before(at) {
			return &Error{Deadline, n + 1, last, nil}
		}
		if p.o.OnRetry != nil {
			p.o.OnRetry(n, wait, last)
		}
		if !Sleep(ctx, wait) {
			return &Error{Cancelled, n + 1, last, context.Cause(ctx)}
		}
	}
}

// Allows reports whether MaxRetries permits retry number n, from 1.
func (p *Policy) Allows(n int) bool { return p.o.MaxRetries == Unlimited || n <= p.o.MaxRetries }

// MaxRetryAfter is the longest wait that a server can ask for.
func (p *Policy) MaxRetryAfter() time.Duration { return p.o.MaxRetryAfter }

// wait is the backoff, or the Retry-After of the server plus up to one base delay, so that clients
// which all received "in 5 seconds" do not return in the same instant.
func (p *Policy) wait(backoff time.Duration, err error) time.Duration {
	after, ok := AfterOf(err)
	if !ok {
		return backoff
	}
	after = min(after, p.o.MaxRetryAfter)
	return max(backoff, after+p.between(0, p.o.Base))
}

// Sleep waits for d and reports whether it did so before ctx ended.
func Sleep(ctx context.Context, d time.Duration) bool { return SleepOr(ctx, d, nil) }

// SleepOr waits for d, or until changed yields something or is closed. It reports whether either happened before ctx
// ended.
func SleepOr(ctx context.Context, d time.Duration, changed <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-changed:
		return true
	case <-ctx.Done():
		return false
	}
}
