package dispatch

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/bulkhead"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
	"github.com/sloengine/sloengine/reliability/retry"
)

func TestOptionsAreChecked(t *testing.T) {
	b := newBench(t, nil)
	defer b.log.Close()
	f := newFake(nil)
	for name, c := range map[string]struct {
		o    SinkOptions
		want string
	}{
		"name":    {SinkOptions{Name: "../x", Sink: f}, "invalid name"},
		"no sink": {SinkOptions{Name: "s"}, "Sink or Open is required"},
		"batch":   {SinkOptions{Name: "s", Sink: f, BatchItems: -1}, "invalid batch"},
		"ttl":     {SinkOptions{Name: "s", Sink: f, TTL: -1}, "must not be negative"},
		"lag":     {SinkOptions{Name: "s", Sink: f, MaxLagBytes: 1}, "needs OnLag"},
		"growth":  {SinkOptions{Name: "s", Sink: f, Staged: Staged{Growth: 0.5}}, "at least 1"},
		"retry":   {SinkOptions{Name: "s", Sink: f, Retry: retry.Options{Spread: 1.5}}, "invalid spread 1.5"},
		"limit":   {SinkOptions{Name: "s", Sink: f, RetryLimit: &retry.LimitOptions{PerInterval: -1}}, "limit of -1"},
		"budget":  {SinkOptions{Name: "s", Sink: f, Budget: &retry.BudgetOptions{Ratio: 2}}, "budget ratio"},
		"breaker": {
			SinkOptions{Name: "s", Sink: f, Breaker: breaker.Options{Rate: breaker.Rate{Threshold: 2}}}, "failure rate"},
		"bulkhead":   {SinkOptions{Name: "s", Sink: f, Bulkhead: bulkhead.Options{Concurrency: -1}}, "concurrency"},
		"both wrong": {SinkOptions{Name: "s", TTL: -1}, "negative"},
	} {
		require.ErrorContains(t, b.d.Add(c.o), c.want, name)
	}
	require.Empty(t, b.d.Status())
	_, ok := b.d.Lowest()
	require.False(t, ok)
}

func TestADamagedCursorIsNotReset(t *testing.T) {
	b := newBench(t, nil)
	defer b.log.Close()
	require.NoError(
		t, b.fs.WriteFile("/cursors/s.cursor", []byte("sloengine sink cursor 1: record 9 item 0 sum 00000000\n")))
	require.ErrorContains(t, b.d.Add(SinkOptions{Name: "s", Sink: newFake(nil)}), "damaged")
	b.fs.FailNext(fsystest.OpOpen, errors.New("EIO"))
	require.ErrorContains(t, b.d.Add(SinkOptions{Name: "t", Sink: newFake(nil)}), "EIO")
}

// TestLocalLimitForgets: a grant counts for the window, and not a moment longer.
func TestLocalLimitForgets(t *testing.T) {
	l, err := NewLocalLimit(10, 2, 0)
	require.NoError(t, err)
	began := time.Unix(0, 0)
	l.grants, l.used = []grant{{began, 2}}, 2
	require.Equal(t, time.Duration(1), l.room(began.Add(l.window-1), 1))
	require.Zero(t, l.room(began.Add(l.window), 1))
	require.Zero(t, l.used)
}
