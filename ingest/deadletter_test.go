package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
)

// Poison: an event that makes the fold panic, or that it refuses, becomes a
// dead letter, its neighbours count, and the reader goes on.
func TestPoison(t *testing.T) {
	disk := fsystest.New()
	opt := testOptions(disk)
	r := start(t, opt)
	r.commit("a", "panic-1", "b", "refuse-1", "panic-2")
	r.commit("c")
	requireOnce(t, r.counts(), []string{"a", "b", "c"})
	letters, total := r.DeadLetters(10)
	require.EqualValues(t, 3, total)
	require.EqualValues(t, 3, r.Health().DeadLetters)
	var positions []Position
	for _, letter := range letters {
		positions = append(positions, letter.Position)
	}
	require.Equal(t, []Position{{2, 4}, {2, 3}, {2, 1}}, positions, "the newest first")
	require.Equal(t, "told to refuse", letters[1].Reason)
	require.Regexp(t, `^panic: runtime error: index out of range .* in .*tally.*Apply`, letters[0].Reason)
	var e struct{ ID, Service, Type string }
	require.NoError(t, json.Unmarshal(letters[2].Event, &e))
	require.Equal(t, "panic-1", e.ID)
	require.Equal(t, "shop", e.Service)
	only, _ := r.DeadLetters(1)
	require.Equal(t, letters[:1], only)

	// A crash before the lines are on disk: they come again, and once.
	opt.FS = disk.CrashClone(0, 1)
	again := start(t, opt)
	require.EqualValues(t, 3, again.Health().DeadLetters)
	require.NoError(t, again.dead.flush())
	// A crash after they are on disk, but in no checkpoint: they are not written twice.
	opt.FS = opt.FS.(*fsystest.Mem).CrashClone(0, 1)
	third := start(t, opt)
	require.EqualValues(t, 3, third.Health().DeadLetters)
	require.Zero(t, third.dead.waiting())
	third.checkpointNow()
	clone := opt.FS.(*fsystest.Mem).CrashClone(0, 1)
	data, err := clone.ReadFile("/data/dead-letters/" + deadLetterName(0))
	require.NoError(t, err)
	require.Equal(t, 3, countLines(data))
	r.shutdown()
	again.shutdown()
	third.shutdown()
}

func countLines(data []byte) (n int) {
	for _, c := range data {
		if c == '\n' {
			n++
		}
	}
	return n
}

func TestDeadLetterSegments(t *testing.T) {
	disk := fsystest.New()
	opt := testOptions(disk)
	opt.DeadLetterSegmentBytes = 2000
	r := start(t, opt)
	for i := range 100 {
		r.commit(fmt.Sprintf("refuse-%d", i))
		if i%3 == 0 {
			r.counts()
			require.NoError(t, r.dead.flush())
		}
	}
	r.shutdown()
	names, err := disk.List("/data/dead-letters")
	require.NoError(t, err)
	require.Greater(t, len(names), 5)
	total := 0
	for _, name := range names {
		data, err := disk.ReadFile("/data/dead-letters/" + name)
		require.NoError(t, err)
		require.LessOrEqual(t, len(data), 2000)
		total += countLines(data)
	}
	require.Equal(t, 100, total)
	again := start(t, opt)
	require.EqualValues(t, 100, again.Health().DeadLetters)
	letters, _ := again.DeadLetters(3)
	require.Len(t, letters, 3)
	require.EqualValues(t, 1, letters[0].Position.Seq-letters[1].Position.Seq, "the newest first")
	again.shutdown()
}

// The last thousand are kept in memory, whatever comes.
func TestRecentDeadLetters(t *testing.T) {
	d := &deadLetters{}
	for i := range 2500 {
		d.refuse(DeadLetter{Position: Position{uint64(i), 0}})
	}
	letters, total := d.latest(5000)
	require.EqualValues(t, 2500, total)
	require.Len(t, letters, deadLetterRecent)
	for i, letter := range letters {
		require.EqualValues(t, 2499-i, letter.Position.Seq)
	}
	none, _ := d.latest(-1)
	require.Empty(t, none)
}

func TestEachEvent(t *testing.T) {
	b := testBatch("a", "b", "c", "d")
	payload := append(appendEventsHead(nil, 4, true), b.Buf...)
	var seen, refused []string
	refuse := func(index int, _ []byte, reason string) { refused = append(refused, fmt.Sprint(index, " ", reason)) }
	visit := func(backfill bool, v *event.View) error {
		require.True(t, backfill)
		switch string(v.ID) {
		case "a":
			panic("at a")
		case "c":
			return errors.New("at c")
		}
		seen = append(seen, string(v.ID))
		return nil
	}
	require.NoError(t, EachEvent(payload, visit, refuse))
	require.Equal(t, []string{"b", "d"}, seen)
	require.Len(t, refused, 2)
	require.Regexp(t, `^0 panic: at a in .*TestEachEvent`, refused[0])
	require.Equal(t, "2 at c", refused[1])

	for cut := range payload {
		seen = nil
		require.Error(t, EachEvent(payload[:cut], visit, refuse))
	}
	require.Error(t, EachEvent(append(payload, 0), visit, refuse))
}

// Calls from outside cannot take the fold down.
func TestDoPanics(t *testing.T) {
	r := start(t, testOptions(fsystest.New()))
	require.ErrorContains(t, r.Do(context.Background(), func() { panic("no") }), "panic: no in ")
	r.commit("a")
	requireOnce(t, r.counts(), []string{"a"})
	r.shutdown()
}

func TestParseRecords(t *testing.T) {
	for _, payload := range [][]byte{nil, {1}, {0x80}, {1, 2}, {200, 1, 0}} {
		_, err := ParseEvents(payload)
		require.Error(t, err, "%x", payload)
	}
	for _, payload := range [][]byte{nil, {3}, {0, 0}} {
		_, err := ParseBeat(payload)
		require.Error(t, err, "%x", payload)
	}
}
