package deadline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/reliability/retry"
)

// Header carries the deadline between processes.
const Header = "X-Request-Deadline"

// Default is the time that a request without a deadline of its own gets.
const Default = 5 * time.Second

type expiredError struct{}

func (expiredError) Error() string           { return "deadline passed before the work started" }
func (expiredError) RetryClass() retry.Class { return retry.ClassTimeout }
func (expiredError) Is(target error) bool    { return target == context.DeadlineExceeded }

// ErrExpired is returned instead of starting work whose time is over. It matches
// context.DeadlineExceeded too, and its class is retry.ClassTimeout.
var ErrExpired error = expiredError{}

// Parse reads the value of the header: RFC 3339, or Unix seconds with or without a fraction.
func Parse(value string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, strings.ToUpper(value)); err == nil {
		return t, nil
	}
	seconds, err := strconv.ParseFloat(value, 64)
	if err != nil || !(seconds >= 0 && seconds < 1e11) {
		return time.Time{}, errors.New("invalid deadline (want RFC 3339 or Unix seconds)")
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(part*1e9)), nil
}

// Format is the value of the header for t.
func Format(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// Set puts the deadline of ctx, if it has one, into the headers of a call. The time
// is rounded down, so it never grows on its way.
func Set(h http.Header, ctx context.Context) {
	if at, ok := ctx.Deadline(); ok {
		h.Set(Header, Format(at.Truncate(time.Millisecond)))
	}
}

// Step is the share of the time that one step of a chain may use.
type Step struct {
	// Limit is the most time it gets. 0: all of the remaining time.
	Limit time.Duration
	// Reserve is kept back for the later steps of its caller: the way back, the answer.
	Reserve time.Duration
	// Least is the shortest time that the step can be done in; with less left it is
	// not begun.
	Least time.Duration
	// Metrics counts calls that were not begun; it may be nil.
	Metrics *Metrics
}

// Begin returns the context for the step: it ends after Limit, or Reserve before the
// end of ctx if that is earlier. If too little is left, the error is ErrExpired, or
// the cause if ctx was cancelled, and the step must not be begun.
func (s Step) Begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if ctx.Err() != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, nil, s.expired()
		}
		return nil, nil, fmt.Errorf("not started: %w", context.Cause(ctx))
	}
	left, bounded := Remaining(ctx)
	left -= s.Reserve
	if bounded && (left <= 0 || left < s.Least) {
		return nil, nil, s.expired()
	}
	if s.Limit > 0 && (!bounded || s.Limit < left) {
		left, bounded = s.Limit, true
	}
	if !bounded {
		ctx, cancel := context.WithCancel(ctx)
		return ctx, cancel, nil
	}
	ctx, cancel := context.WithTimeout(ctx, left)
	return ctx, cancel, nil
}

func (s Step) expired() error {
	if s.Metrics != nil {
		s.Metrics.expired.Inc()
	}
	return ErrExpired
}

// Remaining is the time until the deadline of ctx, negative if it has passed. ok is false if it has
// no deadline.
func Remaining(ctx context.Context) (left time.Duration, ok bool) {
	at, ok := ctx.Deadline()
	if !ok {
		return 0, false
	}
	return time.Until(at), true
}

// Metrics count the work that was not begun.
type Metrics struct{ expired *metrics.Counter }

// Expired counts work that was not begun, for callers that look at the time themselves.
func (m *Metrics) Expired() { m.expired.Inc() }

// NewMetrics makes the counter of one place in set. where must be one of a few fixed words.
func NewMetrics(set *metrics.Set, where string) *Metrics {
	return &Metrics{metric.DeadlineExpired.Counter(set, where)}
}
