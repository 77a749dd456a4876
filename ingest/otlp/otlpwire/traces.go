package otlpwire

// Traces decodes an ExportTraceServiceRequest. It stops at the first error of yield and returns it; errors of its own
// are of type *Error.
func (d *Decoder) Traces(body []byte, yield func(*Span) error) error {
	return d.request(body, spanNames, each(d, &d.span, d.readSpan, yield))
}

// TracesJSON decodes an ExportTraceServiceRequest in OTLP/JSON, as Traces does.
func (d *Decoder) TracesJSON(body []byte, yield func(*Span) error) error {
	b, err := d.fromJSON(body, tracesRequest)
	if err != nil {
		return err
	}
	return d.Traces(b, yield)
}

func (d *Decoder) readSpan(b []byte, from int) *Error {
	s := &d.span
	*s = Span{Origin: d.origin, Attrs: s.Attrs[:0]}
	var traceID, spanID, parentID []byte
	attrs, events, links := -1, -1, -1
	f := fields{next: from}
	for f.err == nil && f.short(b) || f.more(b) {
		switch f.tag {
		case 1<<3 | wireBytes:
			traceID = b[f.from:f.to]
		case 2<<3 | wireBytes:
			spanID = b[f.from:f.to]
		case 3<<3 | wireBytes:
			s.TraceState = b[f.from:f.to]
		case 4<<3 | wireBytes:
			parentID = b[f.from:f.to]
		case 5<<3 | wireBytes:
			s.Name = b[f.from:f.to]
		case 6<<3 | wireVarint:
			s.Kind = enum(f.val, len(spanKinds))
		case 7<<3 | wireFixed64:
			s.Start = f.val
		case 8<<3 | wireFixed64:
			s.End = f.val
		case 9<<3 | wireBytes:
			attrs++
			s.Attrs, f.err = d.addItemAttr(s.Attrs, b[:f.to], f.from)
			f.err = f.err.in("attributes", attrs)
		case 11<<3 | wireBytes:
			events++
			f.err = d.event(b[:f.to], f.from).in("events", events)
		case 13<<3 | wireBytes:
			links++
			_, f.err = link.check(b[:f.to], f.from, d.limits.MaxDepth)
			f.err = f.err.in("links", links)
		case 15<<3 | wireBytes:
			f.err = d.status(b[:f.to], f.from).in("status", -1)
		case 16<<3 | wireFixed32:
			s.Flags = uint32(f.val)
		}
	}
	if f.err != nil {
		return f.err
	}
	s.Name, s.TraceState = d.string(s.Name), d.string(s.TraceState)
	traceOK, spanOK, parentOK := setID(s.TraceID[:], traceID), setID(s.SpanID[:], spanID), setID(s.ParentID[:], parentID)
	s.HasParent = s.ParentID != [8]byte{}
	s.BadID = !traceOK || !spanOK || !parentOK || s.TraceID == [16]byte{} || s.SpanID == [8]byte{}
	return nil
}

// event looks for the type of an exception. Everything else of the event is checked only.
func (d *Decoder) event(b []byte, from int) *Error {
	var exception []byte
	named, attrs := false, -1
	f := fields{next: from}
	for f.more(b) {
		switch f.tag {
		case 2<<3 | wireBytes:
			named = string(b[f.from:f.to]) == "exception"
		case 3<<3 | wireBytes:
			attrs++
			var a Attr
			f.err = d.attr(&a, b[:f.to], f.from).in("attributes", attrs)
			if a.Value.Kind == String && string(a.Key) == "exception.type" {
				exception = a.Value.Bytes
			}
		}
	}
	if named && len(exception) > 0 {
		d.span.ExceptionType = exception
	}
	return f.err
}

func (d *Decoder) status(b []byte, from int) *Error {
	f := fields{next: from}
	for f.more(b) {
		if f.tag == 3<<3|wireVarint {
			d.span.Status = enum(f.val, len(statusCodes))
		}
	}
	return f.err
}

// enum returns a number below n, or 0 for one that the protocol does not define. As in protobuf, the upper half of a
// longer number is dropped first.
func enum(v uint64, n int) uint8 {
	if v = uint64(uint32(v)); v >= uint64(n) {
		return 0
	}
	return uint8(v)
}
