package dlq

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"
)

// taker is an origin that records its entries.
type taker struct {
	mu    sync.Mutex
	ids   []string
	at    []time.Time
	fails func(e *Entry) error
	peak  int
}

func (k *taker) take(_ context.Context, entries []Entry) (errs []error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.peak = max(k.peak, len(entries))
	for i := range entries {
		var err error
		if k.fails != nil {
			err = k.fails(&entries[i])
		}
		errs = append(errs, err)
		if err == nil {
			k.ids, k.at = append(k.ids, entries[i].ID), append(k.at, time.Now())
		}
	}
	return errs
}

// perSecond is the largest number within any second.
func (k *taker) perSecond() (peak int) {
	for i := range k.at {
		n := 0
		for _, at := range k.at[i:] {
			if at.Sub(k.at[i]) < time.Second {
				n++
			}
		}
		peak = max(peak, n)
	}
	return peak
}

func memoryWith(t *testing.T, entries []Entry) *Memory {
	s, err := NewMemory(MemoryOptions{})
	require.NoError(t, err)
	require.NoError(t, s.Save(context.Background(), entries))
	return s
}

func TestReplayOldestFirstAndNotTooFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := memoryWith(t, testEntries(0, 300))
		k := &taker{}
		set := metrics.NewSet()
		r, err := NewReplayer(
			ReplayOptions{Store: s, Targets: map[Origin]Target{Fold: k.take}, Rate: 50, Metrics: NewMetrics(set)})
		require.NoError(t, err)
		dry, err := r.Replay(ctx, Query{}, true)
		require.NoError(t, err)
		require.Equal(t, ReplayResult{DryRun: true, Matched: 300, Replayed: 300}, dry)
		require.Empty(t, k.ids)
		want := idsOf(listAll(t, s))
		began := time.Now()
		result, err := r.Replay(ctx, Query{}, false)
		require.NoError(t, err)
		require.Equal(t, ReplayResult{Matched: 300, Replayed: 300}, result)
		require.Equal(t, want, k.ids)
		require.InDelta(t, 6, time.Since(began).Seconds(), 0.2)
		require.LessOrEqual(t, k.perSecond(), 50, "never more than the limit within a second")
		require.Empty(t, listAll(t, s))
		var text strings.Builder
		set.WritePrometheus(&text)
		require.Contains(t, text.String(), `sloengine_dlq_replayed_total{result="ok"} 300`)
	})
}

// Critical entries are replayed before all others, the oldest first, and each once.
func TestReplayTakesCriticalFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entries := testEntries(0, 250)
		var want, others []string
		for i := range entries {
			entries[i].Severity = "error"
			if i%100 == 99 {
				entries[i].Severity = "critical"
			}
		}
		s := memoryWith(t, entries)
		for _, e := range listAll(t, s) {
			if e.Severity == "critical" {
				want = append(want, e.ID)
			} else {
				others = append(others, e.ID)
			}
		}
		require.Len(t, want, 2)
		k := &taker{}
		r, err := NewReplayer(ReplayOptions{Store: s, Targets: map[Origin]Target{Fold: k.take}, Rate: 1000})
		require.NoError(t, err)
		for _, dryRun := range []bool{true, false} {
			result, err := r.Replay(context.Background(), Query{}, dryRun)
			require.NoError(t, err)
			require.Equal(t, ReplayResult{DryRun: dryRun, Matched: 250, Replayed: 250}, result)
		}
		require.Equal(t, append(want, others...), k.ids)
	})
}

func TestReplayOfWhatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		entries := append(testEntries(0, 30),
			Entry{ID: "s1", Origin: Sink, Sink: "dead", Reason: "expired"},
			Entry{ID: "s2", Origin: Sink, Sink: "dead", Reason: "expired"},
			Entry{ID: "s0", Origin: Sink, Sink: "dead", Reason: "expired"},
			Entry{ID: "s3", Origin: Sink, Sink: "well", Reason: "expired"}, Entry{ID: "a1", Origin: Admission, Reason: "x"})
		s := memoryWith(t, entries)
		k := &taker{fails: func(e *Entry) error {
			if e.Sink == "dead" || e.Seq == 3 {
				return errors.New("no")
			}
			return nil
		}}
		r, err := NewReplayer(
			ReplayOptions{Store: s, Targets: map[Origin]Target{Fold: k.take, Sink: k.take}, Batch: 10, Rate: 10, StopAfter: 2,
				Classify: func(error) string { return "overload" }})
		require.NoError(t, err)
		result, err := r.Replay(ctx, Query{}, false)
		require.NoError(t, err)
		require.Equal(t, 30, result.Replayed)
		require.Equal(t, 3, result.Failed)
		require.Equal(t, 1, result.HeldBack, "the dead sink is not asked again")
		require.Equal(t, 1, result.NoTarget)
		require.Equal(t, 35, result.Matched)
		require.Equal(t, []string{"fold-3-0: no", "s1: no", "s2: no"}, result.Errors)
		left := listAll(t, s)
		require.Equal(t, []string{"s0", "a1", "fold-3-0", "s1", "s2"}, idsOf(left), "failed ones go behind the others")
		require.Equal(t, 1, left[2].Attempts)
		require.Equal(t, "overload", left[2].Class)
	})
}

func TestReplayByIDAndAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := memoryWith(t, testEntries(0, 5))
		time.Sleep(2 * time.Hour)
		require.NoError(t, s.Save(ctx, testEntries(5, 8)))
		k := &taker{}
		r, err := NewReplayer(ReplayOptions{Store: s, Targets: map[Origin]Target{Fold: k.take}, MaxAge: time.Hour})
		require.NoError(t, err)
		result, err := r.Replay(ctx, Query{}, false)
		require.NoError(t, err)
		require.Equal(t, ReplayResult{Matched: 8, Replayed: 3, TooOld: 5}, result)
		result, err = r.ReplayIDs(ctx, []string{"fold-2-0", "fold-2-0", "nobody", "fold-1-0"}, true)
		require.NoError(t, err)
		require.Equal(t, 2, result.Replayed)
		k.ids = nil
		result, err = r.ReplayIDs(ctx, []string{"fold-2-0", "fold-2-0", "nobody", "fold-1-0"}, false)
		require.NoError(t, err)
		require.Equal(t, 2, result.Replayed)
		require.Equal(t, 1, result.NotFound)
		require.Equal(t, []string{"fold-2-0", "fold-1-0"}, k.ids)
		require.Len(t, listAll(t, s), 3)
	})
}

func TestReplayStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 2500*time.Millisecond)
		defer cancel()
		s := memoryWith(t, testEntries(0, 100))
		k := &taker{}
		r, err := NewReplayer(ReplayOptions{Store: s, Targets: map[Origin]Target{Fold: k.take}, Rate: 10})
		require.NoError(t, err)
		_, err = r.Replay(ctx, Query{}, false)
		require.Error(t, err)
		require.NotEmpty(t, k.ids)
		require.Len(t, listAll(t, s), 100-len(k.ids), "what was taken is noted")
	})
}

// Two replays at once give nothing back twice.
func TestReplaysTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memoryWith(t, testEntries(0, 100))
		k := &taker{}
		r, err := NewReplayer(ReplayOptions{Store: s, Targets: map[Origin]Target{Fold: k.take}})
		require.NoError(t, err)
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				if _, err := r.Replay(context.Background(), Query{}, false); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		require.Len(t, k.ids, 100)
	})
}

func TestReplayBySchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // begins at midnight UTC
		ctx, cancel := context.WithCancel(context.Background())
		s := memoryWith(t, testEntries(0, 3))
		k := &taker{}
		var runs []time.Time
		r, err := NewReplayer(ReplayOptions{Store: s, Targets: map[Origin]Target{Fold: k.take}, Cron: "*/15 * * * *",
			Done: func(ReplayResult, error) { runs = append(runs, time.Now()) }})
		require.NoError(t, err)
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		time.Sleep(16 * time.Minute)
		synctest.Wait()
		require.Len(t, k.ids, 3)
		require.NoError(t, s.Save(ctx, testEntries(3, 5)))
		time.Sleep(15 * time.Minute)
		synctest.Wait()
		require.Len(t, k.ids, 5)
		require.Len(t, runs, 2)
		cancel()
		require.NoError(t, <-done)
	})
}

func TestRetentionBySchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		s := memoryWith(t, testEntries(0, 3)) // midnight
		var runs []time.Time
		var total int
		r, err := NewRetention(RetentionOptions{Store: s, MaxAge: 48 * time.Hour, Done: func(n int, err error) {
			total += n
			runs = append(runs, time.Now().UTC())
			require.NoError(t, err)
		}})
		require.NoError(t, err)
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		time.Sleep(49*time.Hour + 30*time.Minute) // the third day, 01:30
		synctest.Wait()
		require.Len(t, listAll(t, s), 3)
		time.Sleep(time.Hour)
		require.Empty(t, listAll(t, s))
		require.Equal(t, 3, total)
		require.Len(t, runs, 3)
		require.Equal(t, 2, runs[2].Hour())
		cancel()
		require.NoError(t, <-done)
		// An engine that is never up at that hour is cleaned at its start.
		require.NoError(t, s.Save(context.Background(), testEntries(10, 12)))
		time.Sleep(4*24*time.Hour + time.Hour)
		ctx, cancel = context.WithCancel(context.Background())
		go func() { done <- r.Run(ctx) }()
		synctest.Wait()
		require.Empty(t, listAll(t, s))
		cancel()
		require.NoError(t, <-done)
	})
}

// By a clock that jumped ahead everything is old.
func TestRetentionWaitsForTheClock(t *testing.T) {
	s, refused, purged := memoryWith(t, testEntries(0, 3)), true, 0
	var failure error
	r, err := NewRetention(RetentionOptions{
		Store: s, Now: func() time.Time { return time.Now().AddDate(10, 0, 0) }, Refused: func() bool { return refused },
		Done: func(n int, err error) { purged, failure = n, err },
	})
	require.NoError(t, err)
	r.tick(t.Context())
	require.ErrorContains(t, failure, "the clock jumped ahead")
	require.Len(t, listAll(t, s), 3)
	refused = false
	r.tick(t.Context())
	require.NoError(t, failure)
	require.Equal(t, 3, purged)
}

func TestSchedule(t *testing.T) {
	moscow, err := time.LoadLocation("Europe/Moscow")
	require.NoError(t, err)
	york, err := time.LoadLocation("America/New_York")
	require.NoError(t, err)
	for _, c := range []struct {
		text      string
		zone      *time.Location
		now, want string
	}{
		{"0 2 * * *", nil, "2026-11-20T02:00:00Z", "2026-11-21T02:00:00Z"},
		{"0 2 * * *", nil, "2026-11-20T01:59:59.5Z", "2026-11-20T02:00:00Z"},
		{"0 2 * * *", moscow, "2026-11-20T12:00:00Z", "2026-11-20T23:00:00Z"},
		{"30 1 * * 1", nil, "2026-11-20T12:00:00Z", "2026-11-23T01:30:00Z"},
		{"@daily", nil, "2026-11-20T12:00:00Z", "2026-11-21T00:00:00Z"},
		{"0 3 * * *", york, "2026-03-08T05:00:00Z", "2026-03-08T07:00:00Z"}, // the clock jumps from 2 to 3
		{"0 3 * * *", york, "2026-11-01T04:30:00Z", "2026-11-01T08:00:00Z"}, // and back
		{"0 0 29 2 *", nil, "2026-11-20T12:00:00Z", "2028-02-29T00:00:00Z"},
	} {
		s, err := ParseSchedule(c.text, c.zone)
		require.NoError(t, err)
		now, err := time.Parse(time.RFC3339Nano, c.now)
		require.NoError(t, err)
		next, err := s.Next(now)
		require.NoError(t, err)
		require.Equal(t, c.want, next.UTC().Format(time.RFC3339), c.text)
	}
	for _, text := range []string{"", "x", "0 2 * *", "61 * * * *", "0 0 30 2 *"} {
		_, err := ParseSchedule(text, nil)
		require.Error(t, err, text)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	s := memoryWith(t, nil)
	for _, o := range []ReplayOptions{{}, {Store: s, Batch: 1001}, {Store: s, Rate: -1}, {Store: s, MaxAge: -1},
		{Store: s, Cron: "x"}} {
		_, err := NewReplayer(o)
		require.Error(t, err)
	}
	for _, o := range []RetentionOptions{{}, {Store: s, MaxAge: -1}, {Store: s, Cron: "x"}} {
		_, err := NewRetention(o)
		require.Error(t, err)
	}
	for rate, want := range map[float64]int{1: 1, 0.5: 1, 50: 5, 15: 1, 100: 10, 1000: 100, 97: 1, 24: 2} {
		require.Equal(t, want, chunkFor(rate, 100))
	}
}
