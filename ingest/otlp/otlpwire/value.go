package otlpwire

// Kind is the type of a Value.
type Kind uint8

// The kinds of values.
const (
	Empty Kind = iota
	String
	Int
	Float
	Bool
	Bytes
	Array
	Map
)

// Value is the value of an attribute or the body of a log record.
type Value struct {
	Kind  Kind
	Bytes []byte // of a String valid UTF-8; of an Array or Map the protobuf ArrayValue or KeyValueList
	Int   int64  // of a Bool 0 or 1
	Float float64
}

// Attr is an attribute. Where a key repeats, the last one counts.
type Attr struct {
	Key   []byte
	Value Value
}

// Lookup returns the value of a key, and whether there is one.
func Lookup(attrs []Attr, key string) (Value, bool) {
	for i := len(attrs) - 1; i >= 0; i-- {
		if string(attrs[i].Key) == key {
			return attrs[i].Value, true
		}
	}
	return Value{}, false
}

// Origin is what the items of a request have in common, and the item's place.
type Origin struct {
	Resource      []Attr
	ResourceIndex int // the place of its resourceSpans, resourceLogs or resourceMetrics in the request
	ScopeName     []byte
	Scope         []Attr
	Index         int // the place of the item in the request
}

// Span is a span of a request. Numbers of enumerations that the protocol does not define are 0, unspecified.
type Span struct {
	Origin
	Attrs         []Attr
	TraceID       [16]byte
	SpanID        [8]byte
	ParentID      [8]byte
	HasParent     bool
	BadID         bool // an id has the wrong length, or the trace or span has none
	Flags         uint32
	Kind          uint8
	Status        uint8
	Name          []byte
	TraceState    []byte
	Start, End    uint64 // Unix time in ns
	ExceptionType []byte // exception.type of the last event "exception" that has one
}

// LogRecord is a log record of a request. It belongs to a trace if TraceID is not zero.
type LogRecord struct {
	Origin
	Attrs        []Attr
	Time         uint64 // Unix time in ns, 0 if the source gave none
	ObservedTime uint64 // Unix time in ns
	Severity     uint8  // 1 to 24, 0 for a number that the protocol does not define
	SeverityText []byte
	Body         Value
	TraceID      [16]byte
	SpanID       [8]byte
	BadID        bool // an id has the wrong length, and is zero here
	Flags        uint32
	EventName    []byte
}

// MetricKind is the kind of a metric's data: the number of its field in the protocol.
type MetricKind uint8

// The kinds of metrics.
const (
	Gauge                MetricKind = 5
	Sum                  MetricKind = 7
	Histogram            MetricKind = 9 // of explicit bounds
	ExponentialHistogram MetricKind = 10
	Summary              MetricKind = 11
)

// The temporalities of a Sum or histogram. 0 is unspecified.
const (
	Delta      = 1
	Cumulative = 2
)

// Metric is what the points of a metric have in common.
type Metric struct {
	Name, Unit  []byte
	Kind        MetricKind
	Temporality uint8 // of a Sum, Histogram or ExponentialHistogram
	Monotonic   bool  // of a Sum
}

// Point is a data point of a request. One of a Summary has only its Origin and Metric.
type Point struct {
	Origin
	Metric
	Attrs       []Attr
	Start, Time uint64 // Unix time in ns; Start is 0 if the source gave none
	Flags       uint32
	Value       Value // of a Gauge or Sum: an Int or a Float, Empty if it has none

	// Of a histogram. The numbers of buckets and bounds are as the source sent them.
	Count   uint64
	Total   float64 // the sum of the values
	HasSum  bool    // Total is given
	Buckets []uint64
	Bounds  []float64

	// Of an ExponentialHistogram, whose Buckets are the positive ones.
	Scale, Offset int32
	Zero          uint64
	Negative      bool // it has values below zero
}

// NoRecordedValue reports whether the flags say that the series has no value at this time.
func (p *Point) NoRecordedValue() bool { return p.Flags&1 != 0 }
