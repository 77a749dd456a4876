package otlp

import (
	"cmp"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/sloengine/sloengine/ingest/otlp/otlpwire"
	"github.com/sloengine/sloengine/internal/order"
)

// The bounds of Seen. With the longest names it has about 8 MB.
const (
	maxSeenServices   = 500
	maxSeenOperations = 200 // of a service; the rest share OtherOperations
	maxSeenTotal      = 10_000
)

// OtherOperations is the name of the operations of a service beyond the bound.
const OtherOperations = "__other__"

// half is the time of one of the two sums that an operation has, so that it shows the last 30 to 60 minutes.
const half = 30 * time.Minute

// Seen is what was sent and no spec counts: spans of unknown services, of types that a spec does not have, and internal
// spans without a parent. It is in memory, bounded, and not deduplicated: a resent span counts again. It is safe for
// concurrent use.
type Seen struct {
	now func() time.Time

	mu       sync.Mutex
	services map[string]*serviceSums
	total    int    // operations
	left     uint64 // spans of services beyond the bound
}

type serviceSums struct {
	operations map[seenKey]*operationSums
}

type seenKey struct{ typ, name string }

type operationSums struct {
	now, before sums
	from        int64 // half hour of now, counted from the Unix epoch
}

// sums are those of half an hour. Bucket i of durations holds those of at most 2^(i/2) ms, the last all others.
type sums struct {
	spans, failures uint64
	durations       [40]uint32
}

// NewSeen makes an empty Seen.
func NewSeen(now func() time.Time) *Seen {
	return &Seen{now: now, services: map[string]*serviceSums{}}
}

func (s *Seen) note(service, typ []byte, operation string, span *otlpwire.Span, failed bool) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.services[string(service)]
	if in == nil {
		if len(s.services) >= maxSeenServices && !s.forget() {
			s.left++
			return
		}
		in = &serviceSums{operations: map[seenKey]*operationSums{}}
		s.services[strings.Clone(string(service))] = in
	}
	key := seenKey{string(typ), operation}
	op := in.operations[key]
	if op == nil {
		if len(in.operations) >= maxSeenOperations || s.total >= maxSeenTotal {
			key.name = OtherOperations
		}
		if op = in.operations[key]; op == nil {
			op = &operationSums{}
			in.operations[seenKey{strings.Clone(key.typ), strings.Clone(key.name)}] = op
			s.total++
		}
	}
	op.turn(s.now())
	op.now.spans++
	if failed {
		op.now.failures++
	}
	if span.End >= span.Start {
		op.now.durations[bucket(span.End-span.Start)]++
	}
}

// forget drops the services that have sent nothing for an hour, and reports whether there were any.
func (s *Seen) forget() bool {
	now, before := s.now(), len(s.services)
	for name, in := range s.services {
		live := false
		for _, op := range in.operations {
			op.turn(now)
			live = live || op.now.spans+op.before.spans > 0
		}
		if !live {
			s.total -= len(in.operations)
			delete(s.services, name)
		}
	}
	return len(s.services) < before
}

// turn begins another half hour if it is time.
func (o *operationSums) turn(now time.Time) {
	switch at := now.Unix() / int64(half/time.Second); at {
	case o.from:
	case o.from + 1:
		o.before, o.now, o.from = o.now, sums{}, at
	default:
		o.before, o.now, o.from = sums{}, sums{}, at
	}
}

func bucket(ns uint64) int {
	i := math.Ceil(2 * math.Log2(float64(ns)/1e6))
	return int(min(max(i, 0), float64(len(sums{}.durations)-1)))
}

// SeenService is a service whose spans no spec counts.
type SeenService struct {
	Name       string          `json:"name"`
	Operations []SeenOperation `json:"operations"` // the busiest first
}

// SeenOperation is one operation of a service, in the last 30 to 60 minutes.
type SeenOperation struct {
	Name     string        `json:"name"`
	Type     string        `json:"type"`
	Spans    uint64        `json:"spans"`
	Failures uint64        `json:"failures"`
	P95      time.Duration `json:"p95"` // upper bound of its bucket
}

// Snapshot is what was seen in the last hour, the busiest service first.
func (s *Seen) Snapshot() []SeenService {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var out []SeenService
	for name, in := range s.services {
		service := SeenService{Name: name}
		for key, op := range in.operations {
			op.turn(now)
			both := op.now
			both.add(&op.before)
			if both.spans > 0 {
				service.Operations = append(service.Operations, SeenOperation{key.name, key.typ, both.spans, both.failures,
					both.quantile(0.95)})
			}
		}
		if len(service.Operations) == 0 {
			continue
		}
		order.By(service.Operations, func(a, b *SeenOperation) int {
			return cmp.Or(cmp.Compare(b.Spans, a.Spans), strings.Compare(a.Name, b.Name), strings.Compare(a.Type, b.Type))
		})
		out = append(out, service)
	}
	order.By(out, func(a, b *SeenService) int {
		return cmp.Or(cmp.Compare(b.spans(), a.spans()), strings.Compare(a.Name, b.Name))
	})
	return out
}

func (s *SeenService) spans() (n uint64) {
	for i := range s.Operations {
		n += s.Operations[i].Spans
	}
	return n
}

func (s *sums) add(o *sums) {
	s.spans += o.spans
	s.failures += o.failures
	for i, n := range o.durations {
		s.durations[i] += n
	}
}

// quantile is the upper bound of the bucket in which that share of the durations ends.
func (s *sums) quantile(q float64) time.Duration {
	total := uint64(0)
	for _, n := range s.durations {
		total += uint64(n)
	}
	sum := uint64(0)
	for i, n := range s.durations {
		if sum += uint64(n); total > 0 && float64(sum) >= q*float64(total) {
			return time.Duration(math.Exp2(float64(i)/2) * 1e6)
		}
	}
	return 0
}
