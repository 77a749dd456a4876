package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/ratelimit"
)

// request is something to be written to the log. Its sender fills it in and pushes it. From then on state says who owns
// it: the sender may withdraw it only while it waits, and the committer may read it only after taking it. The last
// owner returns it to the pool.
//
// The sender fills in the first group of fields before push. deferred and wrote belong to the committer. result
// and err are written by the committer before it answers, and read by the sender after that: the channel done
// orders the two.
type request struct {
	kind      byte         // of record
	batch     *event.Batch // RecordEvents
	tickets   *ratelimit.Tickets
	todo      []int32  // places in batch.Events; nil is all
	position  Position // of a source; nil: none
	replay    []Replay // RecordReplay
	delivered bool     // of a replay: the sinks have the events
	payload   []byte   // any other; of a batch: a record of dropped events that belongs to it
	basis     uint64   // of Engine.Forget and Engine.TakeOver
	config    []byte   // of Engine.TakeOver: a configuration in front of its record; nil: none
	bytes     int64    // counted against the queue's limit

	deadline time.Time // of its sender; zero: none
	timer    *time.Timer
	deferred bool // the Limiter has decided, and the request waits to be merged: see mergeWait

	state   atomic.Uint32
	leaving atomic.Bool   // its sender has left and could not withdraw it
	done    chan struct{} // one signal, after result and err are set

	result Result
	err    error
	wrote  int // number of its last record in the current group; 0 if it has none
}

// The states of a request. The goroutine that moves it away from waiting owns it.
const (
	requestWaiting uint32 = iota
	requestTaken          // by the committer, which will answer
	requestLeft           // by its sender, who no longer waits
)

// request returns an empty request, new or from the pool.
//
// The timer is kept over uses. The channel is empty, because each answer was received before the request was
// returned.
func (q *queue) request(kind byte) *request {
	r, ok := q.pool.Get().(*request)
	if !ok {
		r = &request{done: make(chan struct{}, 1)}
	}
	r.kind = kind
	r.leaving.Store(false)
	r.state.Store(requestWaiting)
	return r
}

// release returns a request to the pool. Nothing may refer to it any more.
//
// It clears references to memory of the sender, so that the pool does not keep batches alive.
func (q *queue) release(r *request) {
	r.batch, r.tickets, r.todo, r.position, r.replay, r.delivered = nil, nil, nil, nil, nil, false
	r.payload, r.config, r.result, r.err = nil, nil, Result{}, nil
	r.deadline, r.deferred = time.Time{}, false
	q.pool.Put(r)
}

// expires returns a channel that fires after d. The timer is reused with the request.
//
// The caller stops the timer before the request goes to the pool.
func (r *request) expires(d time.Duration) <-chan time.Time {
	if r.timer == nil {
		r.timer = time.NewTimer(d)
	} else {
		r.timer.Reset(d)
	}
	return r.timer.C
}

// answer wakes the sender. Result and err must be set, and the committer must not touch the request afterwards.
func (r *request) answer() { r.done <- struct{}{} }

// requestOverhead is the memory of a waiting request besides its events, in bytes.
//
// Without it, QueueBytes would hardly bound the memory of a flood of tiny requests.
const requestOverhead = 512

// queue holds the waiting requests, in order, up to a number of bytes. Senders push, the committer takes. mu is held
// for a few instructions only, never during a sync.
//
// bytes falls when requests are answered and not when they are taken, so the bound covers everything that was
// accepted and is not durable yet.
type queue struct {
	limit int64
	wake  chan struct{} // one signal that there is a request
	pool  sync.Pool     // of requests

	mu       sync.Mutex
	waiting  []*request
	bytes    int64             // of those waiting, of the current group, and of those that wait to be merged
	group    int               // requests in the current group
	deferred int               // requests that wait to be merged
	closed   *UnavailableError // why requests are refused; nil while they are accepted
}

// push adds r, or returns why it cannot be accepted.
//
// The signal comes after the lock is released. wake has room for one: the committer takes until the queue is
// empty, so one is enough.
func (q *queue) push(r *request) *UnavailableError {
	q.mu.Lock()
	if q.closed != nil {
		defer q.mu.Unlock()
		return q.closed
	}
	// An empty queue accepts any request, however large.
	if q.bytes > 0 && q.bytes+r.bytes > q.limit {
		q.mu.Unlock()
		return ErrOverloaded
	}
	q.bytes += r.bytes
	q.waiting = append(q.waiting, r)
	q.mu.Unlock()
	q.signal()
	return nil
}

// signal wakes the committer, unless a signal is waiting for it already.
func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take moves the next group into buf: at least one request if any waits, then as many as fit.
//
// The first request is taken regardless of its size, or a large one would wait forever. The bytes stay
// charged until free.
func (q *queue) take(buf []*request, maxBytes int64, maxRequests int) []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	bytes := int64(0)
	for _, r := range q.waiting {
		if bytes += r.bytes; len(buf) == maxRequests || len(buf) > 0 && bytes > maxBytes {
			break
		}
		if buf = append(buf, r); r.kind == record.TypeForget {
			break // a record of forgotten services changes the keys of later requests
		}
	}
	rest := copy(q.waiting, q.waiting[len(buf):])
	clear(q.waiting[rest:])
	q.waiting = q.waiting[:rest]
	q.group = len(buf)
	return buf
}

// free releases the bytes of an answered group.
func (q *queue) free(bytes int64) {
	q.mu.Lock()
	q.bytes -= bytes
	q.group = 0
	q.mu.Unlock()
}

// setDeferred says how many requests wait to be merged.
func (q *queue) setDeferred(n int) {
	q.mu.Lock()
	q.deferred = n
	q.mu.Unlock()
}

// close refuses requests from now on. Those that wait stay. The first reason counts, except that ErrPoisoned replaces
// any.
//
// The signal makes the committer look at the queue once more, so that it answers the requests in
// it.
func (q *queue) close(why *UnavailableError) {
	q.mu.Lock()
	if q.closed == nil || why == ErrPoisoned {
		q.closed = why
	}
	q.mu.Unlock()
	q.signal()
}

// open accepts requests from now on. Only serve calls it, once.
func (q *queue) open() {
	q.mu.Lock()
	q.closed = nil
	q.mu.Unlock()
}

// size returns the number and bytes of unanswered requests, for Health.
func (q *queue) size() (requests int, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) + q.group + q.deferred, q.bytes
}
