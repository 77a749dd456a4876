package send

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fastjson"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/mapping"
)

// Format names a log format.
type Format string

// The formats.
const (
	Common    Format = "common"     // host ident user [time] "request" status bytes
	Combined  Format = "combined"   // common, "referer" and "user agent"
	NginxJSON Format = "nginx-json" // one JSON object per line, with nginx variables
	Caddy     Format = "caddy"      // JSON of Caddy
	Traefik   Format = "traefik"    // JSON of Traefik
	HAProxy   Format = "haproxy"    // option httplog
	ALB       Format = "alb"        // application load balancers of AWS
	IIS       Format = "iis"        // the extended format of the W3C
	NDJSON    Format = "ndjson"     // one event per line
	JSON      Format = "json"       // events in an array, or one after the other
)

// Formats are all formats.
var Formats = []Format{NDJSON, JSON, Common, Combined, NginxJSON, Caddy, Traefik, HAProxy, ALB, IIS}

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
	// Map makes events of JSON objects of another form, in the formats that hold events.
	Map *mapping.Mapping
	// Zone is that of times that name none; that of the machine by default.
	Zone *time.Location
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

	defaulted []byte   // a record with its defaults, or the event of a map
	columns   []string // of the W3C's format
}

// NewParser makes a parser for the format.
func NewParser(format Format, opt ParserOptions) (*Parser, error) {
	if !slices.Contains(Formats, format) {
		return nil, fmt.Errorf("unknown log format %q: use one of %s", format, FormatNames())
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
	if opt.Map != nil && !holdsEvents(format) {
		return nil, fmt.Errorf("a map reads JSON: use it with the format %s or %s, not with %s", NDJSON, JSON, format)
	}
	if opt.FailFrom < 100 || opt.FailFrom > 1000 {
		return nil, fmt.Errorf("invalid lowest failing status %d (want 100 to 1000)", opt.FailFrom)
	}
	if opt.MaxLineBytes < 0 {
		return nil, errors.New("the maximum line length must not be negative")
	}
	opt.Zone = cmp.Or(opt.Zone, time.Local)
	return &Parser{format: format, opt: opt, ids: newIDs(opt.Source, generationSize)}, nil
}

// FormatNames lists all formats, for texts.
func FormatNames() string {
	names := make([]string, len(Formats))
	for i, f := range Formats {
		names[i] = string(f)
	}
	return strings.Join(names, ", ")
}

// Parse reads one record, with or without its line break, into dst, reusing
// dst's slices. offset is the record's place in the stream, for the error, which
// is a *LineError, or errNoEvent for a comment. Nothing in dst refers to line.
func (p *Parser) Parse(line []byte, offset int64, dst *event.Event) error {
	return p.parseAt(line, p.lines+1, offset, dst)
}

func (p *Parser) parseAt(line []byte, number int, offset int64, dst *event.Event) error {
	p.lines = number
	line = bytes.TrimPrefix(bytes.TrimRight(line, "\r\n"), []byte(event.BOM))
	dst.Reset()
	if p.format == IIS && len(line) > 0 && line[0] == '#' {
		p.w3cHeader(line)
		return errNoEvent
	}
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
		line, err := p.asEvent(line)
		if err == nil {
			err = p.decoder.DecodeEvent(line, dst)
		}
		if err != nil {
			return err.Error()
		}
		return ""
	case HAProxy:
		return p.parseHAProxy(line, dst)
	case ALB:
		return p.parseALB(line, dst)
	case IIS:
		return p.parseW3C(line, dst)
	}
	if names := jsonLogs[p.format]; names != nil {
		return p.parseJSON(line, names, dst)
	}
	return p.parseAccess(line, dst)
}

func tooLong(n, limit int) string {
	return fmt.Sprintf("the line has at least %d bytes, but the maximum is %d", n, limit)
}
