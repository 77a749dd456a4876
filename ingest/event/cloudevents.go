package event

import (
	"bytes"
	"encoding/hex"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/zeebo/xxh3"
)

// The context attributes of CloudEvents 1.0 that mean something here.
const (
	ceSpecVersion field = 1 << iota
	ceID
	ceSource
	ceType
	ceTime
	ceContentType
	ceData
	ceDataBase64
)

// envelope holds the context attributes of a CloudEvent.
type envelope struct {
	id, source, typ, version, contentType []byte

	time     int64
	timeText []byte
	hasTime  bool
	seen     field
	from, to int // of the data, in the text
}

// Envelope is a CloudEvent in binary mode without its data: the context attributes that are in headers. nil is absent.
type Envelope struct {
	SpecVersion, ID, Source, Type, Time []byte
	ContentType                         []byte // of the data
}

// Attributes are the names of the attributes that have headers of their own, and their places.
func (e *Envelope) Attributes() iter.Seq2[string, *[]byte] {
	return func(yield func(string, *[]byte) bool) {
		_ = yield("specversion", &e.SpecVersion) && yield("id", &e.ID) && yield("source", &e.Source) &&
			yield("type", &e.Type) && yield("time", &e.Time)
	}
}

// DecodeBinary is Decode for a CloudEvent in binary mode.
func (d *Decoder) DecodeBinary(e *Envelope, data []byte, opt DecodeOptions, b *Batch) error {
	d.headers = e
	err := d.Decode(cloudEventBinary, data, opt, b)
	d.headers = nil
	return err
}

// AppendBinary is Append for a CloudEvent in binary mode.
func (d *Decoder) AppendBinary(e *Envelope, data []byte, at time.Time, extra []Extra) error {
	d.headers = e
	err := d.Append(cloudEventBinary, data, at, extra)
	d.headers = nil
	return err
}

// binary reads the data of a CloudEvent whose context attributes are in headers.
func (d *Decoder) binary(body []byte) *BodyError {
	h := d.headers
	d.start(body)
	var e envelope
	for _, f := range []struct{ to, from *[]byte }{
		{&e.version, &h.SpecVersion}, {&e.id, &h.ID}, {&e.source, &h.Source}, {&e.typ, &h.Type},
		{&e.contentType, &h.ContentType},
	} {
		if *f.to = *f.from; !utf8.Valid(*f.to) {
			*f.to = []byte(string([]rune(string(*f.to)))) // bytes that are no text become U+FFFD
		}
	}
	if h.Time != nil {
		d.ceTime(&e, h.Time)
	}
	if d.checkEnvelope(&e); d.problem != "" {
		d.nameAfter(&e)
		d.i = len(body)
		d.finish(0)
		return nil
	}
	if d.space(); d.i < len(body) {
		from, first := d.i, d.peek()
		if first != '{' && first != 'n' { // null is no data
			d.fail(CodeBadCloudEvent, noObject)
		}
		if !d.skip(1) {
			return d.bodyError()
		}
		if first == '{' {
			e.from, e.to = from, d.i
		}
		if d.space(); d.i < len(body) {
			d.syntax(d.i, "expected the end of the body after the data of the CloudEvent")
			return d.bodyError()
		}
	}
	if d.problem == "" && !d.compose(&e, 1) {
		return d.bodyError()
	}
	if len(body) > d.limits.MaxEventBytes {
		d.tooLong(len(body))
	}
	d.finish(0)
	return nil
}

const noObject = "The data of a CloudEvent must be a JSON object with the event's fields."

// maxKeptMapped bounds the memory for mapped data that a decoder keeps.
const maxKeptMapped = 256 << 10

// cloudEvent reads the CloudEvent whose brace is next.
func (d *Decoder) cloudEvent(depth int) bool {
	var e envelope
	if !d.object(depth, func(key []byte) bool { return d.ceField(&e, key, depth+1) }) {
		return false
	}
	if d.checkEnvelope(&e); d.problem != "" {
		d.nameAfter(&e)
		return true
	}
	return d.compose(&e, depth+1)
}

// nameAfter gives a refused event the id of its envelope, if it is one.
func (d *Decoder) nameAfter(e *envelope) {
	if len(e.id) <= maxIDBytes && !hasControl(e.id) {
		d.f.id = e.id
	}
}

// compose makes the event of an envelope and its data, which were walked over as part of the whole. They are an event,
// or are mapped to one, whose fields win over the envelope's.
func (d *Decoder) compose(e *envelope, depth int) bool {
	if e.to > e.from {
		whole, after := d.b, d.i
		if d.opt.MapData == nil {
			if d.i = e.from; !d.event(depth) {
				return false
			}
		} else if d.mapData(whole[e.from:e.to]) && !d.event(depth) {
			d.syntaxProblem()
		}
		d.b, d.i = whole, after
	}
	d.fillFrom(e)
	return true
}

// mapData puts the scanner at the event that is made of data, if one is.
func (d *Decoder) mapData(data []byte) bool {
	if len(data) > d.limits.MaxEventBytes { // mapping takes memory in proportion
		d.tooLong(len(data))
		return false
	}
	mapped, err := d.opt.MapData(d.mapped[:0], data)
	if err != nil {
		d.fail(CodeBadCloudEvent, "The data cannot be mapped: %v.", err)
		return false
	}
	d.mapped, d.b, d.i = mapped, mapped, 0
	return true
}

// ceField reads one context attribute, or notes where the data are. Extension
// attributes are passed over: tracing and routing put theirs everywhere.
func (d *Decoder) ceField(e *envelope, key []byte, depth int) bool {
	var (
		bit  field
		text *[]byte
	)
	switch string(key) {
	case "specversion":
		bit, text = ceSpecVersion, &e.version
	case "id":
		bit, text = ceID, &e.id
	case "source":
		bit, text = ceSource, &e.source
	case "type":
		bit, text = ceType, &e.typ
	case "time":
		bit, text = ceTime, nil
	case "datacontenttype":
		bit, text = ceContentType, &e.contentType
	case "data":
		bit = ceData
	case "data_base64":
		bit = ceDataBase64
	default:
		return d.skip(depth)
	}
	if e.seen&bit != 0 {
		d.fail(CodeDuplicateKey, "Duplicate field %s. Remove one.", quote(key))
	}
	e.seen |= bit
	c := d.peek()
	switch {
	case c == 'n':
		return d.literal("null")
	case bit == ceData:
		if c != '{' {
			d.fail(CodeBadCloudEvent, noObject)
		}
		e.from = d.i
		ok := d.skip(depth)
		e.to = d.i
		return ok
	case bit == ceDataBase64:
		d.fail(CodeBadCloudEvent, "Send the data as a JSON object, not as data_base64.")
		return d.skip(depth)
	case c != '"':
		d.fail(CodeWrongType, "Field %s must be a string.", quote(key))
		return d.skip(depth)
	}
	value, ok := d.str()
	if !ok {
		return false
	}
	if text != nil {
		*text = value
		return true
	}
	d.ceTime(e, value)
	return true
}

func (d *Decoder) ceTime(e *envelope, value []byte) {
	e.timeText = value
	if e.time, e.hasTime = ParseTime(value); !e.hasTime {
		d.fail(CodeBadTime, "Time %s must be RFC 3339, as in 2026-11-20T09:00:00.123Z.", quote(value))
	}
}

func (d *Decoder) checkEnvelope(e *envelope) {
	switch {
	case e.version == nil:
		d.fail(CodeMissingField, `A CloudEvent must have "specversion": "1.0".`)
	case len(e.version) == 3 && e.version[0] == '0' && e.version[1] == '.':
		d.fail(CodeBadCloudEvent, "CloudEvents %s are not supported. Send CloudEvents 1.0.", e.version)
	case string(e.version) != "1.0":
		d.fail(CodeBadCloudEvent, "Specversion %s must be \"1.0\".", quote(e.version))
	case len(e.id) == 0:
		d.fail(CodeMissingField, `A CloudEvent must have a non-empty "id".`)
	case len(e.source) == 0:
		d.fail(CodeMissingField, `A CloudEvent must have a non-empty "source".`)
	case len(e.typ) == 0:
		d.fail(CodeMissingField, `A CloudEvent must have a non-empty "type".`)
	case e.contentType != nil && !isJSONType(string(e.contentType)):
		d.fail(CodeBadCloudEvent, "Datacontenttype %s must be application/json.", quote(e.contentType))
	}
}

// isJSONType reports whether the media type is JSON, as application/json and
// application/vnd.acme+json are.
func isJSONType(mediaType string) bool {
	mediaType, _, _ = strings.Cut(mediaType, ";")
	mediaType = strings.ToLower(strings.TrimSpace(mediaType))
	return mediaType == "application/json" || mediaType == "text/json" || strings.HasSuffix(mediaType, "+json")
}

// fillFrom takes the fields that the data lacks from the envelope.
func (d *Decoder) fillFrom(e *envelope) {
	f := &d.f
	if f.given&fieldID == 0 {
		d.setID(e.id)
	}
	if f.given&fieldTime == 0 && e.hasTime {
		f.time, f.hasTime = e.time, true
		d.noteFar(e.timeText)
	}
	if f.given&fieldType == 0 && d.checkName(CodeBadType, []byte("type"), e.typ) {
		f.typ = e.typ
	}
	if f.given&fieldService == 0 {
		source := bytes.TrimPrefix(e.source, []byte("/"))
		if len(source) > d.limits.MaxNameBytes || !isName(source) {
			d.fail(CodeMissingField, `Source %s is not a valid service name. Set "service" in data.`, quote(e.source))
			return
		}
		f.service = source
	}
	if f.given&fieldID == 0 && string(bytes.TrimPrefix(e.source, []byte("/"))) != string(f.service) {
		f.source = e.source
	}
}

// sourcedID is the id of a CloudEvent whose identity the service alone does not complete:
// CloudEvents are identified by source and id. It is "source id", or a hash of both where that
// would be too long or could be read in two ways.
func (d *Decoder) sourcedID() []byte {
	source, id := d.f.source, d.f.id
	if len(source)+1+len(id) <= maxIDBytes && !bytes.ContainsRune(source, ' ') && !hasControl(source) {
		d.scratch = append(append(append(d.scratch, source...), ' '), id...)
		return d.scratch[len(d.scratch)-len(source)-1-len(id):]
	}
	d.identity = appendIdentity(d.identity[:0], source, id)
	sum := xxh3.Hash128(d.identity).Bytes()
	d.scratch = hex.AppendEncode(d.scratch, sum[:])
	return d.scratch[len(d.scratch)-2*len(sum):]
}
