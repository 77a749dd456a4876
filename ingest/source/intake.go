package source

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/mapping"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/ratelimit"
)

// Engine makes batches durable, with their positions: *engine.Engine.
type Engine interface {
	AdmitAt(ctx context.Context, b *event.Batch, t *ratelimit.Tickets, todo []int32,
		at engine.Position) (engine.Result, error)
}

// Redactor takes personal data out: a *redact.Redactor, and whether it has rules.
type Redactor interface {
	Apply(b *event.Batch) error
	ItemError(e *event.ItemError)
	BodyError(e *event.BodyError)
	// Active reports whether there is any rule.
	Active() bool
}

// BackfillMode says which messages are backfilled: taken up to the longest window ago, and counted in no exported
// counter.
type BackfillMode string

// The modes.
const (
	// BackfillAuto backfills messages that are older than the allowed lateness, and those that were there before the
	// source took them up for the first time.
	BackfillAuto   BackfillMode = "auto"
	BackfillAlways BackfillMode = "always"
	BackfillNever  BackfillMode = "never"
)

// Settings say how the messages of a source are read. They are part of engine.yaml.
type Settings struct {
	Format     Format            `yaml:"format" one:"auto json ndjson cloudevents cloudevents_batch"`
	Map        *mapping.Settings `yaml:"map"`
	Headers    map[string]string `yaml:"headers"` // attribute by header
	Backfill   BackfillMode      `yaml:"backfill" one:"auto always never"`
	MaxMessage int64             `yaml:"max_message" min:"1KiB" max:"64MiB" is:"size"`
}

// Defaults are the settings of a source that says nothing about its messages.
func Defaults() Settings {
	return Settings{Format: FormatAuto, Backfill: BackfillAuto, MaxMessage: 10 << 20}
}

// Options configure an Intake. A zero field takes the default given with it.
type Options struct {
	Name     string // of the source
	Settings Settings
	// Typed says that messages come with a Service and a Type, as rows of a table do, so that the mapping need not find
	// them.
	Typed  bool
	Engine Engine // required

	Catalog     func() event.Catalog // nil, or a nil result, takes every service and type
	SizeLimits  event.SizeLimits     // those of package event
	MaxBackfill func() time.Duration // nil: SizeLimits.MaxBackfill

	// Limiter makes the tickets that the Engine decides about, while it has a policy; nil: no limits.
	Limiter *ratelimit.Limiter
	// Save keeps dead letters, and returns nil once they are safe. Required.
	Save func(ctx context.Context, entries []dlq.Entry) error
	// Wanted says whether a failure should become a dead letter; nil: always.
	Wanted func(e *dlq.Entry) bool
	Redact Redactor // nil: nothing is taken out
	// Lose writes a position whose messages are lost, together with the resulting loss of coverage: Engine.Lose. Only
	// for sources that call Intake.Lose.
	Lose func(ctx context.Context, at engine.Position, lost []record.Dropped) error
	// Kinds lists the services and types that events may have, for messages that were lost unread; nil: none.
	Kinds func() []ServiceType

	Metrics *Metrics
	Logger  *slog.Logger     // slog.Default
	Now     func() time.Time // time.Now

	// BatchEvents and BatchBytes are from when on a batch is full; 2000 and 4 MiB of messages.
	BatchEvents int
	BatchBytes  int
}

func (o *Options) applyDefaults() {
	o.BatchEvents = cmp.Or(o.BatchEvents, 2_000)
	o.BatchBytes = cmp.Or(o.BatchBytes, 4<<20)
	o.Settings.Format = cmp.Or(o.Settings.Format, FormatAuto)
	o.Settings.Backfill = cmp.Or(o.Settings.Backfill, BackfillAuto)
	o.Settings.MaxMessage = cmp.Or(o.Settings.MaxMessage, Defaults().MaxMessage)
	o.SizeLimits.AllowedLateness = cmp.Or(o.SizeLimits.AllowedLateness, 24*time.Hour)
	o.Metrics = cmp.Or(o.Metrics, NewMetrics(metrics.NewSet()))
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Now == nil {
		o.Now = time.Now
	}
}

func (o *Options) validate() error {
	switch {
	case o.Name == "":
		return errors.New("source: Name is required")
	case o.Engine == nil || o.Save == nil:
		return errors.New("source: Engine and Save are required")
	}
	return o.Settings.Validate(o.Typed)
}

// Intake takes the messages of one source. It is safe for concurrent use, a Batch is not.
type Intake struct {
	o       Options
	reading reading
	counts  *counts
	state   state
	busy    meter
	seen    seen
	batches sync.Pool
}

// New makes an Intake.
func New(o Options) (*Intake, error) {
	o.applyDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	in := &Intake{o: o, counts: o.Metrics.sources.Of(o.Name)}
	in.state.init(&in.o, in.counts)
	in.busy = meter{now: o.Now, seconds: in.counts.busy}
	var err error
	if in.reading, err = newReading(&o.Settings, o.Typed); err != nil {
		return nil, err
	}
	return in, nil
}

// ServiceType is a service and event type that may occur.
type ServiceType struct{ Service, Type string }

// Now is the time.
func (in *Intake) Now() time.Time { return in.o.Now() }

// Busy counts the time from when a package of a broker got messages until it calls end, because it waits for more.
func (in *Intake) Busy() (end func()) {
	in.busy.begin()
	return in.busy.end
}

// Name is the name of the source.
func (in *Intake) Name() string { return in.o.Name }

// Message is one message. The Intake keeps nothing of it.
type Message struct {
	Value   []byte
	Headers Headers // nil: none
	// ContentType is that of the message where it is not a header.
	ContentType string
	Time        time.Time // of events without one; zero: now
	// MessageID is the id that its sender gave to the message. An event without an id gets it and counts once by it. "":
	// the message has no id.
	MessageID string
	// Service and Type apply to events without one; "": no default. Events in the formats NDJSON and CloudEvents have
	// their own.
	Service, Type string

	// Where it is. Topic is a topic or a queue, and Generation distinguishes it from another one of the
	// same name.
	Topic      string
	Generation string // letters and digits, may be empty
	Partition  int32
	Offset     int64

	// Stream is for the caller, which gets it back from Batch.Undecided.
	Stream int
	// Refold says that it was there before the source took this place up for the first time.
	Refold bool
	// Done are the events in it that were decided before, ascending, which are skipped.
	Done []int32
}

// Headers are those of a message.
type Headers interface {
	Len() int
	At(i int) (name string, value []byte)
}

// header finds the last header of a name, whose case does not matter.
func header(h Headers, name string) ([]byte, bool) {
	if h == nil {
		return nil, false
	}
	for i := h.Len() - 1; i >= 0; i-- {
		if key, value := h.At(i); equalFold(key, name) {
			return value, true
		}
	}
	return nil, false
}

// equalFold compares names of headers, which are ASCII.
func equalFold(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		x, y := a[i], b[i]
		if x == y {
			continue
		}
		if x|0x20 != y|0x20 || x|0x20 < 'a' || x|0x20 > 'z' {
			return false
		}
	}
	return true
}

// Backfills reports whether a message is to be backfilled. All messages of a batch must agree.
func (in *Intake) Backfills(m *Message) bool {
	switch in.o.Settings.Backfill {
	case BackfillAlways:
		return true
	case BackfillNever:
		return false
	}
	return m.Refold || !m.Time.IsZero() && in.o.Now().Sub(m.Time) > in.o.SizeLimits.AllowedLateness
}
