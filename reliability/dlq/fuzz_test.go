package dlq

import (
	"bytes"
	"context"
	"testing"

	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
)

// resealed makes the checksums right where data looks like a segment, so that the fuzzer
// gets behind them.
func resealed(data []byte, number uint64) []byte {
	lines := bytes.SplitAfter(bytes.Clone(data), []byte("\n"))
	for i, l := range lines {
		body := bytes.TrimSuffix(l, []byte("\n"))
		switch {
		case i == 0 && len(body) == segmentHead-1:
			appendHex(body[len(body)-8:len(body)-8], uint64(seal(number, body[:len(body)-8])), 8)
		case shaped(body):
			appendHex(body[:0:8], uint64(seal(number, body[9:])), 8)
		}
	}
	return bytes.Join(lines, nil)
}

// Any bytes as a segment: no panic, no endless work, and a store that works afterwards and
// shows the same after the next start.
func FuzzSegment(f *testing.F) {
	now := testDay
	m := fsystest.New()
	store := openTest(f, m, &now)
	ctx := context.Background()
	_ = store.Save(ctx, testEntries(0, 5))
	_, _ = store.Failed(ctx, []Failure{{ID: "fold-2-0"}})
	_, _ = store.Discard(ctx, []string{"fold-1-0", "fold-3-0"})
	_ = store.Save(ctx, testEntries(5, 7))
	_ = store.Close()
	seed, err := m.ReadFile(files(f, m)[0])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed, true)
	f.Add(seed, false)
	f.Add(seed[:len(seed)-9], false)
	f.Add(seed[3:], true)
	f.Add(bytes.ReplaceAll(seed, []byte("[[1,1]"), []byte("[[9,1]")), true)
	f.Add(append(bytes.Clone(seed), make([]byte, 500)...), false)
	f.Add([]byte(segmentMagic), true)
	f.Fuzz(func(t *testing.T, data []byte, reseal bool) {
		if reseal {
			data = resealed(data, 1)
		}
		m := fsystest.New()
		if m.MkdirAll("/dlq/2026-11-20") != nil || m.WriteFile("/dlq/2026-11-20/"+segmentName(1), data) != nil {
			t.Fatal("prepare")
		}
		options := FileOptions{FS: m, Dir: "/dlq", SegmentBytes: 4 << 10}
		store, err := OpenFile(options)
		if err != nil {
			return // a later format
		}
		before := 0
		if err := Each(ctx, store, Query{}, func(e []Entry) error { before += len(e); return nil }); err != nil {
			t.Fatal(err)
		}
		if stats, _ := store.Stats(ctx); stats.Count < int64(before) {
			t.Fatalf("%d entries, counted %d", before, stats.Count)
		}
		fresh := []Entry{{Origin: Fold, Reason: "new"}}
		if err := store.Save(ctx, fresh); err != nil {
			t.Fatal(err)
		}
		if err := store.Compact(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Get(ctx, fresh[0].ID); err != nil {
			t.Fatal(err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		if store, err = OpenFile(options); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close() }()
		after := 0
		if err := Each(ctx, store, Query{}, func(e []Entry) error { after += len(e); return nil }); err != nil {
			t.Fatal(err)
		}
		if after != before+1 {
			t.Fatalf("%d entries became %d", before, after)
		}
	})
}
