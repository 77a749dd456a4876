// Package servicebudget bounds the traffic of one service, so that a noisy service starves no other: bytes of events
// per second, and its share of the queue for the disk.
//
// It does not know of rate limits, which decide about single events, nor who sends.
package servicebudget

import (
	"cmp"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/reliability/metric"
)

// Any is the name of a rule for every service without a rule of its own.
const Any = "*"

// Rule is the budget of a service. Zero fields bound nothing.
type Rule struct {
	Service string  `yaml:"service" is:"required"` // or Any
	Bytes   int64   `yaml:"bytes" is:"size"`       // of events as they are stored, per second
	Queue   float64 `yaml:"queue" min:"0" max:"1"` // share of the bytes that may wait for the disk
}

// Names of the budgets, in metrics and answers.
const (
	Bytes = "bytes"
	Queue = "queue"
)

const (
	burst       = 10 * time.Second // of unused bytes that a service may send at once
	retryQueue  = time.Second
	maxServices = 1000 // that have a budget of their own; the others share one
	others      = "(other)"
	refusedFor  = time.Minute
)

// Over says which budget a request exceeds.
type Over struct {
	Service, Budget string
	Limit           int64         // bytes per second, or bytes that may wait
	Retry           time.Duration // after which there is room
}

func (o *Over) Error() string {
	if o.Budget == Bytes {
		return fmt.Sprintf("the service %q exceeds its budget of %d bytes of events per second", o.Service, o.Limit)
	}
	return fmt.Sprintf("the service %q has more than its share of %d bytes waiting for the disk", o.Service, o.Limit)
}

// Budgets are the budgets of all services. They are safe for concurrent use.
type Budgets struct {
	queue  int64 // bytes that may wait for the disk
	rules  atomic.Pointer[rules]
	series *metric.PerName[*counters]

	mu       sync.RWMutex // guards services
	services map[string]*service
}

type rules struct {
	named map[string]Rule
	any   Rule
}

type counters struct{ bytes, overBytes, overQueue *metrics.Counter }

// service is the state of one service.
type service struct {
	name string
	*counters

	mu       sync.Mutex
	left     float64   // bytes of the budget; less than 0 after a large request
	at       time.Time // of left
	waiting  int64     // bytes
	refused  time.Time
	refusals uint64
}

// New makes budgets without rules. queue is the number of bytes that may wait for the disk.
func New(queue int64, set *metrics.Set) *Budgets {
	b := &Budgets{queue: queue, services: map[string]*service{}}
	b.series = metric.NewPerName(set, func(g *metric.Group, name string) *counters {
		return &counters{
			g.Counter(metric.ServiceBytes, name), g.Counter(metric.ServiceRefused, name, Bytes),
			g.Counter(metric.ServiceRefused, name, Queue),
		}
	})
	b.Set(nil)
	return b
}

// Set activates other rules. Without any, nothing is bounded and nothing costs.
func (b *Budgets) Set(list []Rule) {
	if len(list) == 0 {
		b.rules.Store(nil)
		return
	}
	r := &rules{named: map[string]Rule{}}
	for _, x := range list {
		if x.Service == Any {
			r.any = x
		} else {
			r.named[x.Service] = x
		}
	}
	b.rules.Store(r)
}

// Lease is the share of the queue that a request occupies, until it is released.
type Lease struct {
	first part
	more  []part // of a batch of several services
}

type part struct {
	s *service
	n int64
}

// Release frees the room in the queue. An empty lease occupies none.
func (l *Lease) Release() {
	l.first.release()
	for _, p := range l.more {
		p.release()
	}
}

func (p part) release() {
	if p.s != nil {
		p.s.mu.Lock()
		p.s.waiting -= p.n
		p.s.mu.Unlock()
	}
}

// Take takes the events of a batch out of the budgets of their services: all of them or none. A service may exceed its
// bytes by one request, and then waits until that is made up for, so that requests of any size are taken.
func (b *Budgets) Take(batch *event.Batch, now time.Time) (lease Lease, over *Over) {
	r := b.rules.Load()
	if r == nil || len(batch.Events) == 0 {
		return Lease{}, nil
	}
	for i := range batch.Events {
		raw := batch.Event(i)
		_, name, ok := event.Identity(raw)
		if !ok {
			continue
		}
		lease.add(b, name, int64(len(raw)))
	}
	if over = b.reserve(r, lease.first, now); over != nil {
		return Lease{}, over
	}
	for i, p := range lease.more {
		if over = b.reserve(r, p, now); over != nil {
			lease.first.undo()
			for _, done := range lease.more[:i] {
				done.undo()
			}
			return Lease{}, over
		}
	}
	lease.first.count()
	for _, p := range lease.more {
		p.count()
	}
	return lease, nil
}

func (p part) count() {
	if p.s != nil {
		p.s.bytes.Add(int(p.n))
	}
}

// add counts the bytes of an event for its service.
func (l *Lease) add(b *Budgets, name []byte, n int64) {
	if l.first.s != nil && l.first.s.name == string(name) {
		l.first.n += n
		return
	}
	for i := range l.more {
		if l.more[i].s.name == string(name) {
			l.more[i].n += n
			return
		}
	}
	s := b.of(name)
	switch l.first.s {
	case nil:
		l.first = part{s, n}
	case s:
		l.first.n += n
	default:
		for i := range l.more {
			if l.more[i].s == s {
				l.more[i].n += n
				return
			}
		}
		l.more = append(l.more, part{s, n})
	}
}

// of finds or creates the state of a service.
func (b *Budgets) of(name []byte) *service {
	b.mu.RLock()
	s := b.services[string(name)]
	b.mu.RUnlock()
	if s != nil {
		return s
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	key := string(name)
	if len(b.services) >= maxServices && b.services[key] == nil {
		key = others
	}
	if s = b.services[key]; s == nil {
		s = &service{name: key, counters: b.series.Of(key)}
		b.services[key] = s
	}
	return s
}

func (r *rules) of(name string) Rule {
	if x, ok := r.named[name]; ok {
		return x
	}
	return r.any
}

// reserve takes bytes out of the budgets of one service.
func (b *Budgets) reserve(r *rules, p part, now time.Time) *Over {
	if p.s == nil {
		return nil
	}
	s, rule := p.s, r.of(p.s.name)
	s.mu.Lock()
	defer s.mu.Unlock()
	rate := float64(rule.Bytes)
	if rule.Bytes > 0 {
		full := rate * burst.Seconds()
		if s.at.IsZero() {
			s.left = full
		} else if d := now.Sub(s.at).Seconds(); d > 0 {
			s.left += d * rate
		}
		s.left, s.at = min(s.left, full), now
		if s.left <= 0 {
			s.refuse(s.overBytes, now)
			return &Over{s.name, Bytes, rule.Bytes, time.Duration((1 - s.left) / rate * float64(time.Second))}
		}
	} else {
		s.at = time.Time{}
	}
	if share := int64(rule.Queue * float64(b.queue)); rule.Queue > 0 && s.waiting > 0 && s.waiting+p.n > share {
		s.refuse(s.overQueue, now)
		return &Over{s.name, Queue, share, retryQueue}
	}
	if rule.Bytes > 0 {
		s.left -= float64(p.n)
	}
	s.waiting += p.n
	return nil
}

func (s *service) refuse(c *metrics.Counter, now time.Time) {
	c.Inc()
	s.refused = now
	s.refusals++
}

// undo reverts reserve.
func (p part) undo() {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.s.left += float64(p.n)
	p.s.waiting -= p.n
}

// Status is how a service does with its budget.
type Status struct {
	Service        string  `json:"service"`
	BytesPerSecond int64   `json:"bytes_per_second,omitempty"` // 0: no bound
	QueueShare     float64 `json:"queue_share,omitempty"`      // 0: no bound
	Waiting        int64   `json:"waiting_bytes"`              // for the disk
	Refused        uint64  `json:"refused"`                    // requests
	Lately         bool    `json:"lately"`                     // one was refused within the last minute
}

// Status lists the services that have exceeded a budget since the start.
func (b *Budgets) Status(now time.Time) (out []Status) {
	r := b.rules.Load()
	if r == nil {
		return nil
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, s := range b.services {
		s.mu.Lock()
		if s.refusals > 0 {
			rule := r.of(s.name)
			out = append(out, Status{s.name, rule.Bytes, rule.Queue, s.waiting, s.refusals, now.Sub(s.refused) < refusedFor})
		}
		s.mu.Unlock()
	}
	order.By(out, func(a, b *Status) int { return cmp.Compare(a.Service, b.Service) })
	return out
}
