package event

import (
	"bytes"
	"encoding/hex"
	"strings"

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

// envelope is what a CloudEvent says around its data.
type envelope struct {
	id, source, typ, version, contentType []byte

	time     int64
	timeText []byte
	hasTime  bool
	seen     field
	from, to int // of the data, in the text
}

// cloudEvent reads the CloudEvent whose brace is next. Its data are an event
// whose fields win over the envelope's.
func (d *Decoder) cloudEvent(depth int) bool {
	var e envelope
	if !d.object(depth, func(key []byte) bool { return d.ceField(&e, key, depth+1) }) {
		return false
	}
	d.checkEnvelope(&e)
	if d.problem != "" {
		if len(e.id) <= maxIDBytes && !hasControl(e.id) {
			d.f.id = e.id
		}
		return true
	}
	if e.to > e.from {
		// The data were walked over as part of the whole; now they are read.
		after := d.i
		d.i = e.from
		if !d.event(depth + 1) {
			return false
		}
		d.i = after
	}
	d.fillFrom(&e)
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
			d.fail(CodeBadCloudEvent, "The data of a CloudEvent must be a JSON object with the event's fields.")
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
	e.timeText = value
	if e.time, e.hasTime = ParseTime(value); !e.hasTime {
		d.fail(CodeBadTime, "Time %s must be RFC 3339, as in 2026-11-20T09:00:00.123Z.", quote(value))
	}
	return true
}

func (d *Decoder) checkEnvelope(e *envelope) {
	switch {
	case e.version == nil:
		d.fail(CodeMissingField, `A CloudEvent must have "specversion": "1.0".`)
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

// fillFrom takes from the envelope what the data leave open.
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
// CloudEvents are told apart by source and id. It is "source id", or a hash of both where that
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
