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
