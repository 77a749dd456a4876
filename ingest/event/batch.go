package event

import (
	"time"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/trace"
)

// Format is the form of a body.
type Format uint8

// The formats that Decode reads.
const (
	JSON             Format = iota // one event object, or an array of them
	NDJSON                         // one event object per line
	CloudEvent                     // CloudEvents 1.0, structured mode
	CloudEventBatch                // CloudEvents 1.0, batch mode: an array
	cloudEventBinary               // CloudEvents 1.0, binary mode: the data, beside an Envelope
)

// SizeLimits bound the size of an event and of a batch. A zero field takes the default, which is
// given with it.
type SizeLimits struct {
	MaxEventBytes  int           // of one event's JSON; 65536
	MaxBatchEvents int           // 10000
	MaxAttributes  int           // per event; 64
	MaxNameBytes   int           // of a service, type or attribute name; 128
	MaxValueBytes  int           // of an attribute's value; 1024
	MaxDepth       int           // of nesting; 16
	MaxErrors      int           // listed per batch, further ones are only counted; 100
	MaxFuture      time.Duration // ahead of the clock; 5m

	AllowedLateness time.Duration // behind the clock; 24h
	MaxBackfill     time.Duration // behind the clock in a backfill; 9600h (400 days)
}

func (l SizeLimits) withDefaults() SizeLimits {
	setDefault(&l.MaxEventBytes, 64<<10)
	setDefault(&l.MaxBatchEvents, 10_000)
	setDefault(&l.MaxAttributes, 64)
	setDefault(&l.MaxNameBytes, 128)
	setDefault(&l.MaxValueBytes, 1024)
	setDefault(&l.MaxDepth, 16)
	setDefault(&l.MaxErrors, 100)
	setDefault(&l.MaxFuture, 5*time.Minute)
	setDefault(&l.AllowedLateness, 24*time.Hour)
	setDefault(&l.MaxBackfill, 400*24*time.Hour)
	return l
}

func setDefault[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// Known is a catalogue's answer.
type Known uint8

// The answers of a catalogue.
const (
	KnownYes Known = iota
	UnknownService
	UnknownType
	Uncounted // an unknown type of a service that admits those: the event is stored
)

// Admitted reports whether the event is stored.
func (k Known) Admitted() bool { return k == KnownYes || k == Uncounted }

// Catalog knows the services and the types of their events. It must not change
// while a body is decoded. One that is also a Suggester helps with the errors.
type Catalog interface {
	Lookup(service, typ []byte) Known
}

// Suggester names the known service, or the type of a known service, that comes
// closest to an unknown one; "" if none does.
type Suggester interface {
	Suggest(service, typ []byte) string
}

// DecodeOptions say how a body is judged.
type DecodeOptions struct {
	Now        time.Time // the present: default time of events, and the reference for lateness
	Backfill   bool      // MaxBackfill takes the place of AllowedLateness
	Covers     []Span    // of a backfill: see Batch.Covers
	Catalog    Catalog   // nil takes every service and type
	SizeLimits SizeLimits

	// AllowWeight lets events have a weight, as replayed dead letters do. Senders
	// must not give one: without it "weight" is an unknown field.
	AllowWeight bool

	// AssignID makes an id for the event at that index, which has none. If nil, such an event keeps an
	// empty id.
	AssignID func(index int) string
	// AppendID appends one instead, without the memory of a string. Item.Assigned stays empty.
	AppendID func(dst []byte, index int) []byte

	// DefaultID appends the id that its transport gave to an event without one, by which it counts once like a sender's
	// own. The appended text is used if it is a valid id. Otherwise the event gets one as if there were no DefaultID.
	DefaultID func(dst []byte, index int) []byte

	// MapData appends the JSON of the event that is made of the data of a CloudEvent, a JSON object of the producer's own.
	// nil takes data that are an event.
	MapData func(dst, data []byte) ([]byte, error)

	// AllowService says whether the sender may send for the service; nil allows all.
	AllowService func(service []byte) bool
}

// Batch is a decoded body. It shares no memory with the body, and can be reused.
type Batch struct {
	Received        int // events in the body, good or bad
	Rejected        int // those with an error, listed or not
	Events          []Item
	Buf             []byte      // the binary events, one after the other
	Errors          []ItemError // the first SizeLimits.MaxErrors
	ErrorsTruncated bool        // there were more
	Unlisted        []Run       // those, unless they are more than maxRuns runs
	Unknown         []Unknown   // the events that only the catalogue refused, by service and type
	Backfill        bool
	Timed           bool // its sender gives each event the same time whenever it sends it
	// times of which the sender of a backfill says that it sends all events, so that a gap is one
	Covers   []Span
	Deadline time.Time // after which its sender no longer waits; zero: no deadline
	MinTime  int64     // Unix nanoseconds over Events; both 0 if there are none
	MaxTime  int64
	Traces   *trace.Batch // of the events that do not carry their trace id; nil: there are none
}

// Span is a time between two others, both included, in Unix nanoseconds.
type Span struct{ From, To int64 }

// MaxCovers is how many times a request may cover.
const MaxCovers = 100

// Run is neighbouring events of a body that are rejected with the same code and not listed, From and To included.
type Run struct {
	From int  `json:"from"` // index in the body, from 0
	To   int  `json:"to"`
	Code Code `json:"code"`
}

// Unknown counts events whose service or type the catalogue does not have.
type Unknown struct {
	Service, Type string // OtherTypes for both: those of a batch with too many
	Code          Code   // CodeUnknownService or CodeUnknownType
	N             uint64 // the sum of their counts
}

// OtherTypes is the service and the type of what is beyond a bound.
const OtherTypes = "__other__"

// maxUnknown bounds the pairs of service and type that a batch counts apart.
const maxUnknown = 32

// Refuse counts events that the catalogue refuses.
func (b *Batch) Refuse(service, typ []byte, code Code, n uint64) {
	for i := range b.Unknown {
		if u := &b.Unknown[i]; u.Code == code && u.Type == string(typ) && u.Service == string(service) ||
			i == maxUnknown {
			u.N += n
			return
		}
	}
	if len(b.Unknown) == maxUnknown {
		b.Unknown = append(b.Unknown, Unknown{OtherTypes, OtherTypes, code, n})
		return
	}
	b.Unknown = append(b.Unknown, Unknown{string(service), string(typ), code, n})
}

// maxRuns bounds the runs of a batch: 10,000 events that are good and bad in turn would be 5,000.
const maxRuns = 500

// leaveOut notes an error that is not listed.
func (b *Batch) leaveOut(index int, code Code) {
	b.ErrorsTruncated = true
	if n := len(b.Unlisted); n > 0 && b.Unlisted[n-1].To == index-1 && b.Unlisted[n-1].Code == code {
		b.Unlisted[n-1].To = index
	} else if n < maxRuns {
		b.Unlisted = append(b.Unlisted, Run{index, index, code})
	}
}

// Item is one good event of a batch.
type Item struct {
	Start, End int          // in Batch.Buf
	Index      int          // in the body, from 0, counting bad events too
	Line       int          // of an NDJSON body, from 1; else 0
	Time       int64        // Unix nanoseconds
	Key        xxh3.Uint128 // of service and id; meant only with HasKey
	HasKey     bool         // the sender gave the id
	// Earliest is when the event can have been received first, in Unix nanoseconds, if it must not count once its id could
	// have been forgotten; else 0.
	Earliest int64
	Assigned string // the id that AssignID gave
}

// ItemError is the problem of one event, with advice.
type ItemError struct {
	Index     int    `json:"index"`
	Line      int    `json:"line,omitempty"`
	ID        string `json:"id,omitempty"`
	Code      Code   `json:"code"`
	Detail    string `json:"detail"`
	Retryable bool   `json:"retryable"`

	From int `json:"-"` // where the event stands in its body
	To   int `json:"-"`
}

// Reset empties b and keeps its memory for reuse.
func (b *Batch) Reset() {
	clear(b.Errors) // release the texts
	*b = Batch{Events: b.Events[:0], Buf: b.Buf[:0], Errors: b.Errors[:0], Unlisted: b.Unlisted[:0],
		Unknown: b.Unknown[:0]}
}

// Event returns the binary form of the i-th good event.
func (b *Batch) Event(i int) []byte {
	return b.Buf[b.Events[i].Start:b.Events[i].End:b.Events[i].End]
}
