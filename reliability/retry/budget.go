package retry

import (
	"cmp"
	"fmt"
	"math"
	"sync"
	"time"
)

// BudgetOptions of a Budget.
type BudgetOptions struct {
	// Ratio of retries to first attempts that the traffic earns, in (0,1]. Default 0.2.
	Ratio float64 `yaml:"ratio" above:"0" max:"1"`
	// MinPerSecond is earned without traffic too, so that a quiet caller can retry
	// at all. Default 1; negative: 0.
	MinPerSecond float64 `yaml:"min_per_second" min:"0" max:"1000000"`
	// Burst is the most that can be saved up, and the initial amount. Default 10.
	Burst float64 `yaml:"burst" min:"1" max:"1000000"`
}

func (o *BudgetOptions) applyDefaults() {
	o.Ratio = cmp.Or(o.Ratio, 0.2)
	o.MinPerSecond = max(cmp.Or(o.MinPerSecond, 1), 0)
	o.Burst = cmp.Or(o.Burst, 10)
}

func (o *BudgetOptions) validate() error {
	switch {
	case !(o.Ratio > 0 && o.Ratio <= 1):
		return fmt.Errorf("retry: invalid budget ratio %v (above 0, at most 1)", o.Ratio)
	case !(o.Burst >= 1) || math.IsInf(o.Burst, 0):
		return fmt.Errorf("retry: invalid budget burst %v (at least 1)", o.Burst)
	case math.IsNaN(o.MinPerSecond) || math.IsInf(o.MinPerSecond, 0):
		return fmt.Errorf("retry: invalid budget minimum %v (want a finite number)", o.MinPerSecond)
	}
	return nil
}

// Budget bounds retries to a share of the traffic that was really there: a token
// bucket into which every first attempt pays Ratio, and from which every retry takes
// one. Over any time t there are at most Burst + Ratio x firsts + MinPerSecond x t
// retries. It is shared by all callers of one target and safe for concurrent use.
type Budget struct {
	o  BudgetOptions
	mu sync.Mutex
	// tokens as of last; last is when the minimum was last paid in.
	tokens float64
	last   time.Time
	spent  uint64
	denied uint64
}

// NewBudget checks the options and fills in the defaults.
func NewBudget(o BudgetOptions) (*Budget, error) {
	o.applyDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Budget{o: o, tokens: o.Burst, last: time.Now()}, nil
}

// Options returns the options with the defaults filled in.
func (b *Budget) Options() BudgetOptions { return b.o }

// Earn counts a first attempt.
func (b *Budget) Earn() {
	b.mu.Lock()
	b.tokens = min(b.tokens+b.o.Ratio, b.o.Burst)
	b.mu.Unlock()
}

// Spend takes a retry out of the budget. If the budget is empty, wait is the time until the minimum
// alone has earned a retry; 0 if only traffic can.
func (b *Budget) Spend() (ok bool, wait time.Duration) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if since := now.Sub(b.last); since > 0 {
		b.tokens = min(b.tokens+b.o.MinPerSecond*since.Seconds(), b.o.Burst)
		b.last = now
	}
	// Five payments of 0.2 must be worth one retry, despite binary fractions.
	if b.tokens >= 1-1e-9 {
		b.tokens = max(b.tokens-1, 0)
		b.spent++
		return true, 0
	}
	b.denied++
	if b.o.MinPerSecond > 0 {
		wait = time.Duration(math.Ceil((1 - b.tokens) / b.o.MinPerSecond * float64(time.Second)))
	}
	return false, wait
}

// BudgetStatus holds the figures of a Budget since it was made.
type BudgetStatus struct {
	Left          float64 // retries that could be made now
	Spent, Denied uint64  // retries made, and asked for in vain
}

// Status returns the current state.
func (b *Budget) Status() BudgetStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	return BudgetStatus{Left: b.tokens, Spent: b.spent, Denied: b.denied}
}
