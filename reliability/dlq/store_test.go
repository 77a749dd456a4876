package dlq_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/dlq/dlqtest"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
	"github.com/sloengine/sloengine/reliability/redisconn"
)

func TestMemory(t *testing.T) {
	dlqtest.Run(t, func(t *testing.T) dlq.Store {
		s, err := dlq.NewMemory(dlq.MemoryOptions{Now: dlqtest.Now})
		require.NoError(t, err)
		return s
	})
}

func TestFile(t *testing.T) {
	for name, o := range map[string]dlq.FileOptions{
		"one segment":        {},
		"many segments":      {SegmentBytes: 4 << 10},
		"in memory and many": {SegmentBytes: 5000, FS: fsystest.New()},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			dlqtest.Run(t, func(t *testing.T) dlq.Store {
				o := o
				o.Now, o.Dir = dlqtest.Now, t.TempDir()
				if o.FS != nil {
					n++
					o.Dir = fmt.Sprintf("/%d", n)
				}
				s, err := dlq.OpenFile(o)
				require.NoError(t, err)
				return s
			})
		})
	}
}

func TestRedis(t *testing.T) {
	client := dlqtest.Redis(t)
	n := 0
	dlqtest.Run(t, func(t *testing.T) dlq.Store {
		n++
		s, err := dlq.NewRedis(dlq.RedisOptions{Client: client.Client, Prefix: fmt.Sprintf("{%d}:", n), Now: dlqtest.Now})
		require.NoError(t, err)
		return s
	})
}

func TestRedisExpires(t *testing.T) {
	ctx, client := context.Background(), dlqtest.Redis(t)
	now := dlqtest.Now()
	s, err := dlq.NewRedis(dlq.RedisOptions{Client: client.Client, TTL: 2 * time.Hour, MaxEntries: 50,
		Now: func() time.Time {
			return now
		}})
	require.NoError(t, err)
	require.NoError(t, s.Save(ctx, dlqtest.Entries(0, 30)))
	require.ErrorIs(t, s.Save(ctx, dlqtest.Entries(30, 51)), dlq.ErrFull)
	require.Len(t, dlqtest.All(t, s, dlq.Query{}), 30, "all or nothing")

	now = dlqtest.Epoch.Add(2*time.Hour + 10*time.Second)
	require.Len(t, dlqtest.All(t, s, dlq.Query{}), 20)
	stats, err := s.Stats(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 20, stats.Count)
	require.EqualValues(t, 20, client.Do(t, "ZCARD", "{sloengine:dlq}:order"), "the index goes with its entries")
	require.EqualValues(t, 20, client.Do(t, "ZCARD", "{sloengine:dlq}:saved"))

	now = now.Add(time.Hour)
	stats, err = s.Stats(ctx)
	require.NoError(t, err)
	require.Zero(t, stats.Count)
	require.Zero(t, stats.Bytes)
	require.Zero(t, client.Do(t, "EXISTS", "{sloengine:dlq}:order", "{sloengine:dlq}:entries"))
	// There is no later call: everything goes by itself.
	short, err := dlq.NewRedis(dlq.RedisOptions{Client: client.Client, Prefix: "short:", TTL: time.Second})
	require.NoError(t, err)
	require.NoError(t, short.Save(ctx, []dlq.Entry{{Origin: dlq.Admission, Reason: "x"}}))
	require.Eventually(t, func() bool {
		return len(redisconn.Strings(client.Do(t, "KEYS", "short:*"))) == 0
	}, testkit.Patience, 50*time.Millisecond)
}

func TestRedisAway(t *testing.T) {
	client := dlqtest.Redis(t)
	s, err := dlq.NewRedis(dlq.RedisOptions{Client: client.Client})
	require.NoError(t, err)
	require.NoError(t, client.Close())
	require.ErrorIs(t, s.Save(context.Background(), dlqtest.Entries(0, 1)), dlq.ErrClosed)
}

// TestTimesOfAQuery: From is included in the range, and To is not.
func TestTimesOfAQuery(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	q := dlq.Query{From: at(10), To: at(20)}
	for s, want := range map[int]bool{9: false, 10: true, 19: true, 20: false} {
		require.Equal(t, want, q.Match(&dlq.Entry{Saved: at(s)}), s)
	}
}
