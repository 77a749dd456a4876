package send

import (
	"context"
	"sync"
	"time"

	"github.com/sloengine/sloengine/client/post"
	"github.com/sloengine/sloengine/ingest/event"
)

// item is where an event comes from.
type item struct {
	file string
	line int
	raw  string // the line as it was read; only set for a rejects file

	covers event.Span // of a backfill: the times that were read of the file, up to this event
}

// covers are the times that the files of a batch were read of: of each up to its last event in the batch.
func covers(b *post.Batch[item]) (out []event.Span) {
	at := map[string]int{}
	for i := range b.Len() {
		it := b.From(i)
		n, ok := at[it.file]
		switch {
		case it.covers == event.Span{}:
		case ok:
			out[n] = it.covers
		default:
			at[it.file] = len(out)
			out = append(out, it.covers)
		}
	}
	return out
}

// batch is the body of one request, and when its first event was read.
type batch struct {
	post.Batch[item]
	born  time.Time
	input int64 // bytes of the input that it stands for
}

// batcher gathers events into batches, which it hands on when they are full or
// old enough. Handing on waits for a sender, and so do the readers: what is in
// memory is one batch per sender, one that is filling, and one that waits.
type batcher struct {
	out    chan *batch
	events int
	wait   time.Duration
	share  func() int64 // bytes of the input since it was last asked

	mu   sync.Mutex
	open *batch
	line []byte // of the event that is added, for reuse
}

func newBatcher(o *Options, share func() int64) *batcher {
	return &batcher{out: make(chan *batch), events: o.BatchEvents, wait: o.BatchWait, share: share}
}

// add appends one event by way of encode. It fails when ctx has ended.
func (b *batcher) add(ctx context.Context, it item, encode func(dst []byte) []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == nil {
		b.open = &batch{born: time.Now()}
	}
	b.line = append(encode(b.line[:0]), '\n')
	b.open.Append(b.line, it)
	if b.open.Len() >= b.events || len(b.open.Body) >= maxBatchBytes {
		return b.flush(ctx)
	}
	return nil
}

// flush hands the open batch on; b.mu is held.
func (b *batcher) flush(ctx context.Context) error {
	if b.open == nil {
		return nil
	}
	b.open.input += b.share()
	select {
	case b.out <- b.open:
		b.open = nil
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run hands batches on that are old enough, until stop is closed.
func (b *batcher) run(ctx context.Context, stop <-chan struct{}) {
	ticker := time.NewTicker(max(b.wait/4, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			b.mu.Lock()
			if b.open != nil && time.Since(b.open.born) >= b.wait {
				_ = b.flush(ctx) // what is not taken stays open
			}
			b.mu.Unlock()
		case <-stop:
			return
		}
	}
}

// finish hands the last batch on and closes out.
func (b *batcher) finish(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.flush(ctx)
	close(b.out)
	return err
}
