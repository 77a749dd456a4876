package dispatch

import (
	"time"

	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/retry"
)

// Budget bounds the retries of a sink: a *retry.Budget, or one that several engines have in common.
type Budget interface {
	Earn()
	// Spend takes a retry. If there is none left, wait is when there may be one, or 0 if that is not known.
	Spend() (ok bool, wait time.Duration)
	Status() retry.BudgetStatus
}

// Sharing makes the breaker and the retry budget of a sink those of all engines that deliver to the same destination.
type Sharing interface {
	// Budget returns the common budget. own takes its place while the others are not reachable.
	Budget(own *retry.Budget) Budget
	// Join reports the transitions of the breaker to the other instances, and theirs to the breaker, until leave is
	// called.
	Join(b *breaker.Breaker) (leave func())
	// Changed is called after each transition of the breaker, in order. It must not block.
	Changed(from, to breaker.State, reason string)
}
