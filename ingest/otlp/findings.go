package otlp

import (
	"cmp"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sloengine/sloengine/internal/order"
)

// FindingReason is why numbers of a service are wrong.
type FindingReason uint8

// The reasons.
const (
	// SampledWork: sampled spans, and an SLO follows work by trace.
	SampledWork FindingReason = iota
	// SampledByOutcome: a tail sampler decided which traces are sent.
	SampledByOutcome
	// TwoSignals: spans, log records or metrics have the same service and type.
	TwoSignals
	// NoBoundary: no bucket of a histogram ends at a threshold of the spec, so that its durations do not count.
	NoBoundary
	findingReasons
)

var findingNames = [findingReasons]string{"sampled_work", "sampled_by_outcome", "two_signals", "no_boundary"}

// FindingReasons are their names, by FindingReason.
func FindingReasons() []string { return findingNames[:] }

// maxFindings bounds those of histograms, whose names senders choose.
const maxFindings = 1000

// findingLife is how long after its last sign a finding holds.
const findingLife = time.Hour

// Finding is what senders do that makes numbers of a service wrong.
type Finding struct {
	Reason  FindingReason
	Service string
	Type    string // of TwoSignals and NoBoundary
	Detail  string // of NoBoundary
}

// OfWork reports whether the finding is about SLOs that follow work only.
func (f *Finding) OfWork() bool { return f.Reason == SampledWork }

// OfLatency reports whether the finding is about SLOs that compare durations only.
func (f *Finding) OfLatency() bool { return f.Reason == NoBoundary }

// Text says what is wrong, and what to do.
func (f *Finding) Text() string {
	switch f.Reason {
	case SampledWork:
		return "Completion is unreliable: sampled spans of " + f.Service + " arrive, and work is followed by trace. " +
			"Send all spans of the service."
	case SampledByOutcome:
		return "Ratios are biased: spans of " + f.Service + " were sampled by outcome. " +
			"Send them to the engine before the tail sampler."
	case NoBoundary:
		return "Latency is not counted: " + f.Detail + ". Give the histogram of " + f.Service +
			" a bucket that ends there, or the SLO another threshold."
	default:
		return "Operations may count twice: more than one signal (spans, log records, metrics) of " + f.Service +
			" has the type " + f.Type + ". Give one of them another type in otlp."
	}
}

// FindingsOptions say what Findings need. All are optional.
type FindingsOptions struct {
	Now    func() time.Time          // default: time.Now
	Logger *slog.Logger              // default: none
	Traced func(service []byte) bool // an SLO of the service follows work by trace; default: none does
}

// Findings are those of the last hour. They are about services and types of the spec only, which bounds them. They are
// safe for concurrent use.
type Findings struct {
	o FindingsOptions

	mu   sync.Mutex
	last map[Finding]time.Time
	fed  map[Finding][signalCount]time.Time // with the reason TwoSignals
}

// The signals that feed an operation.
const (
	signalSpans = iota
	signalLogs
	signalMetrics
	signalCount
)

// NewFindings makes empty Findings.
func NewFindings(o FindingsOptions) *Findings {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Traced == nil {
		o.Traced = func([]byte) bool { return false }
	}
	return &Findings{o: o, last: map[Finding]time.Time{}, fed: map[Finding][signalCount]time.Time{}}
}

// note notes a sign of a finding.
func (f *Findings) note(x Finding) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sign(x, f.o.Now())
}

func (f *Findings) sign(x Finding, now time.Time) {
	f.expire(now)
	if _, known := f.last[x]; !known {
		if len(f.last) >= maxFindings {
			return
		}
		f.o.Logger.Warn("numbers of a service are wrong", "service", x.Service, "reason", findingNames[x.Reason],
			"problem", x.Text())
	}
	f.last[x] = now
}

// feed notes that a signal feeds an operation.
func (f *Findings) feed(service, typ string, signal int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	x, now := Finding{Reason: TwoSignals, Service: service, Type: typ}, f.o.Now()
	at := f.fed[x]
	at[signal] = now
	f.fed[x] = at
	for other, last := range at {
		if other != signal && now.Sub(last) < findingLife {
			f.sign(x, now)
		}
	}
}

// expire ends the findings without a sign in the last hour.
func (f *Findings) expire(now time.Time) {
	for x, last := range f.last {
		if now.Sub(last) >= findingLife {
			delete(f.last, x)
			f.o.Logger.Info("numbers of a service are right again", "service", x.Service, "reason", findingNames[x.Reason])
		}
	}
	for x, at := range f.fed {
		if !slices.ContainsFunc(at[:], func(last time.Time) bool { return now.Sub(last) < findingLife }) {
			delete(f.fed, x)
		}
	}
}

// Snapshot lists the findings, by service.
func (f *Findings) Snapshot() []Finding {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expire(f.o.Now())
	var out []Finding
	for x := range f.last {
		out = append(out, x)
	}
	order.By(out, func(a, b *Finding) int {
		return cmp.Or(strings.Compare(a.Service, b.Service), cmp.Compare(a.Reason, b.Reason), strings.Compare(a.Type, b.Type))
	})
	return out
}

// find notes what an item that counts shows. A mapper notes each finding once a minute.
func (m *Mapper) find(typ []byte, signal int, weight uint32) {
	if m.findings == nil {
		return
	}
	p := m.plan
	if weight > 1 && p.traced {
		m.sign(SampledWork)
	}
	if m.tail || m.resourceTail {
		m.sign(SampledByOutcome)
	}
	for i := range p.fed {
		if x := &p.fed[i]; x.signal == signal && x.typ == string(typ) {
			if x.minute != m.minute {
				x.minute = m.minute
				m.findings.feed(string(p.service), x.typ, signal)
			}
			return
		}
	}
	p.fed = append(p.fed, feeding{string(typ), signal, m.minute})
	m.findings.feed(string(p.service), string(typ), signal)
}

func (m *Mapper) sign(why FindingReason) {
	if p := m.plan; p.noted[why] != m.minute {
		p.noted[why] = m.minute
		m.findings.note(Finding{Reason: why, Service: string(p.service)})
	}
}

// feeding is a type that a signal fed in a minute.
type feeding struct {
	typ    string
	signal int
	minute int64
}
