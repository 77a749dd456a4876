package kafkaclient

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/sloengine/sloengine/reliability/retry"
)

// errUnknown is the outcome of a record that the client could not give up: it may be in the topic or get there yet.
var errUnknown = retry.WithClass(
	errors.New("the brokers did not acknowledge the event in time, it may be delivered twice"), retry.ClassTimeout)

// acks are the outcomes of a batch. Those of the client come on its goroutines, also after the batch has been given up.
type acks struct {
	mu    sync.Mutex
	errs  []error // errUnknown until the outcome is known
	known []bool
	left  int
	moved chan struct{} // has room for one
}

func newAcks(n int) *acks {
	a := &acks{errs: make([]error, n), known: make([]bool, n), left: n, moved: make(chan struct{}, 1)}
	for i := range a.errs {
		a.errs[i] = errUnknown
	}
	return a
}

// done notes an outcome, in place of an earlier one.
func (a *acks) done(i int, err error) {
	a.mu.Lock()
	a.errs[i] = err
	if !a.known[i] {
		a.known[i] = true
		a.left--
	}
	a.mu.Unlock()
	select {
	case a.moved <- struct{}{}:
	default:
	}
}

// wait returns when all but some outcomes are known, or soon after ctx ends.
func (a *acks) wait(ctx context.Context, but int) {
	ended := ctx.Done()
	var late <-chan time.Time
	for {
		a.mu.Lock()
		left := a.left
		a.mu.Unlock()
		if left <= but {
			return
		}
		select {
		case <-a.moved:
		case <-ended:
			t := time.NewTimer(giveUp)
			defer t.Stop()
			late, ended = t.C, nil
		case <-late:
			return
		}
	}
}

// list is a copy of the outcomes.
func (a *acks) list() []error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.errs)
}
