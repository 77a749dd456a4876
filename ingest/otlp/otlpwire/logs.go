package otlpwire

// Logs decodes an ExportLogsServiceRequest. It stops at the first error of yield and returns it; errors of its own are
// of type *Error.
func (d *Decoder) Logs(body []byte, yield func(*LogRecord) error) error {
	return d.request(body, logNames, each(d, &d.log, d.readLog, yield))
}

// LogsJSON decodes an ExportLogsServiceRequest in OTLP/JSON, as Logs does.
func (d *Decoder) LogsJSON(body []byte, yield func(*LogRecord) error) error {
	b, err := d.fromJSON(body, logsRequest)
	if err != nil {
		return err
	}
	return d.Logs(b, yield)
}

func (d *Decoder) readLog(b []byte, from int) *Error {
	r := &d.log
	*r = LogRecord{Origin: d.origin, Attrs: r.Attrs[:0]}
	var traceID, spanID []byte
	attrs := -1
	f := fields{next: from}
	for f.more(b) {
		switch f.tag {
		case 1<<3 | wireFixed64:
			r.Time = f.val
		case 2<<3 | wireVarint:
			r.Severity = enum(f.val, len(severities))
		case 3<<3 | wireBytes:
			r.SeverityText = b[f.from:f.to]
		case 5<<3 | wireBytes:
			f.err = d.value(&r.Body, b[:f.to], f.from).in("body", -1)
		case 6<<3 | wireBytes:
			attrs++
			r.Attrs, f.err = d.addItemAttr(r.Attrs, b[:f.to], f.from)
			f.err = f.err.in("attributes", attrs)
		case 8<<3 | wireFixed32:
			r.Flags = uint32(f.val)
		case 9<<3 | wireBytes:
			traceID = b[f.from:f.to]
		case 10<<3 | wireBytes:
			spanID = b[f.from:f.to]
		case 11<<3 | wireFixed64:
			r.ObservedTime = f.val
		case 12<<3 | wireBytes:
			r.EventName = b[f.from:f.to]
		}
	}
	if f.err != nil {
		return f.err
	}
	r.SeverityText, r.EventName = d.string(r.SeverityText), d.string(r.EventName)
	d.bound(&r.Body)
	traceOK, spanOK := setID(r.TraceID[:], traceID), setID(r.SpanID[:], spanID)
	r.BadID = !traceOK || !spanOK
	return nil
}
