package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
	"github.com/sloengine/sloengine/reliability/ratelimit"
	"github.com/sloengine/sloengine/reliability/wal"
)

// sums is a State that adds up the counts of events, and the drops.
type sums struct {
	*tally
	events, dropped uint64
	durations       map[time.Duration]uint64
	records         int // of events
}

func newSums() *sums { return &sums{tally: newTally(), durations: map[time.Duration]uint64{}} }

func (s *sums) Apply(rec wal.Record, refuse Refuse) error {
	switch rec.Type {
	case record.TypeEvents, record.TypeReplay:
		return EachEvent(rec.Payload, func(_ bool, v *event.View) error {
			n := uint64(v.Count) * uint64(v.Weight)
			s.events += n
			if v.Duration >= 0 {
				s.durations[time.Duration(v.Duration)] += n
			}
			for d, c := range v.Durations {
				s.durations[time.Duration(d)] += uint64(c)
			}
			s.records++
			return nil
		}, refuse)
	case record.TypeDropped:
		return record.ParseDropped(rec.Payload, func(d *record.Dropped) {
			s.dropped += d.N
			if string(d.Service) != "shop" || string(d.Type) != "order" || string(d.Reason) != reasonLimited {
				panic(fmt.Sprintf("dropped %q %q %q", d.Service, d.Type, d.Reason))
			}
		})
	}
	return s.tally.Apply(rec, refuse)
}

// timed is a batch of events that take a duration each.
func timed(from, to int) *event.Batch {
	b := &event.Batch{Received: to - from}
	for i := from; i < to; i++ {
		id := fmt.Sprint("e", i)
		item := event.Item{
			Index: i - from, Start: len(b.Buf), HasKey: true, Key: event.Key([]byte("shop"), []byte(id)), Time: 1e18}
		e := event.Event{ID: id, Time: time.Unix(1e9, int64(i)), Service: "shop", Type: "order",
			Duration: time.Duration(i%7) * time.Millisecond, HasDuration: true}
		e.Set("order", id)
		e.Set("region", fmt.Sprint(i%2))
		b.Buf = event.AppendBinary(b.Buf, &e)
		item.End = len(b.Buf)
		b.Events = append(b.Events, item)
	}
	return b
}

func limiter(t testing.TB, limit int64, strategy ratelimit.Strategy, rate float64) *ratelimit.Limiter {
	t.Helper()
	window := time.Hour
	values := ratelimit.Values{Limit: &limit, Window: &window, OnExceeded: &strategy, SampleRate: &rate}
	policy, err := ratelimit.Compile(ratelimit.Config{Global: &values, Default: values})
	require.NoError(t, err)
	l, err := ratelimit.New(ratelimit.Options{Policy: policy})
	require.NoError(t, err)
	return l
}

func ticketsOf(t testing.TB, l *ratelimit.Limiter, b *event.Batch) *ratelimit.Tickets {
	t.Helper()
	out := &ratelimit.Tickets{}
	var v event.View
	for i := range b.Events {
		_, err := v.Parse(b.Event(i))
		require.NoError(t, err)
		l.Policy().Add(&ratelimit.Caller{},
			&ratelimit.Subject{Service: v.Service, Type: v.Type, Attrs: &v, Sample: b.Events[i].Key.Lo}, out)
	}
	return out
}

// 1000 events against a limit of 100. For every strategy, counted, sampled and dropped events add
// up to all events, sending all again changes nothing, and a replay of the log gives the same.
func TestStrategiesLoseNothingSilently(t *testing.T) {
	const events, limit = 1000, 100
	all := timed(0, events)
	exact := map[time.Duration]uint64{}
	for i := range events {
		exact[time.Duration(i%7)*time.Millisecond]++
	}
	for name, strategy := range map[string]ratelimit.Strategy{
		"drop": ratelimit.OnExceededDrop, "sample": ratelimit.OnExceededSample,
		"aggregate": ratelimit.OnExceededAggregate, "throttle": ratelimit.OnExceededThrottle,
	} {
		t.Run(name, func(t *testing.T) {
			disk := fsystest.New()
			l := limiter(t, limit, strategy, 0.1)
			opt := testOptions(disk)
			state := newSums()
			opt.State, opt.Limiter, opt.SegmentBytes = state, l, 1<<20
			opt.MergeBy = func([]byte) ([]string, time.Duration) { return []string{"region"}, time.Minute }
			r := start(t, opt)
			admit := func(b *event.Batch) (sum Result) {
				for from := 0; from < len(b.Events); from += 100 {
					part := *b
					part.Events = b.Events[from : from+100]
					result, err := r.Admit(context.Background(), &part, ticketsOf(t, l, &part), nil)
					require.NoError(t, err)
					require.Equal(t, 100, result.Accepted+result.Duplicates+result.Sampled+result.Dropped+len(result.Throttled)+
						len(result.Critical))
					sum.Accepted += result.Accepted
					sum.Duplicates += result.Duplicates
					sum.Merged += result.Merged
					sum.Sampled += result.Sampled
					sum.Dropped += result.Dropped
					sum.Throttled = append(sum.Throttled, result.Throttled...)
				}
				return sum
			}
			first := admit(all)
			_ = r.read.wait(context.Background(), r.durable.Load())
			switch strategy {
			case ratelimit.OnExceededDrop:
				require.Equal(t, limit, first.Accepted)
				require.Equal(t, events-limit, first.Dropped)
				require.EqualValues(t, events-limit, state.dropped)
				require.EqualValues(t, limit, state.events)
			case ratelimit.OnExceededSample:
				require.Equal(t, events, first.Accepted+first.Sampled)
				require.InDelta(t, limit+(events-limit)/10, first.Accepted, 40)
				require.InDelta(t, events, state.events, 300, "each kept one stands for ten")
				require.EqualValues(t, limit+10*(first.Accepted-limit), state.events)
			case ratelimit.OnExceededAggregate:
				require.Equal(t, events, first.Accepted)
				require.Equal(t, events-limit, first.Merged)
				require.EqualValues(t, events, state.events, "counts stay exact")
				require.Equal(t, exact, state.durations, "durations stay exact")
				require.LessOrEqual(t, state.records, limit+2*(events-limit)/100,
					"a request over its limit becomes two events, one per region")
			case ratelimit.OnExceededThrottle:
				require.Equal(t, limit, first.Accepted)
				require.Len(t, first.Throttled, events-limit)
				require.EqualValues(t, limit, state.events)
			}
			require.Zero(t, first.Duplicates)

			// Sent again: decided events are known, regardless of the current limit.
			second := admit(all)
			require.Equal(t, first.Accepted+first.Sampled, second.Duplicates)
			require.Zero(t, second.Accepted)
			_ = r.read.wait(context.Background(), r.durable.Load())
			before, crashed := *state, disk.CrashClone(0, 1)
			r.kill()

			again := newSums()
			opt.State, opt.FS = again, crashed
			r = start(t, opt)
			_ = r.read.wait(context.Background(), r.durable.Load())
			require.Equal(t, before.events, again.events)
			require.Equal(t, before.dropped, again.dropped)
			require.Equal(t, before.durations, again.durations)
			third := admit(all)
			require.Equal(t, first.Accepted+first.Sampled, third.Duplicates,
				"ids of merged and sampled events are known after a restart")
			r.kill()
		})
	}
}

// Critical events over a limit are the caller's to keep, be it by dropping or sampling;
// merging loses nothing, so they are merged.
func TestCriticalEventsAreKept(t *testing.T) {
	l := limiter(t, 10, ratelimit.OnExceededSample, 0.1)
	opt := testOptions(fsystest.New())
	state := newSums()
	opt.State, opt.Limiter, opt.SegmentBytes = state, l, 1<<20
	opt.Critical = func(v *event.View) bool { region, _ := v.Attr("region"); return string(region) == "1" }
	r := start(t, opt)
	b := timed(0, 1000)
	result, err := r.Admit(context.Background(), b, ticketsOf(t, l, b), nil)
	require.NoError(t, err)
	require.Len(t, result.Critical, 495, "all odd ones beyond the first ten")
	require.Equal(t, 495, result.Sampled+result.Accepted-10)
	require.Equal(t, 1, int(result.Critical[0])%2)
	r.kill()
}

// Only the places in todo are looked at, and two requests of one group that hold the
// same over-limit event count it once.
func TestAdmitSomePlacesOnly(t *testing.T) {
	l := limiter(t, 5, ratelimit.OnExceededThrottle, 1)
	opt := testOptions(fsystest.New())
	state := newSums()
	opt.State, opt.Limiter = state, l
	r := start(t, opt)
	b := timed(0, 10)
	tickets := ticketsOf(t, l, b)
	result, err := r.Admit(context.Background(), b, tickets, nil)
	require.NoError(t, err)
	require.Equal(t, []int32{5, 6, 7, 8, 9}, result.Throttled)
	wide := int64(1000)
	hour := time.Hour
	policy, err := ratelimit.Compile(ratelimit.Config{Default: ratelimit.Values{Limit: &wide, Window: &hour}})
	require.NoError(t, err)
	l.SetPolicy(policy)
	fresh := ticketsOf(t, l, b)
	result, err = r.Admit(context.Background(), b, fresh, []int32{7, 9})
	require.NoError(t, err)
	require.Equal(t, 2, result.Accepted)
	require.Zero(t, result.Duplicates)
	_ = r.read.wait(context.Background(), r.durable.Load())
	require.EqualValues(t, 7, state.events)
	r.kill()
}

// failing are limits that cannot decide.
type failing struct{}

func (failing) Decide(context.Context, time.Time, []*ratelimit.Tickets) error {
	return context.DeadlineExceeded
}

func TestLimitsThatFailLetPass(t *testing.T) {
	l := limiter(t, 1, ratelimit.OnExceededDrop, 1)
	opt := testOptions(fsystest.New())
	opt.State, opt.Limiter = newSums(), failing{}
	r := start(t, opt)
	b := timed(0, 10)
	result, err := r.Admit(context.Background(), b, ticketsOf(t, l, b), nil)
	require.NoError(t, err)
	require.Equal(t, 10, result.Accepted)
	r.kill()
}

// Events that a group held back are written with that group and never again, even if the next one
// cannot be written.
func TestHeldBackOnce(t *testing.T) {
	l := limiter(t, 100, ratelimit.OnExceededAggregate, 1)
	opt := testOptions(fsystest.New())
	state := newSums()
	opt.State, opt.Limiter, opt.SegmentBytes = state, l, 1<<20
	opt.MergeBy = func([]byte) ([]string, time.Duration) { return nil, time.Minute }
	r := start(t, opt)
	b := timed(0, 200)
	result, err := r.Admit(context.Background(), b, ticketsOf(t, l, b), nil)
	require.NoError(t, err)
	require.Equal(t, 100, result.Merged)
	r.disk.low.Store(true)
	_, err = r.Commit(context.Background(), timed(200, 201))
	require.ErrorIs(t, err, ErrDiskFull)
	r.disk.low.Store(false)
	_, err = r.Commit(context.Background(), timed(201, 202))
	require.NoError(t, err)
	_ = r.read.wait(context.Background(), r.durable.Load())
	require.EqualValues(t, 201, state.events)
	r.kill()
}

// One id twice, in one request and in two of one group, for any treatment of the second over its
// limit: it counts once.
func TestRepeatsOverTheLimitCountOnce(t *testing.T) {
	for name, strategy := range map[string]ratelimit.Strategy{
		"drop": ratelimit.OnExceededDrop, "sample": ratelimit.OnExceededSample, "aggregate": ratelimit.OnExceededAggregate,
	} {
		t.Run(name, func(t *testing.T) {
			l := limiter(t, 2, strategy, 1)
			opt := testOptions(fsystest.New())
			state := newSums()
			opt.State, opt.Limiter, opt.SegmentBytes = state, l, 1<<20
			opt.MergeBy = func([]byte) ([]string, time.Duration) { return nil, time.Minute }
			r := start(t, opt)
			b := timed(0, 2)
			again := timed(0, 2)
			for _, item := range again.Events { // the same two once more
				start := len(b.Buf)
				b.Buf = append(b.Buf, again.Buf[item.Start:item.End]...)
				item.Start, item.End, item.Index = start, len(b.Buf), len(b.Events)
				b.Events = append(b.Events, item)
			}
			result, err := r.Admit(context.Background(), b, ticketsOf(t, l, b), nil)
			require.NoError(t, err)
			require.Equal(t, 2, result.Accepted)
			require.Equal(t, []int{2, 3}, result.DupIndexes)
			_ = r.read.wait(context.Background(), r.durable.Load())
			require.EqualValues(t, 2, state.events)
			require.Zero(t, state.dropped)
			r.kill()
		})
	}
}

// TestWholeEventsAreNeitherSampledNorMerged: those that nothing else can stand for pass as they are, or are throttled
// or dropped where the limit says so.
func TestWholeEventsAreNeitherSampledNorMerged(t *testing.T) {
	const events, limit = 100, 10
	for name, strategy := range map[string]ratelimit.Strategy{
		"drop": ratelimit.OnExceededDrop, "sample": ratelimit.OnExceededSample,
		"aggregate": ratelimit.OnExceededAggregate, "throttle": ratelimit.OnExceededThrottle,
	} {
		t.Run(name, func(t *testing.T) {
			l := limiter(t, limit, strategy, 0.1)
			opt := testOptions(fsystest.New())
			state := newSums()
			opt.State, opt.Limiter = state, l
			opt.MergeBy = func([]byte) ([]string, time.Duration) { return nil, time.Minute }
			opt.Whole = func(v *event.View) bool { return string(v.Type) == "order" }
			r := start(t, opt)
			all := timed(0, events)
			result, err := r.Admit(context.Background(), all, ticketsOf(t, l, all), nil)
			require.NoError(t, err)
			waited := r.read.wait(context.Background(), r.durable.Load())
			r.kill()
			require.NoError(t, waited)
			require.Zero(t, result.Sampled)
			require.Zero(t, result.Merged)
			switch strategy {
			case ratelimit.OnExceededDrop:
				require.Equal(t, events-limit, result.Dropped)
			case ratelimit.OnExceededThrottle:
				require.Len(t, result.Throttled, events-limit)
			default:
				require.Equal(t, events, result.Accepted)
				require.EqualValues(t, events, state.events)
			}
		})
	}
}
