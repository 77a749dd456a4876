package wal

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
)

// The log against a slice, through any order of calls and crashes.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := fsystest.New()
		segmentBytes := int64(rapid.SampledFrom([]int{MinSegmentBytes, 2000, 20000}).Draw(t, "segment"))
		var (
			model []Pending // record i+1
			first = uint64(1)
		)
		open := func() *Log {
			l, err := openMem(m, segmentBytes)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		l := open()
		defer func() { _ = l.Close() }()
		var tail *Reader // follows the log while the other calls continue
		var tailNext uint64
		closeTail := func() {
			if tail != nil {
				_ = tail.Close()
				tail = nil
			}
		}
		defer closeTail()

		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				sizes := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 50), rapid.IntRange(0, 6000)), 1, 6).Draw(t, "sizes")
				recs := batch(uint64(len(model)+1), sizes...)
				if err := l.Append(recs); err != nil {
					t.Fatal(err)
				}
				model = append(model, recs...)
			},
			"truncate": func(t *rapid.T) {
				below := rapid.Uint64Range(0, uint64(len(model)+3)).Draw(t, "below")
				if err := l.Truncate(below); err != nil {
					t.Fatal(err)
				}
				if l.FirstSeq() < first || l.FirstSeq() > max(first, below) {
					t.Fatalf("begins with %d after %d, truncated below %d", l.FirstSeq(), first, below)
				}
				first = l.FirstSeq()
			},
			"reopen": func(t *rapid.T) {
				closeTail()
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				l = open()
			},
			"lose power": func(t *rapid.T) {
				closeTail()
				percent := rapid.IntRange(0, 100).Draw(t, "percent")
				m = m.CrashClone(percent, rapid.Int64().Draw(t, "seed"))
				_ = l.Close()
				l = open()
			},
			"read": func(t *rapid.T) {
				from := rapid.Uint64Range(0, uint64(len(model)+2)).Draw(t, "from")
				got, err := readAll(l, from)
				switch {
				case from > uint64(len(model)+1):
					if !errors.Is(err, ErrAhead) {
						t.Fatalf("read from %d of %d: %v", from, len(model), err)
					}
				case from != 0 && from < first:
					if !errors.Is(err, ErrTruncated) {
						t.Fatalf("read from %d, first is %d: %v", from, first, err)
					}
				case err != nil:
					t.Fatal(err)
				default:
					at := max(from, first)
					if len(got) != len(model)-int(at)+1 {
						t.Fatalf("%d records from %d of %d", len(got), at, len(model))
					}
					for i, r := range got {
						if err := same(model[int(at)-1+i], at+uint64(i), r); err != nil {
							t.Fatal(err)
						}
					}
				}
			},
			"follow": func(t *rapid.T) {
				if tail == nil {
					tailNext = uint64(len(model) + 1)
					var err error
					if tail, err = l.NewReader(tailNext); err != nil {
						t.Fatal(err)
					}
				}
				var rec Record
				for {
					ok, err := tail.Next(&rec)
					if errors.Is(err, ErrTruncated) && tailNext < first {
						closeTail()
						return
					}
					if err != nil {
						t.Fatal(err)
					}
					if !ok {
						break
					}
					if err := same(model[tailNext-1], tailNext, rec); err != nil {
						t.Fatal(err)
					}
					tailNext++
				}
				if tailNext != uint64(len(model)+1) {
					t.Fatalf("reader stopped before %d of %d", tailNext, len(model))
				}
			},
			"": func(t *rapid.T) {
				if l.DurableSeq() != uint64(len(model)) || l.NextSeq() != uint64(len(model)+1) || l.FirstSeq() != first {
					t.Fatalf("log says %d..%d, next %d; model %d..%d", l.FirstSeq(), l.DurableSeq(), l.NextSeq(), first, len(model))
				}
				names, err := m.List(testDir)
				names = slices.DeleteFunc(names, func(name string) bool { return name == markName })
				if _, n := l.Size(); err != nil || n != len(names) || !slices.IsSorted(names) {
					t.Fatalf("%d segments, files %v, %v", n, names, err)
				}
			},
		})
	})
}
