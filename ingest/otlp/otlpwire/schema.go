package otlpwire

// kind is the type of a field of a message.
type fieldKind uint8

const (
	kindUint32 fieldKind = iota // and the other numbers that are varints
	kindInt64                   // varint
	kindSint32                  // zigzag
	kindBool                    // varint
	kindEnum                    // varint
	kindFixed32
	kindFixed64
	kindSfixed64
	kindDouble
	kindString
	kindBytes
	kindID // bytes, which are hexadecimal in JSON
	kindMessage
)

// fieldSpec is a field of a message of the protocol.
type fieldSpec struct {
	number   uint32
	name     string // in JSON
	kind     fieldKind
	repeated bool
	oneof    bool     // at most one of these is set; each message has one such group at most
	of       *message // of kindMessage
	enum     []string // of kindEnum: the names of its numbers
}

// message describes a message. Fields that are handed out are read by functions of their own; the description is for
// what is checked only, and for JSON.
type message struct {
	fields []fieldSpec
	nests  bool // its values count as a level of depth
}

var spanKinds = []string{"SPAN_KIND_UNSPECIFIED", "SPAN_KIND_INTERNAL", "SPAN_KIND_SERVER", "SPAN_KIND_CLIENT",
	"SPAN_KIND_PRODUCER", "SPAN_KIND_CONSUMER"}

var statusCodes = []string{"STATUS_CODE_UNSET", "STATUS_CODE_OK", "STATUS_CODE_ERROR"}

var (
	arrayValue   = &message{nests: true}
	keyValueList = &message{nests: true}
	anyValue     = &message{}
	keyValue     = &message{}
	entityRef    = &message{}
	scope        = &message{}
	link         = &message{}
)

func text(number uint32, name string) fieldSpec {
	return fieldSpec{number: number, name: name, kind: kindString}
}

func number(number uint32, name string, kind fieldKind) fieldSpec {
	return fieldSpec{number: number, name: name, kind: kind}
}

func one(number uint32, name string, of *message) fieldSpec {
	return fieldSpec{number: number, name: name, kind: kindMessage, of: of}
}

func many(f fieldSpec) fieldSpec {
	f.repeated = true
	return f
}

func oneof(f fieldSpec) fieldSpec {
	f.oneof = true
	return f
}

func attributes(number uint32) fieldSpec { return many(one(number, "attributes", keyValue)) }

func init() { // messages of values contain each other
	arrayValue.fields = []fieldSpec{many(one(1, "values", anyValue))}
	keyValueList.fields = []fieldSpec{many(one(1, "values", keyValue))}
	keyValue.fields = []fieldSpec{text(1, "key"), one(2, "value", anyValue), number(3, "keyStrindex", kindUint32)}
	anyValue.fields = []fieldSpec{
		oneof(text(1, "stringValue")), oneof(number(2, "boolValue", kindBool)), oneof(number(3, "intValue", kindInt64)),
		oneof(number(4, "doubleValue", kindDouble)), oneof(one(5, "arrayValue", arrayValue)),
		oneof(one(6, "kvlistValue", keyValueList)), oneof(number(7, "bytesValue", kindBytes)),
		oneof(number(8, "stringValueStrindex", kindUint32)),
	}
	entityRef.fields = []fieldSpec{text(1, "schemaUrl"), text(2, "type"), many(text(3, "idKeys")),
		many(text(4, "descriptionKeys"))}
	scope.fields = []fieldSpec{text(1, "name"), text(2, "version"), attributes(3),
		number(4, "droppedAttributesCount", kindUint32)}
	link.fields = []fieldSpec{number(1, "traceId", kindID), number(2, "spanId", kindID), text(3, "traceState"),
		attributes(4), number(5, "droppedAttributesCount", kindUint32), number(6, "flags", kindFixed32)}
}

// check reports whether the message at byte from, which ends with b, is well-formed, and whether its values nest deeper
// than depth. It does not look into deeper ones.
func (m *message) check(b []byte, from, depth int) (deep bool, err *Error) {
	if depth < 0 {
		return true, nil
	}
	var f field
	var counts [17]int
	for i := from; i < len(b); {
		next, err := f.read(b, i)
		if err != nil {
			return deep, err
		}
		if spec := m.byNumber(f.tag >> 3); spec != nil && spec.kind == kindMessage && f.tag&7 == wireBytes {
			levels := depth
			if spec.of.nests {
				levels--
			}
			below, err := spec.of.check(b[:f.to], f.from, levels)
			if err != nil && spec.repeated {
				return deep, err.in(spec.name, counts[spec.number])
			} else if err != nil {
				return deep, err.in(spec.name, -1)
			}
			deep = deep || below
			counts[spec.number]++
		}
		i = next
	}
	return deep, nil
}

func (m *message) byNumber(n uint32) *fieldSpec {
	for i := range m.fields {
		if m.fields[i].number == n {
			return &m.fields[i]
		}
	}
	return nil
}
