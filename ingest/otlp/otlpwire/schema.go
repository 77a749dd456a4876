package otlpwire

// fieldKind is the type of a field of a message.
type fieldKind uint8

const (
	kindUint32 fieldKind = iota // varint
	kindInt32                   // varint
	kindSint32                  // varint, zigzag
	kindInt64                   // varint
	kindUint64                  // varint
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

// Metrics.
var (
	temporalities = []string{"AGGREGATION_TEMPORALITY_UNSPECIFIED", "AGGREGATION_TEMPORALITY_DELTA",
		"AGGREGATION_TEMPORALITY_CUMULATIVE"}
	temporality = enumOf(2, "aggregationTemporality", temporalities)

	exemplar = &message{fields: []fieldSpec{scalar(2, "timeUnixNano", kindFixed64),
		oneof(scalar(3, "asDouble", kindDouble)), scalar(4, "spanId", kindID), scalar(5, "traceId", kindID),
		oneof(scalar(6, "asInt", kindSfixed64)), many(one(7, "filteredAttributes", keyValue))}}
	exponentialBuckets = &message{fields: []fieldSpec{scalar(1, "offset", kindSint32),
		many(scalar(2, "bucketCounts", kindUint64))}}
	atQuantile = &message{fields: []fieldSpec{scalar(1, "quantile", kindDouble), scalar(2, "value", kindDouble)}}

	numberPoint = point(oneof(scalar(4, "asDouble", kindDouble)), many(one(5, "exemplars", exemplar)),
		oneof(scalar(6, "asInt", kindSfixed64)), attributes(7), pointFlags(8))
	histogramPoint = point(pointCount, pointSum, many(scalar(6, "bucketCounts", kindFixed64)),
		many(scalar(7, "explicitBounds", kindDouble)), many(one(8, "exemplars", exemplar)), attributes(9), pointFlags(10),
		scalar(11, "min", kindDouble), scalar(12, "max", kindDouble))
	exponentialPoint = point(attributes(1), pointCount, pointSum, scalar(6, "scale", kindSint32),
		scalar(7, "zeroCount", kindFixed64), one(8, "positive", exponentialBuckets), one(9, "negative", exponentialBuckets),
		pointFlags(10), many(one(11, "exemplars", exemplar)), scalar(12, "min", kindDouble), scalar(13, "max", kindDouble),
		scalar(14, "zeroThreshold", kindDouble))
	summaryPoint = point(pointCount, pointSum, many(one(6, "quantileValues", atQuantile)), attributes(7), pointFlags(8))

	pointCount = scalar(4, "count", kindFixed64)
	pointSum   = scalar(5, "sum", kindDouble)

	metricSpec = &message{fields: []fieldSpec{
		text(1, "name"), text(2, "description"), text(3, "unit"),
		data(Gauge, "gauge", numberPoint),
		data(Sum, "sum", numberPoint, temporality, scalar(3, "isMonotonic", kindBool)),
		data(Histogram, "histogram", histogramPoint, temporality),
		data(ExponentialHistogram, "exponentialHistogram", exponentialPoint, temporality),
		data(Summary, "summary", summaryPoint), many(one(12, "metadata", keyValue))}}

	metricNames    = names{"resourceMetrics", "scopeMetrics", "metrics"}
	metricsRequest = request(metricNames, metricSpec)
)

func pointFlags(number uint32) fieldSpec { return scalar(number, "flags", kindUint32) }

// point describes a data point, with the fields that all of them have.
func point(more ...fieldSpec) *message {
	return &message{item: true, fields: append(more, scalar(2, "startTimeUnixNano", kindFixed64),
		scalar(3, "timeUnixNano", kindFixed64))}
}

// data describes the data of a metric: points of a kind.
func data(kind MetricKind, name string, of *message, more ...fieldSpec) fieldSpec {
	return oneof(one(uint32(kind), name, &message{fields: append([]fieldSpec{many(one(1, pointsName, of))}, more...)}))
}

const pointsName = "dataPoints"

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
		if spec == nil || f.tag&7 != wireBytes {
			continue
		}
		if spec.kind != kindMessage {
			if spec.repeated {
				f.err = spec.kind.checkPacked(b[:f.to], f.from).in(spec.name, -1)
			}
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

// checkPacked reports whether the numbers of a packed field, which ends with b, are well-formed.
func (k fieldKind) checkPacked(b []byte, from int) *Error {
	switch k {
	case kindFixed64, kindDouble:
		if rest := (len(b) - from) % 8; rest != 0 {
			return errorAt(len(b)-rest, "8 bytes are expected, %d are left", rest)
		}
	case kindUint64:
		for i := from; i < len(b); {
			_, next := varint(b, i)
			if next < 0 {
				return errorAt(i, "a number does not end, or is too large")
			}
			i = next
		}
	}
	return nil
}

func (m *message) byNumber(n uint32) *fieldSpec {
	for i := range m.fields {
		if m.fields[i].number == n {
			return &m.fields[i]
		}
	}
	return nil
}
