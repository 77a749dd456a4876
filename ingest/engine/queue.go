package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/ratelimit"
)

// request is something that waits to be written to the log. Its sender fills it in and
// pushes it. From then on state says whose it is: the sender may take it back only while it
// waits, the committer may read it only once it has taken it. Whoever owns it at the end
// returns it to the pool.
type request struct {
	kind    byte         // of record
	batch   *event.Batch // RecordEvents
	tickets *ratelimit.Tickets
	todo    []int32  // places in batch.Events; nil is all
	replay  []Replay // RecordReplay
	sunk    bool     // of a replay: the sinks had them
	payload []byte   // any other
	basis   uint64   // RecordForget: see Engine.Forget
	bytes   int64    // counted against the queue's limit

	deadline time.Time // of its sender; zero: none
	timer    *time.Timer
	held     bool // it was decided, and waited to be merged: see mergeWait

	state   atomic.Uint32
	leaving atomic.Bool   // its sender does not wait any more, and could not say so
	done    chan struct{} // one signal, after result and err are set

	result Result
	err    error
	wrote  int // records in the group at hand
}

// The states of a request. Who moves it away from waiting owns it.
const (
	requestWaiting uint32 = iota
	requestTaken          // by the committer, which will answer
	requestLeft           // by its sender, who does not wait any more
)

// request returns an empty request, perhaps one that was released.
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

func (q *queue) release(r *request) {
	r.batch, r.tickets, r.todo, r.replay, r.sunk = nil, nil, nil, nil, false
	r.payload, r.result, r.err = nil, Result{}, nil
	r.deadline, r.held = time.Time{}, false
	q.pool.Put(r)
}

// expires fires after d.
func (r *request) expires(d time.Duration) <-chan time.Time {
	if r.timer == nil {
		r.timer = time.NewTimer(d)
	} else {
		r.timer.Reset(d)
	}
	return r.timer.C
}

func (r *request) answer() { r.done <- struct{}{} }

// requestOverhead is what a waiting request costs besides its events, in bytes.
const requestOverhead = 512

// queue holds the requests that wait, in order, up to a number of bytes. mu is held for a
// few instructions only, never during a sync.
type queue struct {
	limit int64
	wake  chan struct{} // one signal that there is something
	pool  sync.Pool     // of requests

	mu      sync.Mutex
	waiting []*request
	bytes   int64 // of those waiting and of the group at hand
	group   int   // requests in the group at hand
	held    int   // requests that wait to be merged
	closed  *UnavailableError
}

// push lets r wait, or says why it can't.
func (q *queue) push(r *request) *UnavailableError {
	q.mu.Lock()
	if q.closed != nil {
		defer q.mu.Unlock()
		return q.closed
	}
	// One request is always let in, however large.
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

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take moves the next group into buf: at least one request if any waits, then
// as many as fit.
func (q *queue) take(buf []*request, maxBytes int64, maxRequests int) []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	bytes := int64(0)
	for _, r := range q.waiting {
		if bytes += r.bytes; len(buf) == maxRequests || len(buf) > 0 && bytes > maxBytes {
			break
		}
		if buf = append(buf, r); r.kind == record.TypeForget {
			break // what comes after it has other keys
		}
	}
	rest := copy(q.waiting, q.waiting[len(buf):])
	clear(q.waiting[rest:])
	q.waiting = q.waiting[:rest]
	q.group = len(buf)
	return buf
}

// give says that a group of that many bytes is answered.
func (q *queue) give(bytes int64) {
	q.mu.Lock()
	q.bytes -= bytes
	q.group = 0
	q.mu.Unlock()
}

// holds says how many requests wait to be merged.
func (q *queue) holds(n int) {
	q.mu.Lock()
	q.held = n
	q.mu.Unlock()
}

// close refuses whatever comes from now on; what waits stays. The first reason
// counts, unless the later one is graver.
func (q *queue) close(why *UnavailableError) {
	q.mu.Lock()
	if q.closed == nil || why == ErrPoisoned {
		q.closed = why
	}
	q.mu.Unlock()
	q.signal()
}

func (q *queue) open() {
	q.mu.Lock()
	q.closed = nil
	q.mu.Unlock()
}

func (q *queue) size() (requests int, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) + q.group + q.held, q.bytes
}
