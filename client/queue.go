package client

import (
	"context"
	"sync"
	"time"
)

// queued is a batch of the queue. The queue's lock guards the fields, except while a sender has taken the batch: then
// they are the sender's.
type queued struct {
	*batch
	seq  uint64
	born time.Time
	cost size // what it takes up in the queue, until it is done with
	// pinned means that a request which was given up, or the spool, may still read the body.
	pinned bool
}

type size struct{ events, bytes int }

// queue holds what waits in memory: a batch that is filling and those that are full.
// Its bounds count what is being sent, too, since that is in memory as well.
type queue struct {
	most                    size
	batchEvents, batchBytes int
	batchWait               time.Duration
	m                       *Metrics

	work     chan struct{} // capacity 1: a batch may be waiting
	pressure chan struct{} // capacity 1: more than half is used

	mu     sync.Mutex
	open   *queued
	ready  []*queued
	out    map[uint64]*queued // taken and not done with
	used   size
	seq    uint64
	closed bool
	timer  *time.Timer
	moved  chan struct{} // closed when a batch is done with; nil without waiters
	spare  []*queued     // emptied, for reuse
}

// maxSpare bounds the memory that is kept for reuse.
const maxSpare = 4

func newQueue(o *Options) *queue {
	return &queue{
		most:        size{o.QueueEvents, o.QueueBytes},
		batchEvents: o.BatchEvents, batchBytes: o.BatchBytes, batchWait: o.BatchWait, m: o.Metrics,
		work: make(chan struct{}, 1), pressure: make(chan struct{}, 1), out: map[uint64]*queued{},
	}
}

// add queues one event. If it was not, closed says whether the queue is, or else full.
func (q *queue) add(line []byte, from Origin) (ok, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false, true
	}
	if !q.room(size{1, len(line)}) {
		return false, false
	}
	if q.open != nil && len(q.open.Body)+len(line) > q.batchBytes {
		q.seal()
	}
	if q.open == nil {
		q.begin()
	}
	q.open.Append(line, source{0, from})
	q.grow(q.open, size{1, len(line)})
	if q.open.Len() >= q.batchEvents {
		q.seal()
	}
	return true, false
}

// adopt queues a whole batch.
func (q *queue) adopt(b *batch) (ok, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	need := size{b.Len(), len(b.Body)}
	if q.closed || !q.room(need) {
		return false, q.closed
	}
	q.seq++
	e := &queued{batch: b, seq: q.seq, born: time.Now(), pinned: true}
	q.grow(e, need)
	q.ready = append(q.ready, e)
	signal(q.work)
	return true, false
}

func (q *queue) room(need size) bool {
	return q.used.events+need.events <= q.most.events && q.used.bytes+need.bytes <= q.most.bytes
}

func (q *queue) grow(b *queued, by size) {
	b.cost.events += by.events
	b.cost.bytes += by.bytes
	q.used.events += by.events
	q.used.bytes += by.bytes
	q.m.queueBytes.Add(int64(by.bytes))
	if q.pressed() {
		signal(q.pressure)
	}
}

func (q *queue) pressed() bool {
	return q.used.events > q.most.events/2 || q.used.bytes > q.most.bytes/2
}

// begin opens a batch, which is sealed when it is full or old enough.
func (q *queue) begin() {
	if n := len(q.spare); n > 0 {
		q.open, q.spare = q.spare[n-1], q.spare[:n-1]
	} else {
		q.open = &queued{batch: &batch{}}
	}
	q.seq++
	q.open.seq, q.open.born = q.seq, time.Now()
	if q.timer == nil {
		q.timer = time.AfterFunc(q.batchWait, q.aged)
	} else {
		q.timer.Reset(q.batchWait)
	}
}

func (q *queue) aged() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open == nil {
		return
	}
	if left := q.batchWait - time.Since(q.open.born); left > 0 { // a newer one
		q.timer.Reset(left)
		return
	}
	q.seal()
}

func (q *queue) seal() {
	if q.open != nil {
		q.ready = append(q.ready, q.open)
		q.open = nil
		signal(q.work)
	}
}

// next takes the oldest batch, waiting for one; nil when ctx has ended.
func (q *queue) next(ctx context.Context) *queued {
	for {
		if ctx.Err() != nil {
			return nil
		}
		if b := q.take(); b != nil {
			return b
		}
		select {
		case <-q.work:
		case <-ctx.Done():
			return nil
		}
	}
}

// take takes the oldest batch, nil if none is full.
func (q *queue) take() *queued {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.ready) == 0 {
		return nil
	}
	b := q.ready[0]
	q.ready[0] = nil
	if q.ready = q.ready[1:]; len(q.ready) > 0 {
		signal(q.work)
	} else {
		q.ready = nil
	}
	q.out[b.seq] = b
	return b
}

// putBack returns a batch that was taken.
func (q *queue) putBack(b *queued) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.out, b.seq)
	q.ready = append([]*queued{b}, q.ready...)
	signal(q.work)
}

// done releases a batch that was taken. reuse says that nothing else reads it.
func (q *queue) done(b *queued, reuse bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.out, b.seq)
	q.used.events -= b.cost.events
	q.used.bytes -= b.cost.bytes
	q.m.queueBytes.Add(int64(-b.cost.bytes))
	if reuse && !b.pinned && len(q.spare) < maxSpare && cap(b.Body) <= 2*q.batchBytes {
		b.Reset()
		b.cost = size{}
		q.spare = append(q.spare, b)
	}
	if q.moved != nil {
		close(q.moved)
		q.moved = nil
	}
}

// flush waits until everything that is queued now is done with.
func (q *queue) flush(ctx context.Context) error {
	q.mu.Lock()
	q.seal()
	last := q.seq
	q.mu.Unlock()
	for {
		q.mu.Lock()
		if q.doneUpTo(last) {
			q.mu.Unlock()
			return nil
		}
		if q.moved == nil {
			q.moved = make(chan struct{})
		}
		moved := q.moved
		q.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (q *queue) doneUpTo(seq uint64) bool {
	for _, b := range q.ready {
		if b.seq <= seq {
			return false
		}
	}
	for s := range q.out {
		if s <= seq {
			return false
		}
	}
	return true
}

// close refuses what comes from now on.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.seal()
	if q.timer != nil {
		q.timer.Stop()
	}
}

// state is what is used of the bounds, and whether that is more than half.
func (q *queue) state() (used size, pressed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.used, q.pressed()
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
