package send

import (
	"context"
	"sync"
	"time"
)

// item is one event of a batch and where it comes from.
type item struct {
	start, end int // in the batch's body, with the line break
	file       string
	line       int
	raw        string // the line as it was read; kept only for a rejects file
}

// batch is the body of one request, NDJSON, and what is in it.
type batch struct {
	body  []byte
	items []item
	born  time.Time
}

// pick copies the items at these indices into a batch of their own.
func (b *batch) pick(indices []int) *batch {
	p := &batch{born: b.born, items: make([]item, 0, len(indices))}
	for _, i := range indices {
		it := b.items[i]
		start := len(p.body)
		p.body = append(p.body, b.body[it.start:it.end]...)
		it.start, it.end = start, len(p.body)
		p.items = append(p.items, it)
	}
	return p
}

// span is pick for the items from i up to j.
func (b *batch) span(i, j int) *batch {
	indices := make([]int, 0, j-i)
	for ; i < j; i++ {
		indices = append(indices, i)
	}
	return b.pick(indices)
}

// batcher gathers events into batches, which it hands on when they are full or
// old enough. Handing on waits for a sender, and so do the readers: what is in
// memory is one batch per sender, one that is filling, and one that waits.
type batcher struct {
	out    chan *batch
	events int
	wait   time.Duration

	mu   sync.Mutex
	open *batch
}

func newBatcher(o *Options) *batcher {
	return &batcher{out: make(chan *batch), events: o.BatchEvents, wait: o.BatchWait}
}

// add appends one event by way of encode. It fails when ctx has ended.
func (b *batcher) add(ctx context.Context, it item, encode func(dst []byte) []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == nil {
		b.open = &batch{born: time.Now()}
	}
	it.start = len(b.open.body)
	b.open.body = append(encode(b.open.body), '\n')
	it.end = len(b.open.body)
	b.open.items = append(b.open.items, it)
	if len(b.open.items) >= b.events || len(b.open.body) >= maxBatchBytes {
		return b.flush(ctx)
	}
	return nil
}

// flush hands the open batch on; b.mu is held.
func (b *batcher) flush(ctx context.Context) error {
	if b.open == nil {
		return nil
	}
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
