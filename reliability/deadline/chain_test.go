package deadline_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/bulkhead"
	"github.com/sloengine/sloengine/reliability/deadline"
	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/reliability/retry"
)

// docs/resilience.md shows the code between the marks.

// dependency is a service that this one calls, with the policies of all calls to it.
type dependency struct {
	step     deadline.Step
	retry    *retry.Policy
	budget   *retry.Budget
	breaker  *breaker.Breaker
	bulkhead *bulkhead.Bulkhead
	last     atomic.Pointer[answer] // the last good one
}

type answer struct {
	text string
	at   time.Time // when it was good
}

// get calls the service, and gives its last good answer or the placeholder instead of a temporary error.
func (d *dependency) get(ctx context.Context, call func(context.Context) (string, error),
	placeholder string) (answer, error) {
	ctx, cancel, err := d.step.Begin(ctx) // its share of the remaining time of the request
	if err != nil {
		return answer{}, err
	}
	defer cancel()
	var got answer
	// begin
	err = d.retry.Do(ctx, func(ctx context.Context, attempt int) error {
		if attempt == 0 {
			d.budget.Earn()
		} else if ok, _ := d.budget.Spend(); !ok {
			return retry.WithClass(errors.New("retry budget exhausted"), retry.ClassBreakerOpen) // no further attempt
		}
		permit, err := d.breaker.Acquire()
		if err != nil {
			return err
		}
		err = d.bulkhead.Acquire(ctx)
		if err == nil {
			got.text, err = call(ctx)
			d.bulkhead.Release()
		}
		permit.Done(breaker.Judge(err))
		return err
	})
	// end
	class := retry.ClassOf(err)
	switch last := d.last.Load(); {
	case err == nil:
		got.at = time.Now()
		d.last.Store(&got)
		return got, nil
	case class == retry.ClassPermanent || class == retry.ClassTimeout:
		return answer{}, err // a fallback would hide a mistake, or come too late
	case last != nil:
		return *last, nil // at says how old it is
	}
	return answer{text: placeholder}, nil
}

func newDependency(t *testing.T, name string, step deadline.Step, set *metrics.Set) *dependency {
	t.Helper()
	d := &dependency{step: step}
	var errs [4]error
	d.retry, errs[0] = retry.New(retry.Options{Base: 50 * time.Millisecond, Jitter: retry.None, MaxRetries: 1})
	d.budget, errs[1] = retry.NewBudget(retry.BudgetOptions{})
	d.breaker, errs[2] = breaker.New(breaker.Options{Name: name, Metrics: breaker.NewMetrics(set)})
	d.bulkhead, errs[3] = bulkhead.New(bulkhead.Options{Name: name, Metrics: bulkhead.NewMetrics(set)})
	require.NoError(t, errors.Join(errs[:]...))
	return d
}

// TestCallChain runs the chain of docs/resilience.md in its own time: calls side by side take as long as the longest,
// and calls within a call are part of it.
func TestCallChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := metrics.NewSet()
		const reserve = 600 * time.Millisecond // the answer, and a reserve
		order := newDependency(t, "order", deadline.Step{Limit: 500 * time.Millisecond, Reserve: reserve}, set)
		stock := newDependency(t, "stock", deadline.Step{Limit: 200 * time.Millisecond, Reserve: 20 * time.Millisecond}, set)
		profile := newDependency(t, "profile", deadline.Step{Limit: 300 * time.Millisecond, Reserve: reserve}, set)
		catalog := newDependency(t, "catalog", deadline.Step{Limit: 250 * time.Millisecond, Reserve: reserve}, set)
		down := false
		takes := func(d time.Duration) func(context.Context) (string, error) {
			return func(ctx context.Context) (string, error) {
				if !retry.Sleep(ctx, d) {
					return "", context.Cause(ctx)
				}
				return "good", nil
			}
		}
		request := func() (answers []answer, took time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			start := time.Now()
			require.True(t, retry.Sleep(ctx, 150*time.Millisecond)) // gateway 50, aggregator 100
			answers = make([]answer, 3)
			var group sync.WaitGroup
			group.Go(func() {
				answers[0], _ = order.get(ctx, func(ctx context.Context) (string, error) {
					if _, err := stock.get(ctx, takes(200*time.Millisecond-time.Nanosecond), "unknown"); err != nil {
						return "", err
					}
					return takes(300 * time.Millisecond)(ctx)
				}, "pending")
			})
			group.Go(func() { answers[1], _ = profile.get(ctx, takes(299*time.Millisecond), "guest") })
			group.Go(func() {
				answers[2], _ = catalog.get(ctx, func(ctx context.Context) (string, error) {
					if down {
						return "", &remote.StatusError{Status: http.StatusServiceUnavailable, Class: retry.ClassTransient}
					}
					return takes(100 * time.Millisecond)(ctx)
				}, "temporarily unavailable")
			})
			group.Wait()
			require.True(t, retry.Sleep(ctx, 100*time.Millisecond)) // serialization and network
			return answers, time.Since(start)
		}

		down = true
		got, _ := request()
		require.Equal(t, answer{text: "temporarily unavailable"}, got[2], "nothing good is known yet")
		down = false
		good, took := request()
		require.Equal(t, 750*time.Millisecond, took.Round(time.Microsecond),
			"1,250 ms with 500 ms in hand, not the 2,000 ms of all parts")
		require.Equal(t, "good", good[2].text)
		down = true
		for range 5 {
			got, _ = request()
			require.Equal(t, good[2], got[2], "the last good answer, with its time")
			require.Equal(t, "good", got[0].text, "other services are not affected")
		}
		require.Equal(t, breaker.Open, catalog.breaker.State())
		var text strings.Builder
		set.WritePrometheus(&text)
		require.Contains(t, text.String(), `sloengine_breaker_state{breaker="catalog"} 2`)
		require.Contains(t, text.String(), `sloengine_breaker_state{breaker="order"} 0`)
		require.Contains(t, text.String(), `sloengine_bulkhead_active{bulkhead="catalog"} 0`)
	})
}

// TestTheDocumentShowsTheExample holds docs/resilience.md to the code above.
func TestTheDocumentShowsTheExample(t *testing.T) {
	source, err := os.ReadFile("chain_test.go")
	require.NoError(t, err)
	_, code, _ := strings.Cut(string(source), "\t// begin\n")
	code, _, _ = strings.Cut(code, "\t// end\n")
	page, err := os.ReadFile("../../docs/resilience.md")
	require.NoError(t, err)
	require.Contains(t, string(page), "```go\n"+code+"```")
}
