package fold

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/slo"
)

// backfill folds a record of backfilled events as version 0.2.0 wrote it: it covers everything between them.
func backfill(t testing.TB, f *Fold, recv time.Time, at ...time.Time) {
	t.Helper()
	backfillCovering(t, f, recv, covered{whole: true}, at...)
}

// backfillCovering folds a record of backfilled events that covers more than these.
func backfillCovering(t testing.TB, f *Fold, recv time.Time, c covered, at ...time.Time) {
	t.Helper()
	f.Advance(recv.UnixNano(), Tick)
	f.Covers(c.spans, c.whole)
	for _, x := range at {
		require.NoError(t, tryApply(f, recv, Backfill, shop(x)))
	}
}

func backfilled(t testing.TB, f *Fold, id string) []slo.Span {
	return groupOf(t, f.Sums(Request{}), id).Backfilled
}

func ago(from, to time.Duration) slo.Span { return slo.Span{From: t0.Add(-from), To: t0.Add(-to)} }

// TestOneBackfilledEventObservesNothing: the time around it was not observed.
func TestOneBackfilledEventObservesNothing(t *testing.T) {
	f := newFold(t, config(perMinute(1, "")), t0)
	f.Advance(t0.UnixNano(), Tick)
	whole := slo.Span{From: t0.Add(-5 * day), To: t0.Add(time.Minute)}
	_, sum := judged(t, f, whole)
	require.Equal(t, make([]uint64, SliceBins), sum)
	backfill(t, f, t0, t0.Add(-4*day))
	require.Equal(t, []slo.Span{ago(4*day, 4*day)}, backfilled(t, f, "shop/throughput"))
	_, sum = judged(t, f, whole)
	require.Equal(t, make([]uint64, SliceBins), sum)
}

// TestContiguousBackfillObservesItsTime sends thirty days in batches by time.
func TestContiguousBackfillObservesItsTime(t *testing.T) {
	ind := perMinute(1, "")
	ind.Retention = 30 * day
	f := newFold(t, config(ind), t0)
	whole := slo.Span{From: t0.Add(-30 * day), To: t0}
	judged(t, f, whole) // sums that have to be recalculated
	var batch []time.Time
	for at := whole.From; at.Before(t0); at = at.Add(90 * time.Second) {
		if batch = append(batch, at); len(batch) == 2000 {
			backfill(t, f, t0, batch...)
			batch = nil
		}
	}
	backfill(t, f, t0, batch...)
	require.Equal(t, []slo.Span{whole}, backfilled(t, f, ind.ID))
	tick(f, t0, t0.Add(5*time.Minute))
	_, sum := judged(t, f, whole)
	require.Equal(t, []uint64{2 * 30 * 480, 30 * 480, 2 * 30 * 480, 30 * 1440, 0}, sum)

	data, _ := encode(f)
	again := restored(t, data)
	_, sum = judged(t, again, whole)
	require.Equal(t, []uint64{2 * 30 * 480, 30 * 480, 2 * 30 * 480, 30 * 1440, 0}, sum)
}

// TestGapsOfABackfill: a gap of more than five minutes between two events of a record was not observed, unless the
// sender says so. What is said is about the services of the record's events only.
func TestGapsOfABackfill(t *testing.T) {
	m := time.Minute
	at := func(d time.Duration) time.Time { return t0.Add(-d) }
	apart := []time.Time{at(28*day + m), at(m)} // two events in one request
	for _, c := range []struct {
		name    string
		covers  covered
		events  []time.Time
		want    []slo.Span
		bad     uint64 // slices of a throughput
		another bool   // the events are of a service without an SLO
	}{
		{"28 days apart", covered{}, apart, []slo.Span{ago(28*day+m, 28*day+m), ago(m, 0)}, 0, false},
		{"said to be all", covered{spans: []slo.Span{ago(28*day+m, m)}}, apart, []slo.Span{ago(28*day+m, 0)},
			28*1440 - 1, false},
		{"as version 0.2.0 has it", covered{whole: true}, apart, []slo.Span{ago(28*day+m, 0)}, 28*1440 - 1, false},
		{"in no order", covered{}, []time.Time{at(90 * m), at(60 * m), at(85 * m), at(65 * m), at(84 * m), at(91 * m)},
			[]slo.Span{ago(91*m, 84*m), ago(65*m, 60*m)}, 8, false},
		{"two gaps, one said", covered{spans: []slo.Span{ago(70*m, 40*m)}}, []time.Time{at(90 * m), at(60 * m), at(20 * m)},
			[]slo.Span{ago(90*m, 90*m), ago(70*m, 40*m), ago(20*m, 20*m)}, 29, false},
		{"beyond its events", covered{spans: []slo.Span{ago(70*m, 40*m), ago(30*m, -m)}}, []time.Time{at(60 * m)},
			[]slo.Span{ago(70*m, 40*m), ago(30*m, 0)}, 59, false},
		{"of another service", covered{spans: []slo.Span{ago(70*m, 40*m)}}, []time.Time{at(60 * m)}, nil, 0, true},
	} {
		ind := perMinute(1, "")
		ind.Retention = 30 * day
		cfg := config(ind)
		cfg.Services = append(cfg.Services, Service{Name: "another"})
		f := newFold(t, cfg, t0)
		judged(t, f, ago(30*day, 0)) // sums that have to be recalculated
		f.Advance(t0.UnixNano(), Tick)
		f.Covers(c.covers.spans, c.covers.whole)
		for _, x := range c.events {
			e := shop(x)
			if c.another {
				e.Service = "another"
			}
			require.NoError(t, tryApply(f, t0, Backfill, e))
		}
		tick(f, t0, t0.Add(5*m))
		require.Equal(t, c.want, backfilled(t, f, ind.ID), c.name)
		_, sum := judged(t, f, ago(30*day, 0))
		require.Equal(t, c.bad, sum[SliceBad], c.name)
		data, _ := encode(f)
		require.Equal(t, c.want, backfilled(t, restored(t, data), ind.ID), c.name)

		// What a record covers is forgotten with it.
		backfillCovering(t, f, t0.Add(5*m), covered{}, at(29*day))
		require.Equal(t, append([]slo.Span{ago(29*day, 29*day)}, c.want...), backfilled(t, f, ind.ID), c.name)
	}
}

func TestBackfilledSpans(t *testing.T) {
	f := newFold(t, config(availability()), t0)
	now := t0.Add(time.Hour)
	at := func(d time.Duration) time.Time { return t0.Add(-d) }
	m := time.Minute
	for _, step := range []struct {
		name   string
		record []time.Time
		want   []slo.Span
	}{
		{"one record, in no order", []time.Time{at(90 * m), at(100 * m), at(95 * m)}, []slo.Span{ago(100*m, 90*m)}},
		{"more than five minutes later", []time.Time{at(85*m - 1), at(80 * m)},
			[]slo.Span{ago(100*m, 90*m), ago(85*m-1, 80*m)}},
		{"five minutes later", []time.Time{at(75 * m)}, []slo.Span{ago(100*m, 90*m), ago(85*m-1, 75*m)}},
		{"over both", []time.Time{at(110 * m), at(70 * m)}, []slo.Span{ago(110*m, 70*m)}},
		{"inside", []time.Time{at(80 * m)}, []slo.Span{ago(110*m, 70*m)}},
		{"after the generation began", []time.Time{at(-m)}, []slo.Span{ago(110*m, 70*m)}},
		{"over its beginning", []time.Time{at(10 * m), at(-10 * m)}, []slo.Span{ago(110*m, 70*m), ago(10*m, 0)}},
		{"older than what is kept", []time.Time{at(40 * day)}, []slo.Span{ago(110*m, 70*m), ago(10*m, 0)}},
	} {
		backfill(t, f, now, step.record...)
		require.Equal(t, step.want, backfilled(t, f, "shop/availability"), step.name)
	}

	// What a record backfills after a snapshot joins what it backfilled before.
	backfill(t, f, now, at(300*m))
	data, _ := encode(f)
	for _, f := range []*Fold{f, restored(t, data)} {
		f.Covers(nil, true)
		require.NoError(t, tryApply(f, now, Backfill, shop(at(200*m))))
		require.Equal(t, ago(300*m, 200*m), backfilled(t, f, "shop/availability")[0])
	}

	// Spans that were handed out do not change; what is too old is forgotten.
	held := backfilled(t, f, "shop/availability")
	copied := slices.Clone(held)
	f.Advance(t0.Add(30*day-200*m).UnixNano(), Tick)
	require.Len(t, backfilled(t, f, "shop/availability"), 3, "all within the retention")
	f.Advance(t0.Add(31*day).UnixNano(), Tick)
	require.Empty(t, backfilled(t, f, "shop/availability"))
	require.Equal(t, copied, held)
}

// TestBackfillsOfGenerations: an indicator observed only what came after it began.
func TestBackfillsOfGenerations(t *testing.T) {
	a, b := availability(), availability()
	b.ID, b.Valid = "shop/b", []Matcher{eq("type", "order")}
	f := newFold(t, config(a), t0)
	backfill(t, f, t0, t0.Add(-5*day), t0.Add(-2*day))
	now := t0.Add(time.Hour)
	require.NoError(t, f.SetConfig(config(a, b), now.UnixNano()))
	require.Equal(t, []slo.Span{ago(5*day, 2*day)}, backfilled(t, f, a.ID))
	require.Empty(t, backfilled(t, f, b.ID))
	backfill(t, f, now, t0.Add(-3*day), t0.Add(-day), t0.Add(time.Minute))
	require.Equal(t, []slo.Span{ago(5*day, 0)}, backfilled(t, f, a.ID), "until each began")
	require.Equal(t, []slo.Span{{From: t0.Add(-3 * day), To: t0.Add(time.Minute)}}, backfilled(t, f, b.ID))

	// A shorter retention loses nothing of the time that is left, and a longer one
	// does not bring back what is gone.
	a.Retention = 3 * day
	require.NoError(t, f.SetConfig(config(a, b), now.UnixNano()))
	require.Equal(t, t0, groupOf(t, f.Sums(Request{}), a.ID).Since)
	f.Advance(now.Add(time.Hour).UnixNano(), Tick)
	a.Retention = 30 * day
	require.NoError(t, f.SetConfig(config(a, b), now.Add(time.Hour).UnixNano()))
	kept := oldest(now.Add(time.Hour), 3*day)
	require.Equal(t, []slo.Span{{From: kept, To: t0}}, backfilled(t, f, a.ID))
	require.Equal(t, t0.Add(-3*day), backfilled(t, f, b.ID)[0].From)
	data, _ := encode(f)
	again := restored(t, data)
	backfill(t, f, now.Add(time.Hour), t0.Add(-20*day), t0.Add(-10*day))
	backfill(t, again, now.Add(time.Hour), t0.Add(-20*day), t0.Add(-10*day))
	require.Equal(t, backfilled(t, f, a.ID), backfilled(t, again, a.ID))
	require.Len(t, backfilled(t, f, a.ID), 2)
	require.Len(t, backfilled(t, f, b.ID), 2)
}

// TestEraAgainstMinutes compares with a list of minutes, whatever the order.
func TestEraAgainstMinutes(t *testing.T) {
	const minute, since = int64(time.Minute), 200
	rapid.Check(t, func(rt *rapid.T) {
		var records []upSpan
		for range rapid.IntRange(0, 12).Draw(rt, "records") {
			from := rapid.Int64Range(0, since+20).Draw(rt, "from")
			records = append(records, upSpan{from * minute, (from + rapid.Int64Range(0, 30).Draw(rt, "length")) * minute})
		}
		add := func(order []int) *era {
			e := &era{since: since * minute}
			for _, i := range order {
				before := slices.Clone(e.spans)
				lo, hi := e.add(records[i].from, records[i].to)
				for m := range int64(since) {
					if covers(before, m*minute, (m+1)*minute) {
						require.True(rt, covers(e.spans, m*minute, (m+1)*minute))
					} else if covers(e.spans, m*minute, (m+1)*minute) {
						require.True(rt, lo <= m*minute && (m+1)*minute <= hi, "minute %d is new and not in [%d, %d]",
							m, lo/minute, hi/minute)
					}
				}
			}
			return e
		}
		order := make([]int, len(records))
		for i := range order {
			order[i] = i
		}
		e := add(order)
		require.Equal(rt, e.spans, add(rapid.Permutation(order).Draw(rt, "order")).spans)

		seen := make([]bool, since+1) // a point in time is a border between minutes
		seen[since] = true
		for _, r := range records {
			for m := r.from / minute; m <= min(r.to/minute, since); m++ {
				seen[m] = true
			}
		}
		for m := range int64(since) {
			left, right := m, m+1 // the next points on both sides
			for left >= 0 && !seen[left] {
				left--
			}
			for !seen[right] {
				right++
			}
			want := left >= 0 && (right-left)*minute <= backfillGap && !(right == since && right-left > 5)
			require.Equal(rt, want, covers(e.spans, m*minute, (m+1)*minute), "minute %d of %v", m, records)
		}
	})
}

// TestBackfillsAreBounded: beyond the bound the shortest spans are forgotten.
func TestBackfillsAreBounded(t *testing.T) {
	const step = backfillGap + 100
	e := &era{since: never / 2}
	for i := range int64(maxBackfills) {
		e.add(i*step, i*step+i%2)
	}
	require.Len(t, e.spans, maxBackfills)
	end := maxBackfills * step
	lo, hi := e.add(end, end)
	require.Len(t, e.spans, maxBackfills)
	require.Equal(t, upSpan{step, step + 1}, e.spans[0], "of equal ones the earliest goes")
	require.Equal(t, []int64{0, end}, []int64{lo, hi})
	e.add(2*end, 2*end)
	require.Equal(t, []upSpan{{step, step + 1}, {3 * step, 3*step + 1}}, e.spans[:2])
	require.Len(t, e.spans, maxBackfills)
}

func TestOtherFormatsAreRefused(t *testing.T) {
	f, err := New(Options{})
	require.NoError(t, err)
	require.ErrorContains(t, f.RestorePart("state", []byte{5, 0}), "format 5, this program reads formats 6 to 8",
		"no version wrote it")
	require.ErrorContains(t, f.RestorePart("state", []byte{9, 0}), "format 9, this program reads formats 6 to 8")
	require.ErrorContains(t, f.RestorePart("config", []byte{3, 0}), "format 3, this program reads formats 2 to 2")
}

// TestBackfillOfDroppedSlicesIsUnobserved: a backfill of a time whose slices are no longer kept judges none of them, so
// it observes nothing of slices, and all of it of events. What is observed within the window stays observed when it
// leaves.
func TestBackfillOfDroppedSlicesIsUnobserved(t *testing.T) {
	plain, sliced := availability(), perMinute(0, "")
	plain.ID, sliced.Retention = "shop/plain", 7*day
	f := newFold(t, config(plain, sliced), t0)
	first := unix(f.slices[0].first * f.slices[0].per)
	spans := []slo.Span{{From: t0.Add(-20 * day), To: first}, {From: first, To: t0}}
	read := func(id string) ReadResult {
		return f.Read([]ReadRequest{{ID: id, Groups: []slo.Group{nil}, Spans: spans}})[0]
	}
	since := first
	check := func() {
		t.Helper()
		require.Equal(t, []slo.Span{{From: since, To: t0}}, read(sliced.ID).Observed)
		require.Equal(t, []slo.Span{{From: t0.Add(-20 * day), To: t0}}, read(plain.ID).Observed)
	}
	var at []time.Time
	for d := 20 * day; d > 0; d -= 5 * time.Minute {
		at = append(at, t0.Add(-d))
	}
	backfill(t, f, t0, at...)
	check()
	require.Zero(t, read(sliced.ID).Groups[0][0][SliceGood]+read(sliced.ID).Groups[0][0][SliceBad],
		"none of them is judged")
	require.NotZero(t, read(sliced.ID).Groups[0][1][SliceGood])
	f.Advance(t0.Add(6*day).UnixNano(), Start)
	require.NotZero(t, read(sliced.ID).Groups[0][1][SliceGood])
	check()

	parts, _ := encode(f)
	f = restored(t, parts)
	backfill(t, f, unix(f.rec), at...)
	check()

	// A longer retention takes in as many of them as it keeps.
	sliced.Retention = 14 * day
	require.NoError(t, f.SetConfig(config(plain, sliced), f.rec))
	check()
	backfill(t, f, unix(f.rec), at...)
	since = unix(f.slices[0].first * f.slices[0].per)
	require.True(t, since.Before(first))
	check()
}
