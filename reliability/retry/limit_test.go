package retry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestClassOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Class
	}{
		{errors.New("x"), ClassUnknown},
		{Permanent(errors.New("x")), ClassPermanent},
		{After(errors.New("x"), time.Second), ClassOverload},
		{WithClass(After(errors.New("x"), time.Second), ClassTransient), ClassTransient},
		{fmt.Errorf("send: %w", WithClass(errors.New("x"), ClassOverload)), ClassOverload},
		{context.DeadlineExceeded, ClassTimeout},
		{os.ErrDeadlineExceeded, ClassTimeout},
		{context.Canceled, ClassUnknown},
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, ClassTransient},
		{fmt.Errorf("read: %w", syscall.ECONNRESET), ClassTransient},
		{&net.DNSError{Err: "no such host", IsNotFound: true}, ClassTransient},
		{&net.DNSError{Err: "timeout", IsTimeout: true}, ClassTimeout},
	} {
		require.Equal(t, c.want, ClassOf(c.err), c.err)
	}
	for code, want := range map[int]Class{
		400: ClassPermanent, 401: ClassPermanent, 404: ClassPermanent, 408: ClassTimeout, 413: ClassPermanent,
		422: ClassPermanent, 425: ClassTransient, 429: ClassOverload, 500: ClassTransient, 501: ClassPermanent,
		502: ClassTransient, 503: ClassTransient, 504: ClassTransient, 507: ClassUnknown, 302: ClassUnknown,
	} {
		require.Equal(t, want, ClassOfStatus(code), http.StatusText(code))
	}
	for c := range Classes {
		got, ok := ParseClass(Class(c).String())
		require.True(t, ok)
		require.Equal(t, Class(c), got)
	}
	require.Equal(t, Stop, ByClass(Permanent(errors.New("x"))))
	require.Equal(t, Stop, ByClass(WithClass(errors.New("x"), ClassBreakerOpen)), "an open breaker ends the retries")
	require.Equal(t, Again, ByClass(errors.New("x")))
}

func TestBudgetIsAShareOfTheTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := NewBudget(BudgetOptions{MinPerSecond: -1, Burst: 10})
		require.NoError(t, err)
		retries := 0
		for range 10_000 { // every call fails and wants a retry
			b.Earn()
			if ok, wait := b.Spend(); ok {
				retries++
			} else {
				require.Zero(t, wait)
			}
		}
		require.InDelta(t, 2000, retries, 11)
	})
}

// TestBudgetIsBounded: no traffic saves up more than Burst.
func TestBudgetIsBounded(t *testing.T) {
	b, err := NewBudget(BudgetOptions{MinPerSecond: -1, Burst: 10})
	require.NoError(t, err)
	for range 100 {
		b.Earn()
	}
	require.Equal(t, BudgetStatus{Left: 10}, b.Status())
}

func TestBudgetMinimum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := NewBudget(BudgetOptions{MinPerSecond: 2, Burst: 1})
		require.NoError(t, err)
		ok, _ := b.Spend()
		require.True(t, ok)
		ok, wait := b.Spend()
		require.False(t, ok)
		require.Equal(t, 500*time.Millisecond, wait)
		time.Sleep(wait)
		ok, _ = b.Spend()
		require.True(t, ok)
		require.Equal(t, BudgetStatus{Left: 0, Spent: 2, Denied: 1}, b.Status())
	})
}

func TestLimitHoldsInEverySpan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 50).Draw(t, "limit")
		l, err := NewLimit(LimitOptions{PerInterval: most})
		require.NoError(t, err)
		type taken struct {
			at time.Time
			n  int
		}
		var all []taken
		now := time.Unix(0, 0)
		for range 100 {
			now = now.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "step")) * time.Millisecond)
			want := rapid.IntRange(1, 60).Draw(t, "want")
			free, _ := l.Free(now, want)
			n, wait := l.Take(now, want)
			require.Equal(t, free, n)
			require.True(t, n > 0 || wait > 0)
			if n == 0 { // and it is right about when there is one again
				now = now.Add(wait)
				n, _ = l.Take(now, 1)
				require.Equal(t, 1, n)
			}
			all = append(all, taken{now, n})
		}
		for i := range all {
			sum := 0
			for j := i; j < len(all) && all[j].at.Sub(all[i].at) < time.Second; j++ {
				sum += all[j].n
			}
			require.LessOrEqual(t, sum, most)
		}
	})
}

func TestNamesAndBounds(t *testing.T) {
	for _, o := range []LimitOptions{{PerInterval: -1}, {Interval: 1}, {OnExceed: "wait"}} {
		_, err := NewLimit(o)
		require.Error(t, err)
	}
	for _, o := range []BudgetOptions{{Ratio: 1.1}, {Ratio: -1}, {Burst: 0.5}} {
		_, err := NewBudget(o)
		require.Error(t, err)
	}
}

func BenchmarkSuccess(b *testing.B) {
	budget, err := NewBudget(BudgetOptions{})
	require.NoError(b, err)
	p, err := New(Options{Classify: ByClass})
	require.NoError(b, err)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		budget.Earn()
		if err := p.Do(ctx, func(context.Context, int) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
