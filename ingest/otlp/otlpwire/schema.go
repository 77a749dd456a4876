package otlpwire

// fieldKind is the type of a field of a message.
type fieldKind uint8

const (
	kindUint32 fieldKind = iota // varint
	kindInt32                   // varint
	kindInt64                   // varint
	kindUint64                  // varint
	kindBool                    // varint
	kindEnum                    // varint
	kindFixed32
	kindFixed64
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
	oneof    bool     // at most one of these is set: a message has one such group at most
	of       *message // of kindMessage
	enum     []string // of kindEnum: the names of its numbers
}

// message describes a message. What is handed out is read by functions of its own: the description is for the rest of a
// protobuf request, which is only checked, and for JSON.
type message struct {
	fields []fieldSpec
	nests  bool // it is a level of Limits.MaxDepth
	item   bool // it counts for Limits.MaxItems
}

const maxFieldNumber = 16

func text(number uint32, name string) fieldSpec {
	return fieldSpec{number: number, name: name, kind: kindString}
}

func scalar(number uint32, name string, kind fieldKind) fieldSpec {
	return fieldSpec{number: number, name: name, kind: kind}
}

func enumOf(number uint32, name string, names []string) fieldSpec {
	return fieldSpec{number: number, name: name, kind: kindEnum, enum: names}
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

// request describes the messages around the items of a signal, with the names of their fields.
func request(at names, item *message) *message {
	inScope := &message{fields: []fieldSpec{one(1, "scope", scope), many(one(2, at.item, item)), text(3, "schemaUrl")}}
	ofResource := &message{fields: []fieldSpec{one(1, "resource", resource), many(one(2, at.scope, inScope)),
		text(3, "schemaUrl")}}
	return &message{fields: []fieldSpec{many(one(1, at.resource, ofResource))}}
}

func dropped(number uint32) fieldSpec { return scalar(number, "droppedAttributesCount", kindUint32) }

// Messages of values contain each other: init fills them.
var (
	arrayValue   = &message{nests: true}
	keyValueList = &message{nests: true}
	anyValue     = &message{}
	keyValue     = &message{}
)

func init() {
	arrayValue.fields = []fieldSpec{many(one(1, "values", anyValue))}
	keyValueList.fields = []fieldSpec{many(one(1, "values", keyValue))}
	keyValue.fields = []fieldSpec{text(1, "key"), one(2, "value", anyValue), scalar(3, "keyStrindex", kindInt32)}
	anyValue.fields = []fieldSpec{
		oneof(text(1, "stringValue")), oneof(scalar(2, "boolValue", kindBool)), oneof(scalar(3, "intValue", kindInt64)),
		oneof(scalar(4, "doubleValue", kindDouble)), oneof(one(5, "arrayValue", arrayValue)),
		oneof(one(6, "kvlistValue", keyValueList)), oneof(scalar(7, "bytesValue", kindBytes)),
		oneof(scalar(8, "stringValueStrindex", kindInt32)),
	}
}

var (
	entityRef = &message{fields: []fieldSpec{text(1, "schemaUrl"), text(2, "type"), many(text(3, "idKeys")),
		many(text(4, "descriptionKeys"))}}
	resource = &message{fields: []fieldSpec{attributes(1), dropped(2), many(one(3, "entityRefs", entityRef))}}
	scope    = &message{fields: []fieldSpec{text(1, "name"), text(2, "version"), attributes(3), dropped(4)}}
)

// Traces.
var (
	spanKinds = []string{"SPAN_KIND_UNSPECIFIED", "SPAN_KIND_INTERNAL", "SPAN_KIND_SERVER", "SPAN_KIND_CLIENT",
		"SPAN_KIND_PRODUCER", "SPAN_KIND_CONSUMER"}
	statusCodes = []string{"STATUS_CODE_UNSET", "STATUS_CODE_OK", "STATUS_CODE_ERROR"}

	spanEvent = &message{fields: []fieldSpec{scalar(1, "timeUnixNano", kindFixed64), text(2, "name"), attributes(3),
		dropped(4)}}
	link = &message{fields: []fieldSpec{scalar(1, "traceId", kindID), scalar(2, "spanId", kindID), text(3, "traceState"),
		attributes(4), dropped(5), scalar(6, "flags", kindFixed32)}}
	status   = &message{fields: []fieldSpec{text(2, "message"), enumOf(3, "code", statusCodes)}}
	spanSpec = &message{item: true, fields: []fieldSpec{
		scalar(1, "traceId", kindID), scalar(2, "spanId", kindID), text(3, "traceState"),
		scalar(4, "parentSpanId", kindID), text(5, "name"), enumOf(6, "kind", spanKinds),
		scalar(7, "startTimeUnixNano", kindFixed64), scalar(8, "endTimeUnixNano", kindFixed64), attributes(9), dropped(10),
		many(one(11, "events", spanEvent)), scalar(12, "droppedEventsCount", kindUint32), many(one(13, "links", link)),
		scalar(14, "droppedLinksCount", kindUint32), one(15, "status", status), scalar(16, "flags", kindFixed32)}}

	spanNames     = names{"resourceSpans", "scopeSpans", "spans"}
	tracesRequest = request(spanNames, spanSpec)
)

// Logs.
var (
	severities = func() []string {
		list := []string{"SEVERITY_NUMBER_UNSPECIFIED"}
		for _, name := range []string{"TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"} {
			for _, step := range []string{"", "2", "3", "4"} {
				list = append(list, "SEVERITY_NUMBER_"+name+step)
			}
		}
		return list
	}()
	logSpec = &message{item: true, fields: []fieldSpec{
		scalar(1, "timeUnixNano", kindFixed64), enumOf(2, "severityNumber", severities), text(3, "severityText"),
		one(5, "body", anyValue), attributes(6), dropped(7), scalar(8, "flags", kindFixed32), scalar(9, "traceId", kindID),
		scalar(10, "spanId", kindID), scalar(11, "observedTimeUnixNano", kindFixed64), text(12, "eventName")}}

	logNames    = names{"resourceLogs", "scopeLogs", "logRecords"}
	logsRequest = request(logNames, logSpec)
)

// check reports whether the message at byte from, which ends with b, is well-formed, and whether its values nest deeper
// than depth. It does not look into deeper ones.
func (m *message) check(b []byte, from, depth int) (deep bool, err *Error) {
	if depth < 0 {
		return true, nil
	}
	var counts [maxFieldNumber + 1]int
	f := fields{next: from}
	for f.more(b) {
		spec := m.byNumber(f.tag >> 3)
		if spec == nil || spec.kind != kindMessage || f.tag&7 != wireBytes {
			continue
		}
		levels, index := depth, -1
		if spec.of.nests {
			levels--
		}
		if spec.repeated {
			index = counts[spec.number]
			counts[spec.number]++
		}
		below, err := spec.of.check(b[:f.to], f.from, levels)
		deep, f.err = deep || below, err.in(spec.name, index)
	}
	return deep, f.err
}

func (m *message) byNumber(n uint32) *fieldSpec {
	for i := range m.fields {
		if m.fields[i].number == n {
			return &m.fields[i]
		}
	}
	return nil
}
