package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/deadletter"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
	"github.com/sloengine/sloengine/reliability/wal"
)

// lenient is a tally that accepts events that it refused before, from some record on.
type lenient struct {
	*tally
	takes uint64 // from this record on
}

func (s *lenient) Apply(rec wal.Record, refuse Refuse) error {
	if s.takes == 0 || rec.Seq < s.takes || rec.Type != record.TypeReplay {
		return s.tally.Apply(rec, refuse)
	}
	s.records++
	s.versions[0]++
	return EachEvent(rec.Payload, func(_ bool, v *event.View) error {
		s.counts[partOf(string(v.ID))][string(v.ID)]++
		s.versions[partOf(string(v.ID))]++
		return nil
	}, refuse)
}

// A dead letter of the fold that comes back counts once, however often it is
// replayed, through crashes before and after; one that is refused again stays where it
// is, and can be replayed again.
func TestReplayOfTheFold(t *testing.T) {
	disk := fsystest.New()
	opt := testOptions(disk)
	state := &lenient{tally: newTally()}
	opt.State = state
	e := launch(t, opt)
	<-e.Ready()
	e.commit("a", "refuse-1", "refuse-2")
	deadLetters := e.deadLetters(t)
	require.Len(t, deadLetters, 2)

	// Still refused: the dead letters stay, with an attempt more.
	for _, err := range e.ReplayTarget(context.Background(), deadLetters) {
		var refused *RefusedError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, "told to refuse", refused.Reason)
	}
	deadLetters = e.deadLetters(t)
	require.Len(t, deadLetters, 2)
	require.Equal(t, deadletter.ClassRefused, deadLetters[0].Class)
	require.Equal(t, 1, deadLetters[0].Attempts)
	require.Contains(t, string(deadLetters[0].Event), "refuse-1")

	// Now the fold takes them. Twice is once.
	require.NoError(t, e.Do(context.Background(), func() { state.takes = e.durable.Load() + 1 }))
	for range 2 {
		for _, err := range e.ReplayTarget(context.Background(), deadLetters) {
			require.NoError(t, err)
		}
	}
	requireOnce(t, e.stateCounts(t, state.tally), []string{"a", "refuse-1", "refuse-2"})

	// A crash before the dead letters were removed: a replay of them changes nothing.
	again := &lenient{tally: newTally(), takes: state.takes}
	opt.State, opt.FS = again, disk.CrashClone(0, 1)
	r := launch(t, opt)
	<-r.Ready()
	for _, err := range r.ReplayTarget(context.Background(), deadLetters) {
		require.NoError(t, err)
	}
	requireOnce(t, r.stateCounts(t, again.tally), []string{"a", "refuse-1", "refuse-2"})
	require.Equal(t, 1, r.commit("refuse-1").Duplicates, "its id was known all the time")
	e.kill()
	r.kill()
}

func (r *running) stateCounts(t testing.TB, s *tally) (all map[string]uint64) {
	t.Helper()
	_ = r.read.wait(context.Background(), r.durable.Load())
	require.NoError(t, r.Do(context.Background(), func() { all = s.all() }))
	return all
}

// An event that admission refused is replayed unchanged: a sender who sent it again meanwhile made
// it count, and it does not count twice.
func TestReplayOfAdmission(t *testing.T) {
	r := start(t, testOptions(fsystest.New()))
	b := testBatch("x", "y")
	var entries []dlq.Entry
	for i := range b.Events {
		var v event.View
		_, err := v.Parse(b.Event(i))
		require.NoError(t, err)
		entry := dlq.Entry{ID: fmt.Sprint("admission-", i), Origin: dlq.Admission, Reason: dlq.ReasonRateLimited}
		deadletter.Describe(&entry, &v)
		entries = append(entries, entry)
	}
	require.Equal(t, 1, r.commit("x").Accepted, "sent again, and let in")
	for range 3 {
		require.Equal(t, []error{nil, nil}, r.ReplayTarget(context.Background(), entries))
	}
	requireOnce(t, r.counts(), []string{"x", "y"})
	require.Equal(t, 1, r.commit("y").Duplicates, "sent again after the replay")

	broken := []dlq.Entry{{ID: "admission-2", Origin: dlq.Admission, Raw: []byte("no event")}, entries[0],
		{ID: "admission-3", Origin: dlq.Admission, Event: []byte(`{"service":1}`)}}
	errs := r.ReplayTarget(context.Background(), broken)
	require.ErrorIs(t, errs[0], deadletter.ErrNoEvent)
	require.NoError(t, errs[1])
	require.ErrorContains(t, errs[2], "read the event of the dead letter")
	r.shutdown()
	require.ErrorIs(t, r.ReplayTarget(context.Background(), entries)[0], ErrStopping)
}

// Large events take several records: the log refuses one that is larger than wal.MaxPayload.
func TestReplayOfLargeEvents(t *testing.T) {
	opt := testOptions(fsystest.New())
	opt.QueueBytes = 64 << 20
	r := start(t, opt)
	var entries []dlq.Entry
	var attributes []string
	for i := range 32 {
		attributes = append(attributes, fmt.Sprintf(`"a%d":%q`, i, strings.Repeat("a", 1000)))
	}
	text := strings.Join(attributes, ",")
	for i := range 2 * wal.MaxPayload / len(text) {
		body := fmt.Sprintf(`{"id":"large-%d","service":"shop","type":"order","attributes":{%s}}`, i, text)
		entries = append(entries, dlq.Entry{ID: fmt.Sprint("admission-", i), Origin: dlq.Admission, Event: []byte(body)})
	}
	for _, err := range r.ReplayTarget(context.Background(), entries) {
		require.NoError(t, err)
	}
	require.Len(t, r.counts(), len(entries))
	r.shutdown()
}

// The sinks get an event of admission when it comes back, and one of the fold never
// twice; ids of merged events and counts of dropped ones are not for them.
