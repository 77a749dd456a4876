package send

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/sloengine/sloengine/ingest/event"
)

// Format names a log format.
type Format string

// The formats.
const (
	Common    Format = "common"     // host ident user [time] "request" status bytes
	Combined  Format = "combined"   // common, "referer" and "user agent"
	NginxJSON Format = "nginx-json" // one JSON object per line, with nginx variables
	NDJSON    Format = "ndjson"     // one event per line
	JSON      Format = "json"       // events in an array, or one after the other
)

// Formats lists all formats, for help texts.
var Formats = []Format{Common, Combined, NginxJSON, NDJSON, JSON}

// ParserOptions say how records become events.
type ParserOptions struct {
	// Service is the events' service; required, except for the formats that hold
	// events, where it is that of events which name none.
	Service string
	// Type is the events' type; "request" by default. For the formats that hold
	// events it is that of events which name none, without a default.
	Type string
	// FailFrom is the least HTTP status that is a failure; 500 by default.
	FailFrom int
	// Source distinguishes files that may hold identical lines, for example by the name of the
	// machine. It is part of the ids, so it must be the same at every sending.
	Source string
	// Paths adds the attribute path, without the query. Paths are many: grouping
	// by them needs care.
	Paths bool
	// Extra adds attributes that are personal or rarely wanted: client, referer, user_agent and
	// request_id.
	Extra bool
	// MaxLineBytes bounds a record; 65536 by default.
	MaxLineBytes int
	// Fields are the names that an nginx-json log uses.
	Fields Fields
}

// Fields are the names of the members of an nginx-json record. An empty name
// takes the default, which is the nginx variable's. Members that a record lacks
// are left out of the event, except for a time and a status.
type Fields struct {
	Msec        string // "msec": Unix seconds with milliseconds; preferred
	TimeISO8601 string // "time_iso8601"
	TimeLocal   string // "time_local"
	Method      string // "request_method"
	Request     string // "request", from which missing values of the next two are taken
	URI         string // "request_uri", else "uri"
	Status      string // "status"
	RequestTime string // "request_time": the duration, in seconds
	Bytes       string // "body_bytes_sent"
	Client      string // "remote_addr"
	Referer     string // "http_referer"
	UserAgent   string // "http_user_agent"
	RequestID   string // "request_id"
}

// LineError says why a record is no event.
type LineError struct {
	Line   int   // of the record's first byte, from 1
	Offset int64 // of the record in the stream, in bytes
	Reason string
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

// Parser turns single records into events. It counts them, since ids depend on the records before,
// so each stream needs its own. It is not safe for concurrent use.
type Parser struct {
	format  Format
	opt     ParserOptions
	ids     *ids
	lines   int
	json    fastjson.Parser
	decoder event.Decoder
	scratch []byte

	defaulted []byte // a record with its defaults
}

// NewParser makes a parser for the format.
func NewParser(format Format, opt ParserOptions) (*Parser, error) {
	if !slices.Contains(Formats, format) {
		return nil, fmt.Errorf("unknown log format %q: use one of %s", format, joinFormats())
	}
	if opt.Type == "" && !holdsEvents(format) {
		opt.Type = "request"
	}
	if opt.FailFrom == 0 {
		opt.FailFrom = 500
	}
	if opt.MaxLineBytes == 0 {
		opt.MaxLineBytes = 64 << 10
	}
	if opt.Service == "" && !holdsEvents(format) {
		return nil, fmt.Errorf("a log in %s format requires a service name", format)
	}
	if opt.Service != "" && !event.ValidName(opt.Service) {
		return nil, fmt.Errorf("invalid service %q (use letters, digits, dots, dashes and underscores)", opt.Service)
	}
	if opt.Type != "" && !event.ValidName(opt.Type) {
		return nil, fmt.Errorf("invalid type %q (use letters, digits, dots, dashes and underscores)", opt.Type)
	}
	if opt.FailFrom < 100 || opt.FailFrom > 1000 {
		return nil, fmt.Errorf("invalid lowest failing status %d (want 100 to 1000)", opt.FailFrom)
	}
	if opt.MaxLineBytes < 0 {
		return nil, errors.New("the maximum line length must not be negative")
	}
	opt.Fields.setDefaults()
	return &Parser{format: format, opt: opt, ids: newIDs(opt.Source, generationSize)}, nil
}

func joinFormats() string {
	names := make([]string, len(Formats))
	for i, f := range Formats {
		names[i] = string(f)
	}
	return strings.Join(names, ", ")
}

// Parse reads one record, with or without its line break, into dst, reusing
// dst's slices. offset is the record's place in the stream, for the error, which
// is a *LineError. Nothing in dst refers to line.
func (p *Parser) Parse(line []byte, offset int64, dst *event.Event) error {
	return p.parseAt(line, p.lines+1, offset, dst)
}

func (p *Parser) parseAt(line []byte, number int, offset int64, dst *event.Event) error {
	p.lines = number
	line = bytes.TrimPrefix(bytes.TrimRight(line, "\r\n"), []byte(event.BOM))
	dst.Reset()
	if reason := p.parse(line, dst); reason != "" {
		return &LineError{Line: number, Offset: offset, Reason: reason}
	}
	if dst.ID == "" {
		dst.ID = p.ids.next(line)
	}
	return nil
}

// parse returns the problem of the line, "" if it is valid.
func (p *Parser) parse(line []byte, dst *event.Event) (reason string) {
	if len(line) > p.opt.MaxLineBytes {
		return tooLong(len(line), p.opt.MaxLineBytes)
	}
	if len(bytes.TrimSpace(line)) == 0 {
		return "the line is empty"
	}
	switch p.format {
	case NDJSON, JSON:
		if err := p.decoder.DecodeEvent(p.withDefaults(line), dst); err != nil {
			return err.Error()
		}
		return ""
	case NginxJSON:
		return p.parseNginx(line, dst)
	}
	return p.parseAccess(line, dst)
}

func tooLong(n, limit int) string {
	return fmt.Sprintf("the line has at least %d bytes, but the maximum is %d", n, limit)
}
