package dispatch

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/bulkhead"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/retry"
	"github.com/sloengine/sloengine/reliability/wal"
)

type nothing struct{}

func (nothing) Send(context.Context, []Item) Result { return Result{} }

// BenchmarkPolicies is the cost of retry budget, breaker and bulkhead for a call that succeeds.
func BenchmarkPolicies(b *testing.B) {
	br, err := breaker.New(breaker.Options{Name: "s"})
	require.NoError(b, err)
	bh, err := bulkhead.New(bulkhead.Options{Name: "s"})
	require.NoError(b, err)
	budget, err := retry.NewBudget(retry.BudgetOptions{})
	require.NoError(b, err)
	p, err := retry.New(retry.Options{Classify: retry.ByClass})
	require.NoError(b, err)
	ctx := b.Context()
	attempt := func(ctx context.Context, _ int) error {
		permit, err := br.Acquire()
		if err != nil {
			return err
		}
		defer permit.Done(breaker.Success)
		if err := bh.Acquire(ctx); err != nil {
			return err
		}
		defer bh.Release()
		return nil
	}
	b.ReportAllocs()
	for b.Loop() {
		budget.Earn()
		if err := p.Do(ctx, attempt); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCall is one call of a lane, with time-out, metrics and the goroutine that
// lets a hung sink be given up.
func BenchmarkCall(b *testing.B) {
	d, err := New(Options{
		FS: fsys.OS(), Dir: b.TempDir(), Source: &wal.Log{}, Split: splitWords,
		DeadLetter: func(context.Context, []DeadLetter) error { return nil },
	})
	require.NoError(b, err)
	l, err := newLane(d, SinkOptions{Name: "s", Sink: nothing{}})
	require.NoError(b, err)
	batch := make([]Item, 500)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if r := l.call(ctx, ctx, batch, time.Time{}); r.Err != nil {
			b.Fatal(r.Err)
		}
	}
}

// BenchmarkDispatch is the whole way of an item from the log to two sinks.
func BenchmarkDispatch(b *testing.B) {
	dir := b.TempDir()
	log, err := wal.Open(wal.Options{FS: fsys.OS(), Dir: dir + "/wal"})
	require.NoError(b, err)
	defer log.Close()
	payload := []byte(strings.TrimSpace(strings.Repeat(fmt.Sprintf("%0255d ", 7), 100)))
	const records = 200
	for range records {
		require.NoError(b, log.Append([]wal.Pending{{Time: time.Now().UnixNano(), Payload: payload}}))
	}
	n := 0
	for b.Loop() {
		n++
		d, err := New(Options{
			FS: fsys.OS(), Dir: fmt.Sprintf("%s/%d", dir, n), Source: log, Split: splitWords,
			DeadLetter: func(context.Context, []DeadLetter) error { return nil }, SaveInterval: 10 * time.Millisecond,
		})
		require.NoError(b, err)
		for _, name := range []string{"one", "two"} {
			require.NoError(b, d.Add(SinkOptions{Name: name, Sink: nothing{}, BatchWait: -1}))
		}
		ctx, stop := context.WithCancel(b.Context())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		testkit.Eventually(b, "all is delivered", func() bool { at, _ := d.Lowest(); return at == records+1 })
		stop()
		require.NoError(b, <-done)
	}
	b.ReportMetric(float64(b.N)*records*100*2/b.Elapsed().Seconds(), "items/s")
}
