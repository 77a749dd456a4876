package send

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fastjson"

	"github.com/sloengine/sloengine/ingest/event"
)

// jsonLog says where the records of a server that logs JSON have what an event needs. A path with dots leads into
// objects; several are tried in order. Except for a time and a status, what a record lacks is left out of the event.
type jsonLog struct {
	time, method, uri, status      []string
	duration                       string
	unit                           time.Duration // of the duration, if it is a number
	bytes, client, referer, id, ua string
	request                        string // method and URI in one, where the record has no others
}

var jsonLogs = map[Format]*jsonLog{
	// The variables of nginx, which a log_format lists. Other servers can write the same names.
	NginxJSON: {
		time: []string{"msec", "time_iso8601", "time_local"}, status: []string{"status"},
		method: []string{"request_method"}, uri: []string{"request_uri", "uri"}, request: "request",
		duration: "request_time", unit: time.Second, bytes: "body_bytes_sent",
		client: "remote_addr", referer: "http_referer", ua: "http_user_agent", id: "request_id",
	},
	Caddy: {
		time: []string{"ts"}, status: []string{"status"}, method: []string{"request.method"}, uri: []string{"request.uri"},
		duration: "duration", unit: time.Second, bytes: "size", client: "request.client_ip",
		referer: "request.headers.Referer.0", ua: "request.headers.User-Agent.0",
	},
	// Of the times, the first is that of the end.
	Traefik: {
		time: []string{"time", "StartUTC"}, status: []string{"DownstreamStatus"}, method: []string{"RequestMethod"},
		uri: []string{"RequestPath"}, duration: "Duration", unit: time.Nanosecond, bytes: "DownstreamContentSize",
		client: "ClientHost", referer: "request_Referer", ua: "request_User-Agent",
	},
}

// parseJSON reads one JSON object. Values may be strings or numbers: nginx knows no types, so it depends on who wrote
// the log_format.
func (p *Parser) parseJSON(line []byte, f *jsonLog, dst *event.Event) (reason string) {
	root, err := p.json.ParseBytes(line)
	if err != nil || root.Type() != fastjson.TypeObject {
		return "not a JSON object on one line"
	}
	var r request
	text, name := firstMember(root, f.time)
	if text == nil {
		return "no time in " + quotedNames(f.time)
	}
	if r.time, reason = jsonTime(text); reason != "" {
		return fmt.Sprintf("the time %s in %q is not %s", show(text), name, reason)
	}
	text, name = firstMember(root, f.status)
	if text == nil {
		return "no status in " + quotedNames(f.status)
	}
	if r.status = parseStatus(text); r.status == 0 {
		return fmt.Sprintf("the status %s in %q is not a number from 100 to 999", show(text), name)
	}
	r.method, r.target = splitRequest(member(root, f.request))
	if method, _ := firstMember(root, f.method); method != nil {
		r.method = method
	}
	if target, _ := firstMember(root, f.uri); target != nil {
		r.target = target
	}
	if r.bytes = member(root, f.bytes); !allDigits(r.bytes) || len(r.bytes) > 19 {
		return fmt.Sprintf("the size %s in %q is not a number", show(r.bytes), f.bytes)
	}
	if took := member(root, f.duration); took != nil {
		if r.took, r.timed = jsonDuration(took, f.unit); !r.timed {
			return fmt.Sprintf("the duration %s in %q is not a number of %s", show(took), f.duration, unitNames[f.unit])
		}
	}
	if p.opt.Extra {
		r.client, r.id = member(root, f.client), member(root, f.id)
		r.referer, r.userAgent = member(root, f.referer), member(root, f.ua)
	}
	p.fill(dst, &r)
	return ""
}

var unitNames = map[time.Duration]string{time.Second: "seconds", time.Nanosecond: "nanoseconds"}

func quotedNames(names []string) string {
	text := strconv.Quote(names[0])
	for i, name := range names[1:] {
		separator := ", "
		if i == len(names)-2 {
			separator = " or "
		}
		text += separator + strconv.Quote(name)
	}
	return text
}

func firstMember(root *fastjson.Value, paths []string) (text []byte, path string) {
	for _, path := range paths {
		if text := member(root, path); text != nil {
			return text, path
		}
	}
	return nil, ""
}

// member returns the text at a path, nil if it is absent, empty, "-" or neither string nor number.
func member(v *fastjson.Value, path string) []byte {
	for path != "" && v != nil {
		var key string
		key, path, _ = strings.Cut(path, ".")
		v = v.Get(key)
	}
	if v == nil {
		return nil
	}
	var text []byte
	switch v.Type() {
	case fastjson.TypeString:
		text, _ = v.StringBytes()
	case fastjson.TypeNumber:
		text = v.MarshalTo(nil)
	}
	if len(text) == 0 {
		return nil
	}
	return notDash(text)
}

// jsonTime reads Unix seconds, ISO 8601 or the form of access logs. otherwise says what it wants.
func jsonTime(text []byte) (when time.Time, otherwise string) {
	s := string(text)
	switch {
	case strings.IndexByte(s, '/') > 0:
		when, ok := parseLocalTime(text, 0)
		if !ok {
			return when, "like 20/Nov/2026:09:00:00 +0000"
		}
		return when, ""
	case strings.IndexByte(s, ':') > 0:
		when, err := time.Parse(time.RFC3339, strings.ToUpper(s))
		if err != nil || when.Year() < 1678 || when.Year() > 2261 {
			return when, "ISO 8601"
		}
		return when.UTC(), ""
	}
	seconds, err := strconv.ParseFloat(s, 64)
	if err != nil || !(math.Abs(seconds) < 9e9) {
		return when, "Unix seconds, ISO 8601 or like 20/Nov/2026:09:00:00 +0000"
	}
	// Servers write milliseconds, which a float64 represents exactly.
	return time.UnixMilli(int64(math.Round(seconds * 1000))).UTC(), ""
}

// jsonDuration reads a number of a unit, or a text such as 1.5ms.
func jsonDuration(text []byte, unit time.Duration) (d time.Duration, ok bool) {
	n, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		d, err = time.ParseDuration(string(text))
		return d, err == nil && d >= 0 && d <= event.MaxDuration
	}
	n *= float64(unit)
	if !(n >= 0 && n <= float64(event.MaxDuration)) {
		return 0, false
	}
	return time.Duration(math.Round(n)), true
}
