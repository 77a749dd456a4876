package dispatch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
	"github.com/sloengine/sloengine/reliability/retry"
	"github.com/sloengine/sloengine/reliability/wal"
)

// A record's payload is its ids, separated by spaces; record type 2 holds nothing for sinks.
func splitWords(rec *wal.Record, yield func(Item)) error {
	if rec.Type == 2 {
		return nil
	}
	if string(rec.Payload) == "garbage" {
		return fmt.Errorf("it is garbage")
	}
	for _, id := range strings.Fields(string(rec.Payload)) {
		yield(Item{ID: id, Time: time.Unix(0, rec.Time), Payload: []byte(id)})
	}
	return nil
}

// bench is a dispatcher on a log in memory.
type bench struct {
	t           *testing.T
	fs          *fsystest.Mem
	log         *wal.Log
	d           *Dispatcher
	mu          sync.Mutex
	deadLetters []DeadLetter
	stop        context.CancelFunc
	ran         chan error
	next        int
}

func newBench(t *testing.T, change func(*Options)) *bench {
	b := &bench{t: t, fs: fsystest.New()}
	log, err := wal.Open(wal.Options{FS: b.fs, Dir: "/wal", SegmentBytes: 4096})
	require.NoError(t, err)
	b.log = log
	o := Options{FS: b.fs, Dir: "/cursors", Source: log, Split: splitWords,
		DeadLetter: func(_ context.Context, l []DeadLetter) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.deadLetters = append(b.deadLetters, l...)
			return nil
		}}
	if change != nil {
		change(&o)
	}
	b.d, err = New(o)
	require.NoError(t, err)
	return b
}

func (b *bench) add(o SinkOptions) {
	b.t.Helper()
	require.NoError(b.t, b.d.Add(o))
}

// write appends records of n items each.
func (b *bench) write(records, n int) {
	b.t.Helper()
	for range records {
		ids := make([]string, n)
		for i := range ids {
			ids[i] = fmt.Sprintf("e%d", b.next)
			b.next++
		}
		b.append(1, strings.Join(ids, " "))
	}
}

func (b *bench) append(typ byte, payload string) {
	b.t.Helper()
	require.NoError(b.t, b.log.Append([]wal.Pending{{Time: time.Now().UnixNano(), Type: typ, Payload: []byte(payload)}}))
}

func (b *bench) run() {
	ctx, stop := context.WithCancel(b.t.Context())
	b.stop, b.ran = stop, make(chan error, 1)
	go func() { b.ran <- b.d.Run(ctx) }()
}

func (b *bench) end() {
	b.t.Helper()
	b.stop()
	require.NoError(b.t, <-b.ran)
	require.NoError(b.t, b.log.Close())
}

func (b *bench) status(sink string) Status {
	for _, s := range b.d.Status() {
		if s.Name == sink {
			return s
		}
	}
	b.t.Fatalf("no sink %s", sink)
	return Status{}
}

func (b *bench) reasons() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := map[string]int{}
	for _, l := range b.deadLetters {
		m[l.Reason]++
	}
	return m
}

func (b *bench) dead() []DeadLetter {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.deadLetters)
}

// fake is a scripted sink that records its items.
type fake struct {
	mu     sync.Mutex
	got    map[string]int // successes by id
	seen   map[string]int // attempts by id
	order  []string
	times  []call
	answer func(ctx context.Context, batch []Item) Result // nil: success
	closed int
}

type call struct {
	at time.Time
	n  int
}

func newFake(answer func(ctx context.Context, batch []Item) Result) *fake {
	return &fake{got: map[string]int{}, seen: map[string]int{}, answer: answer}
}

func (f *fake) Send(ctx context.Context, batch []Item) Result {
	f.mu.Lock()
	f.times = append(f.times, call{time.Now(), len(batch)})
	for _, it := range batch {
		f.seen[it.ID]++
	}
	answer := f.answer
	f.mu.Unlock()
	var r Result
	if answer != nil {
		r = answer(ctx, batch)
	}
	if r.Err != nil {
		return r
	}
	bad := map[int]bool{}
	for _, fail := range r.Failed {
		bad[fail.Index] = true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, it := range batch {
		if !bad[i] {
			f.got[it.ID]++
			f.order = append(f.order, it.ID)
		}
	}
	return r
}

func (f *fake) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed++
	return nil
}

func (f *fake) set(answer func(ctx context.Context, batch []Item) Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = answer
}

// timesGot is how often an item was taken, timesSeen how often it was sent.
func (f *fake) timesGot(id string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.got[id]
}

func (f *fake) timesSeen(id string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen[id]
}

func (f *fake) calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.times)
}

func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.got)
}

// peak is the largest number of items in any span d.
func (f *fake) peak(d time.Duration) (most int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.times {
		n := 0
		for j := i; j < len(f.times) && f.times[j].at.Sub(f.times[i].at) < d; j++ {
			n += f.times[j].n
		}
		most = max(most, n)
	}
	return most
}

func failing(class retry.Class) func(context.Context, []Item) Result {
	return func(context.Context, []Item) Result {
		return Result{Err: retry.WithClass(fmt.Errorf("sink says %s", class), class)}
	}
}

func hanging(ctx context.Context, _ []Item) Result {
	<-ctx.Done()
	return Result{Err: ctx.Err()}
}
