// Package dlqtest is the list of tests that every storage of dead letters has to pass, and
// a Redis server to run them against. Only tests import it.
package dlqtest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/dlq"
)

// Epoch is the time of the first entry in the tests.
var Epoch = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// Now is the clock that stores under test should have: an hour after Epoch.
func Now() time.Time { return Epoch.Add(time.Hour) }

// Entry is the i-th test entry: saved i seconds after Epoch; the origin, sink, reason and
// the rest follow from i.
func Entry(i int) dlq.Entry {
	e := dlq.Entry{
		Origin: []dlq.Origin{dlq.Fold, dlq.Sink, dlq.Admission}[i%3],
		Reason: []string{"panic", "expired", dlq.ReasonRateLimited}[i%3],
		Class:  []string{"permanent", "timeout"}[i%2], Attempts: i % 4,
		First: Epoch.Add(time.Duration(i)*time.Second - time.Minute), Last: Epoch.Add(time.Duration(i) * time.Second),
		Saved: Epoch.Add(time.Duration(i) * time.Second),
		Seq:   uint64(i + 1), Index: i % 5,
		Service: []string{"shop", "bank"}[i%2], Type: []string{"order", "payment", "login"}[i%3],
		Severity: []string{"info", "critical"}[i%2],
		Event:    json.RawMessage(fmt.Sprintf(`{"id":"e-%d","attributes":{"note":"<a & b>\u2028"}}`, i)),
	}
	if e.Origin == dlq.Sink {
		e.Sink = []string{"hook", "archive"}[i%2]
	}
	return e
}

// Entries are the test entries from..to-1.
func Entries(from, to int) (out []dlq.Entry) {
	for i := from; i < to; i++ {
		out = append(out, Entry(i))
	}
	return out
}

// All returns all pages of a query.
func All(t testing.TB, s dlq.Store, q dlq.Query) (out []dlq.Entry) {
	t.Helper()
	require.NoError(t, dlq.Each(context.Background(), s, q, func(entries []dlq.Entry) error {
		require.LessOrEqual(t, len(entries), max(q.Limit, dlq.DefaultLimit))
		out = append(out, entries...)
		return nil
	}))
	return out
}

func ids(entries []dlq.Entry) (out []string) {
	for i := range entries {
		out = append(out, entries[i].ID)
	}
	return out
}

// Run runs the list. Open gives a new empty store whose clock is Now and which has room
// for 5000 entries; Run closes it.
func Run(t *testing.T, open func(t *testing.T) dlq.Store) {
	ctx := context.Background()
	for name, test := range map[string]func(t *testing.T, s dlq.Store){
		"save and get": func(t *testing.T, s dlq.Store) {
			saved := Entries(0, 10)
			require.NoError(t, s.Save(ctx, saved))
			for i := range saved {
				require.NotEmpty(t, saved[i].ID)
				got, err := s.Get(ctx, saved[i].ID)
				require.NoError(t, err)
				require.JSONEq(t, string(saved[i].Event), string(got.Event))
				got.Event = saved[i].Event
				require.Equal(t, saved[i], got)
			}
			for _, id := range []string{"nobody", "", "with space", "\x00", strings.Repeat("x", 1000)} {
				_, err := s.Get(ctx, id)
				require.ErrorIs(t, err, dlq.ErrNotFound)
			}
			require.NoError(t, s.Save(ctx, nil))
		},
		"fills and frees": func(t *testing.T, s dlq.Store) {
			entries := []dlq.Entry{
				{Origin: dlq.Admission, Reason: "a", Event: json.RawMessage("{\n  \"x\": 1\n}")},
				{Origin: dlq.Admission, Reason: "a", Event: json.RawMessage("no\nJSON \xff")},
				{Origin: dlq.Sink, Sink: "two\nlines \"", Reason: "ünplain\n\x00", Seq: 7, SeqEnd: 9},
			}
			require.NoError(t, s.Save(ctx, entries))
			require.NotEqual(t, entries[0].ID, entries[1].ID)
			require.Equal(t, Now(), entries[0].Saved)
			got := All(t, s, dlq.Query{})
			require.Len(t, got, 3)
			require.JSONEq(t, `{"x":1}`, string(got[0].Event))
			require.Empty(t, got[1].Event)
			require.Equal(t, "no\nJSON \xff", string(got[1].Raw))
			require.Equal(t, "two\nlines \"", got[2].Sink)
			require.EqualValues(t, 9, got[2].SeqEnd)
			n, err := s.Discard(ctx, ids(got))
			require.NoError(t, err)
			require.Equal(t, 3, n)
		},
		"refuses": func(t *testing.T, s dlq.Store) {
			n := 0
			for name, change := range map[string]func(*dlq.Entry){
				"origin": func(e *dlq.Entry) { e.Origin = "moon" },
				"reason": func(e *dlq.Entry) { e.Reason = "" },
				"id":     func(e *dlq.Entry) { e.ID = "a b" },
				"time":   func(e *dlq.Entry) { e.Saved = time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC) },
				"type":   func(e *dlq.Entry) { e.Type = strings.Repeat("x", dlq.MaxEntryBytes) },
			} {
				entries := Entries(n, n+3)
				n += 3
				change(&entries[1])
				require.ErrorIs(t, s.Save(ctx, entries), dlq.ErrInvalid, name)
				require.Len(t, All(t, s, dlq.Query{}), 2, "%s: the others are kept", name)
				_, err := s.Discard(ctx, ids(All(t, s, dlq.Query{})))
				require.NoError(t, err)
			}
			for _, q := range []dlq.Query{{Limit: -1}, {Limit: 1001}, {Cursor: "!"}, {Cursor: "eA"}} {
				_, err := s.List(ctx, q)
				require.ErrorIs(t, err, dlq.ErrInvalid)
			}
			require.Empty(t, All(t, s, dlq.Query{}))
		},
		"keeps what senders choose freely": func(t *testing.T, s dlq.Store) {
			far := time.Date(99999, 1, 1, 0, 0, 0, 0, time.UTC)
			large := json.RawMessage(`"` + strings.Repeat("\x7f", dlq.MaxEntryBytes) + `"`)
			entries := []dlq.Entry{
				{Origin: dlq.Admission, Reason: "time", First: far, Last: far, From: &dlq.Place{Time: time.Unix(1<<40, 0)}},
				{Origin: dlq.Admission, Reason: "past",
					From: &dlq.Place{Time: time.Date(-4712, 1, 1, 0, 0, 0, 0, time.FixedZone("", 30*3600))}},
				{Origin: dlq.Sink, Reason: "event", Event: large, Error: strings.Repeat("\x01", dlq.MaxEntryBytes)},
				{Origin: dlq.Admission, Reason: "raw", Raw: large,
					From: &dlq.Place{Bytes: len(large), Headers: map[string]string{"h": string(large)}}},
			}
			require.NoError(t, s.Save(ctx, entries))
			got := All(t, s, dlq.Query{})
			require.Len(t, got, 4)
			require.Equal(t, 9999, got[0].From.Time.Year())
			require.Equal(t, 9999, got[0].First.Year())
			require.Equal(t, 0, got[1].From.Time.Year())
			for _, e := range got[2:] {
				require.Empty(t, e.Event, "what is cut is no event")
				require.Len(t, e.Raw, 512<<10)
				require.Contains(t, e.Error, "cut off")
			}
			_, err := s.Failed(ctx, []dlq.Failure{{ID: got[2].ID, Class: "timeout", At: far}})
			require.NoError(t, err)
		},
		"saved twice is kept once": func(t *testing.T, s dlq.Store) {
			require.NoError(t, s.Save(ctx, Entries(0, 5)))
			require.NoError(t, s.Save(ctx, Entries(3, 8)))
			require.NoError(t, s.Save(ctx, append(Entries(8, 9), Entries(8, 9)...)))
			require.Len(t, All(t, s, dlq.Query{}), 9)
			gone := ids(All(t, s, dlq.Query{}))[:4]
			_, err := s.Replayed(ctx, gone[:2])
			require.NoError(t, err)
			_, err = s.Discard(ctx, gone[2:])
			require.NoError(t, err)
			require.NoError(t, s.Save(ctx, Entries(0, 9)))
			require.Len(t, All(t, s, dlq.Query{}), 5, "what was removed is not kept again")
		},
		"pages": func(t *testing.T, s dlq.Store) {
			require.NoError(t, s.Save(ctx, Entries(0, 57)))
			want := ids(All(t, s, dlq.Query{Limit: 1000}))
			require.Len(t, want, 57)
			for i, e := range All(t, s, dlq.Query{}) {
				require.EqualValues(t, i+1, e.Seq, "oldest first")
			}
			back := slices.Clone(want)
			slices.Reverse(back)
			for _, limit := range []int{1, 10, 56, 57, 58} {
				require.Equal(t, want, ids(All(t, s, dlq.Query{Limit: limit})))
				require.Equal(t, back, ids(All(t, s, dlq.Query{Limit: limit, Newest: true})))
			}
			page, err := s.List(ctx, dlq.Query{Limit: 10})
			require.NoError(t, err)
			_, err = s.List(ctx, dlq.Query{Newest: true, Cursor: page.Next})
			require.ErrorIs(t, err, dlq.ErrInvalid)
			// Entries that are removed and added between two pages disturb neither.
			_, err = s.Discard(ctx, []string{want[9], want[10], want[3]})
			require.NoError(t, err)
			require.NoError(t, s.Save(ctx, Entries(57, 58)))
			rest := All(t, s, dlq.Query{Limit: 10, Cursor: page.Next})
			require.Equal(t, want[11:], ids(rest[:len(rest)-1]))
			require.EqualValues(t, 58, rest[len(rest)-1].Seq)
		},
		"filters": func(t *testing.T, s dlq.Store) {
			require.NoError(t, s.Save(ctx, Entries(0, 60)))
			all := All(t, s, dlq.Query{})
			for _, q := range []dlq.Query{
				{Origin: dlq.Fold}, {Sink: "hook"}, {Service: "bank"}, {Type: "payment"}, {Severity: "critical"},
				{Reason: "expired"}, {Class: "timeout"}, {Origin: dlq.Sink, Sink: "archive", Service: "shop"},
				{From: Epoch.Add(10 * time.Second)}, {To: Epoch.Add(10 * time.Second)},
				{From: Epoch.Add(10 * time.Second), To: Epoch.Add(20 * time.Second), Reason: "panic"},
				{From: Epoch.Add(10*time.Second + 1)}, {To: Epoch.Add(10*time.Second + 1)},
				{Services: []string{"shop"}}, {Services: []string{"shop", "bank", "none"}, Type: "order"},
				{Services: []string{"bank"}, Service: "shop"},
				{Services: []string{"none"}}, {Services: []string{}}, {Reason: "none"}, {Sink: "none"},
				{From: Epoch.Add(time.Hour)}, {To: Epoch},
			} {
				var want []string
				for i := range all {
					if q.Match(&all[i]) {
						want = append(want, all[i].ID)
					}
				}
				q.Limit = 7
				require.Equal(t, want, ids(All(t, s, q)), "%+v", q)
				q.Newest = true
				slices.Reverse(want)
				require.Equal(t, want, ids(All(t, s, q)), "%+v", q)
			}
		},
		"removal and stats": func(t *testing.T, s dlq.Store) {
			stats, err := s.Stats(ctx)
			require.NoError(t, err)
			require.Zero(t, stats.Count)
			require.Zero(t, stats.Oldest)
			require.NoError(t, s.Save(ctx, Entries(0, 30)))
			full, err := s.Stats(ctx)
			require.NoError(t, err)
			require.EqualValues(t, 30, full.Count)
			require.Equal(t, map[string]int64{"panic": 10, "expired": 10, "rate_limited": 10}, full.ByReason)
			require.Equal(t, map[string]int64{"fold": 10, "sink": 10, "admission": 10}, full.ByOrigin)
			require.Equal(t, map[string]int64{"hook": 5, "archive": 5}, full.BySink)
			require.Equal(t, Epoch, full.Oldest)
			require.Positive(t, full.Bytes)
			all := ids(All(t, s, dlq.Query{}))
			n, err := s.Discard(ctx, append([]string{"nobody", all[0], "b a d"}, all[:3]...))
			require.NoError(t, err)
			require.Equal(t, 3, n)
			n, err = s.Replayed(ctx, []string{all[0], all[4]})
			require.NoError(t, err)
			require.Equal(t, 1, n)
			stats, err = s.Stats(ctx)
			require.NoError(t, err)
			require.EqualValues(t, 26, stats.Count)
			require.Equal(t, Epoch.Add(3*time.Second), stats.Oldest)
			require.Less(t, stats.Bytes, full.Bytes)
			_, err = s.Get(ctx, all[4])
			require.ErrorIs(t, err, dlq.ErrNotFound)
			n, err = s.Discard(ctx, all)
			require.NoError(t, err)
			require.Equal(t, 26, n)
			stats, err = s.Stats(ctx)
			require.NoError(t, err)
			require.Zero(t, stats.Count)
			require.Zero(t, stats.Bytes)
			require.Zero(t, stats.Oldest)
		},
		"failed replays": func(t *testing.T, s dlq.Store) {
			require.NoError(t, s.Save(ctx, Entries(0, 6)))
			before := All(t, s, dlq.Query{})
			n, err := s.Failed(ctx, []dlq.Failure{{ID: before[1].ID, Class: "overload", At: Now()}, {ID: "nobody"}})
			require.NoError(t, err)
			require.Equal(t, 1, n)
			after := All(t, s, dlq.Query{})
			require.Len(t, after, 6)
			moved := after[5]
			require.Equal(t, before[1].ID, moved.ID)
			require.Equal(t, before[1].Attempts+1, moved.Attempts)
			require.Equal(t, "overload", moved.Class)
			require.Equal(t, Now(), moved.Last)
			require.Equal(t, before[1].First, moved.First)
			require.Equal(t, before[1].Saved, moved.Saved)
			got, err := s.Get(ctx, moved.ID)
			require.NoError(t, err)
			require.Equal(t, moved, got)
			stats, err := s.Stats(ctx)
			require.NoError(t, err)
			require.EqualValues(t, 6, stats.Count)
			n, err = s.Discard(ctx, []string{moved.ID})
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.Len(t, All(t, s, dlq.Query{}), 5)
		},
		"purge": func(t *testing.T, s dlq.Store) {
			require.NoError(t, s.Save(ctx, Entries(0, 40)))
			n, err := s.Purge(ctx, Epoch)
			require.NoError(t, err)
			require.Zero(t, n)
			n, err = s.Purge(ctx, Epoch.Add(15*time.Second))
			require.NoError(t, err)
			require.Equal(t, 15, n)
			left := All(t, s, dlq.Query{})
			require.Len(t, left, 25)
			require.EqualValues(t, 16, left[0].Seq)
			stats, err := s.Stats(ctx)
			require.NoError(t, err)
			require.Equal(t, Epoch.Add(15*time.Second), stats.Oldest)
			n, err = s.Purge(ctx, Now())
			require.NoError(t, err)
			require.Equal(t, 25, n)
			require.NoError(t, s.Save(ctx, Entries(100, 103)))
			require.Len(t, All(t, s, dlq.Query{}), 3)
		},
		"discard matching": func(t *testing.T, s dlq.Store) {
			require.NoError(t, s.Save(ctx, Entries(0, 40)))
			for _, dry := range []bool{true, true, false} {
				n, err := dlq.DiscardMatching(ctx, s, dlq.Query{Service: "bank"}, dry)
				require.NoError(t, err)
				require.Equal(t, 20, n)
			}
			require.Len(t, All(t, s, dlq.Query{}), 20)
			require.Empty(t, All(t, s, dlq.Query{Service: "bank"}))
		},
		"many at once": func(t *testing.T, s dlq.Store) {
			var group sync.WaitGroup
			for w := range 8 {
				group.Go(func() {
					for i := range 20 {
						from := w*200 + i*10
						if err := s.Save(ctx, Entries(from, from+10)); err != nil {
							t.Error(err)
						}
						page, err := s.List(ctx, dlq.Query{Limit: 3, Newest: i%2 == 0, Service: "shop"})
						if err != nil {
							t.Error(err)
						}
						if len(page.Entries) > 0 && i%4 == 0 {
							if _, err := s.Failed(ctx, []dlq.Failure{{ID: page.Entries[0].ID, At: Now()}}); err != nil {
								t.Error(err)
							}
						}
						if _, err := s.Stats(ctx); err != nil {
							t.Error(err)
						}
						if c, ok := s.(dlq.Compacter); ok && i%10 == 9 {
							if err := c.Compact(ctx); err != nil {
								t.Error(err)
							}
						}
					}
				})
			}
			group.Wait()
			seen := map[string]bool{}
			for _, e := range All(t, s, dlq.Query{Limit: 100}) {
				require.False(t, seen[e.ID])
				seen[e.ID] = true
			}
			require.Len(t, seen, 1600)
		},
		"cancelled": func(t *testing.T, s dlq.Store) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			require.ErrorIs(t, s.Save(ctx, Entries(0, 1)), context.Canceled)
			_, err := s.List(ctx, dlq.Query{})
			require.ErrorIs(t, err, context.Canceled)
			_, err = s.Discard(ctx, []string{"x"})
			require.ErrorIs(t, err, context.Canceled)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			defer func() { require.NoError(t, s.Close()) }()
			test(t, s)
		})
	}
}
