package otlp

import (
	"cmp"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/sloengine/sloengine/internal/order"
)

// The bounds of Seen. With the longest names it has about 8 MB.
const (
	maxSeenServices   = 500
	maxSeenOperations = 200 // of a service; the rest share OtherOperations
	maxSeenTotal      = 10_000
)

// NoService is the name of spans without a usable service.name.
const NoService = "(no service.name)"

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
	known      bool
}

type seenKey struct{ typ, name string }

type operationSums struct {
	now, before sums
	routed      bool  // the name is that of a route
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

// spanSeen is a span that does not count.
type spanSeen struct {
	service, typ []byte
	operation    string
	routed       bool // operation is a route
	known        bool // a spec has the service
	failed       bool
	took         int64 // ns; negative if it ended before it began
}

func (s *Seen) note(span spanSeen) {
	service := string(span.service)
	if service == "" {
		service = NoService
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.services[service]
	if in == nil {
		if len(s.services) >= maxSeenServices && !s.forget() {
			s.left++
			return
		}
		in = &serviceSums{operations: map[seenKey]*operationSums{}}
		s.services[service] = in
	}
	in.known = span.known
	key := seenKey{string(span.typ), span.operation}
	op := in.operations[key]
	if op == nil {
		if len(in.operations) >= maxSeenOperations || s.total >= maxSeenTotal {
			key.name = OtherOperations
		}
		if op = in.operations[key]; op == nil {
			op = &operationSums{routed: span.routed}
			in.operations[key] = op
			s.total++
		}
	}
	op.turn(s.now())
	op.now.spans++
	if span.failed {
		op.now.failures++
	}
	if span.took >= 0 {
		op.now.durations[bucket(span.took)]++
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

func bucket(ns int64) int {
	i := math.Ceil(2 * math.Log2(float64(ns)/1e6))
	return int(min(max(i, 0), float64(len(sums{}.durations)-1)))
}

// SeenService is a service with spans that no spec counts.
type SeenService struct {
	Name       string          `json:"name"`
	Known      bool            `json:"known"` // a spec has it, but not these types
	Spans      uint64          `json:"spans"`
	Failures   uint64          `json:"failures"`
	P95Seconds float64         `json:"p95_seconds"` // upper bound of its bucket
	Operations []SeenOperation `json:"operations"`  // the busiest first

	// Spec would count them, with objectives that they meet; "" if a spec has the service, or if none of its spans could
	// count.
	Spec string `json:"spec,omitempty"`
}

// SeenOperation is one operation of a service, in the last 30 to 60 minutes.
type SeenOperation struct {
	Name       string  `json:"name"`
	Type       string  `json:"type"` // of the event, if it counted; "internal" of a span that would need a rule
	Spans      uint64  `json:"spans"`
	Failures   uint64  `json:"failures"`
	P95Seconds float64 `json:"p95_seconds"` // upper bound of its bucket
	routed     bool
	all        sums
}

// Snapshot is what was seen in the last hour, the busiest service first.
func (s *Seen) Snapshot() []SeenService {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var out []SeenService
	for name, in := range s.services {
		service, all := SeenService{Name: name, Known: in.known}, sums{}
		for key, op := range in.operations {
			op.turn(now)
			both := op.now
			both.add(&op.before)
			all.add(&both)
			if both.spans > 0 {
				service.Operations = append(service.Operations, SeenOperation{Name: key.name, Type: key.typ, Spans: both.spans,
					Failures: both.failures, P95Seconds: both.quantile(0.95).Seconds(), routed: op.routed, all: both})
			}
		}
		service.Spans, service.Failures, service.P95Seconds = all.spans, all.failures, all.quantile(0.95).Seconds()
		if len(service.Operations) == 0 {
			continue
		}
		order.By(service.Operations, func(a, b *SeenOperation) int {
			return cmp.Or(cmp.Compare(b.Spans, a.Spans), strings.Compare(a.Name, b.Name), strings.Compare(a.Type, b.Type))
		})
		service.Spec = service.propose()
		out = append(out, service)
	}
	order.By(out, func(a, b *SeenService) int {
		return cmp.Or(cmp.Compare(b.Spans, a.Spans), strings.Compare(a.Name, b.Name))
	})
	return out
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
