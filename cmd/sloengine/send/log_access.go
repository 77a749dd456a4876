package send

import (
	"bytes"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/sloengine/sloengine/ingest/event"
)

// request holds the fields that both kinds of access log have in common. Texts point into the line;
// empty is absent.
type request struct {
	time                       time.Time
	method, target             []byte
	status                     int
	bytes                      []byte
	client, referer, userAgent []byte
	id                         []byte
	took                       time.Duration
	timed                      bool // took is known
}

// parseAccess reads the common and combined formats:
//
//	host ident user [day/Mon/year:hour:minute:second zone] "request" status bytes "referer" "user agent"
//
// Text after the fields of the format is ignored, but for the duration at the end of what Traefik writes (12ms).
func (p *Parser) parseAccess(line []byte, dst *event.Event) (reason string) {
	var r request
	host, rest, found := bytes.Cut(line, []byte{' '})
	if !found || len(host) == 0 {
		return "no host at the start of the line (is this an access log?)"
	}
	// User names may hold spaces and brackets, so the time is looked for.
	at := -1
	for i := 0; ; {
		j := bytes.IndexByte(rest[i:], '[')
		if j < 0 {
			break
		}
		i += j + 1
		if when, ok := parseLocalTime(rest[i:], ']'); ok {
			r.time, at = when, i+localTimeBytes+1
			if p.opt.Extra {
				r.client = client(line[:len(line)-len(rest)+i])
			}
			break
		}
	}
	if at < 0 {
		return "no time such as [20/Nov/2026:09:00:00 +0000]"
	}
	rest = bytes.TrimLeft(rest[at:], " ")

	text, rest, closed := quoted(rest)
	if !closed {
		return "no request in double quotes after the time"
	}
	r.method, r.target = splitRequest(text)
	word, rest := nextWord(rest)
	if len(word) == 0 {
		return "the line ends after the request, without a status"
	}
	if r.status = parseStatus(word); r.status == 0 {
		return fmt.Sprintf("the status %s is not a number from 100 to 999", show(word))
	}
	word, rest = nextWord(rest)
	if len(word) == 0 {
		return "the line ends after the status, without a size"
	}
	if r.bytes = notDash(word); !allDigits(r.bytes) || len(word) > 19 {
		return fmt.Sprintf("the size %s is neither a number nor a dash", show(word))
	}
	if p.format == Combined {
		rest = bytes.TrimLeft(rest, " ")
		if r.referer, rest, closed = quoted(rest); !closed {
			return "no referer in double quotes after the size (is this the common format?)"
		}
		// A user agent may have lost its closing quote; then it goes to the end.
		rest = bytes.TrimLeft(rest, " ")
		if len(rest) == 0 || rest[0] != '"' {
			return "no user agent in double quotes after the referer"
		}
		r.userAgent, rest, _ = quoted(rest)
		if last := rest[bytes.LastIndexByte(rest, ' ')+1:]; bytes.HasSuffix(last, []byte("ms")) {
			r.took, r.timed = jsonDuration(last, time.Millisecond)
		}
		r.referer, r.userAgent = notDash(r.referer), notDash(r.userAgent)
	}
	p.fill(dst, &r)
	return ""
}

// client is the client among the words before the time. Behind the prefix of syslog, or the virtual host that some
// formats begin with, it is the first address with an identity and a user behind it. Otherwise it is the first word, if
// that can be the name of a host.
func client(before []byte) []byte {
	words := bytes.Fields(before)
	for _, word := range words[:max(0, len(words)-3)] { // the last one is the bracket
		if _, err := netip.ParseAddr(string(word)); err == nil {
			return word
		}
	}
	if !event.ValidName(string(words[0])) {
		return nil
	}
	return notDash(words[0])
}

// fill makes the event of a request.
func (p *Parser) fill(dst *event.Event, r *request) {
	dst.Service, dst.Type = p.opt.Service, p.opt.Type
	dst.Time = r.time
	dst.Duration, dst.HasDuration = r.took, r.timed
	if r.status >= p.opt.FailFrom {
		dst.Outcome = event.Failure
	}
	dst.Count = 1
	set := func(name, value string) {
		dst.Attributes = append(dst.Attributes, event.Attr{Name: name, Value: value})
	}
	set("method", methodName(r.method))
	set("status", strconv.Itoa(r.status))
	set("status_class", statusClasses[r.status/100])
	if len(r.bytes) > 0 {
		set("bytes", string(r.bytes))
	}
	if p.opt.Paths && len(r.target) > 0 {
		set("path", p.clean(pathOf(r.target), maxPathBytes))
	}
	if !p.opt.Extra {
		return
	}
	for _, extra := range []struct {
		name  string
		value []byte
	}{{"client", r.client}, {"referer", r.referer}, {"user_agent", r.userAgent}, {"request_id", r.id}} {
		if len(extra.value) > 0 {
			set(extra.name, p.clean(extra.value, maxExtraBytes))
		}
	}
}

const (
	maxPathBytes  = 256
	maxExtraBytes = 512
)

var statusClasses = [10]string{"0xx", "1xx", "2xx", "3xx", "4xx", "5xx", "6xx", "7xx", "8xx", "9xx"}

// methodName keeps the methods that exist, so that a scanner's inventions do not
// become groups.
func methodName(method []byte) string {
	switch string(method) {
	case "GET":
		return "GET"
	case "POST":
		return "POST"
	case "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE",
		"PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK", "REPORT", "SEARCH", "PURGE":
		return string(method)
	}
	return "other"
}

// splitRequest splits "GET /path HTTP/1.1". Any other text, such as "-" or the bytes of a TLS
// greeting, gives nothing.
func splitRequest(text []byte) (method, target []byte) {
	method, rest, found := bytes.Cut(text, []byte{' '})
	if !found {
		return nil, nil
	}
	if i := bytes.LastIndexByte(rest, ' '); i >= 0 && bytes.HasPrefix(rest[i+1:], []byte("HTTP/")) {
		rest = rest[:i]
	}
	return method, rest
}

// pathOf cuts scheme, host, query and fragment off a request target.
func pathOf(target []byte) []byte {
	if i := bytes.IndexAny(target, "?#"); i >= 0 {
		target = target[:i]
	}
	if i := bytes.Index(target, []byte("://")); i > 0 && target[0] != '/' {
		rest := target[i+3:]
		slash := bytes.IndexByte(rest, '/')
		if slash < 0 {
			return []byte{'/'}
		}
		return rest[slash:]
	}
	return target
}

// quoted reads the text in double quotes at the start of b, leaving escapes as
// they are. Without a closing quote, text is all that follows the opening one.
func quoted(b []byte) (text, rest []byte, closed bool) {
	if len(b) == 0 || b[0] != '"' {
		return nil, b, false
	}
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return b[1:i], b[i+1:], true
		}
	}
	return b[1:], nil, false
}

func nextWord(b []byte) (word, rest []byte) {
	b = bytes.TrimLeft(b, " ")
	if i := bytes.IndexByte(b, ' '); i >= 0 {
		return b[:i], b[i:]
	}
	return b, nil
}

func notDash(b []byte) []byte {
	if len(b) == 1 && b[0] == '-' {
		return nil
	}
	return b
}

func allDigits(b []byte) bool {
	for _, c := range b {
		if c-'0' > 9 {
			return false
		}
	}
	return true
}

// parseStatus returns 0 if s is not a status.
func parseStatus(b []byte) int {
	if len(b) != 3 || !allDigits(b) || b[0] == '0' {
		return 0
	}
	return int(b[0]-'0')*100 + int(b[1]-'0')*10 + int(b[2]-'0')
}

// show quotes a bit of the line for an error.
func show(text []byte) string {
	if len(text) > 64 {
		return strconv.Quote(string(text[:64])) + "..."
	}
	return strconv.Quote(string(text))
}
