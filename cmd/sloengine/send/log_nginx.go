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

func (f *Fields) setDefaults() {
	for _, d := range []struct {
		name  *string
		value string
	}{
		{&f.Msec, "msec"}, {&f.TimeISO8601, "time_iso8601"}, {&f.TimeLocal, "time_local"},
		{&f.Method, "request_method"}, {&f.Request, "request"}, {&f.URI, "request_uri"},
		{&f.Status, "status"}, {&f.RequestTime, "request_time"}, {&f.Bytes, "body_bytes_sent"},
		{&f.Client, "remote_addr"}, {&f.Referer, "http_referer"}, {&f.UserAgent, "http_user_agent"},
		{&f.RequestID, "request_id"},
	} {
		if *d.name == "" {
			*d.name = d.value
		}
	}
}

// parseNginx reads one JSON object. Values may be strings or numbers: nginx
// knows no types, so it depends on who wrote the log_format.
func (p *Parser) parseNginx(line []byte, dst *event.Event) (reason string) {
	root, err := p.json.ParseBytes(line)
	if err != nil {
		return "not a JSON object on one line"
	}
	o, err := root.Object()
	if err != nil {
		return "not a JSON object on one line"
	}
	f := &p.opt.Fields
	var r request
	if r.time, reason = nginxTime(o, f); reason != "" {
		return reason
	}
	status := member(o, f.Status)
	if status == nil {
		return fmt.Sprintf("no status in %q", f.Status)
	}
	if r.status = parseStatus(status); r.status == 0 {
		return fmt.Sprintf("the status %s in %q is not a number from 100 to 999", show(status), f.Status)
	}
	r.method, r.target = splitRequest(member(o, f.Request))
	if method := member(o, f.Method); method != nil {
		r.method = method
	}
	if target := member(o, f.URI); target != nil {
		r.target = target
	} else if target := member(o, "uri"); target != nil {
		r.target = target
	}
	if r.bytes = member(o, f.Bytes); !allDigits(r.bytes) || len(r.bytes) > 19 {
		return fmt.Sprintf("the size %s in %q is not a number", show(r.bytes), f.Bytes)
	}
	r.client, r.id = member(o, f.Client), member(o, f.RequestID)
	r.referer, r.userAgent = member(o, f.Referer), member(o, f.UserAgent)
	if took := member(o, f.RequestTime); took != nil {
		seconds, err := strconv.ParseFloat(string(took), 64)
		if err != nil || !(seconds >= 0 && seconds <= event.MaxDuration.Seconds()) {
			return fmt.Sprintf("the duration %s in %q is not a number of seconds", show(took), f.RequestTime)
		}
		dst.Duration, dst.HasDuration = time.Duration(math.Round(seconds*1e9)), true
	}
	p.fill(dst, &r)
	return ""
}

// member returns the text of a member, nil if it is absent, empty, "-" or
// neither string nor number.
func member(o *fastjson.Object, name string) []byte {
	v := o.Get(name)
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

func nginxTime(o *fastjson.Object, f *Fields) (when time.Time, reason string) {
	if text := member(o, f.Msec); text != nil {
		seconds, err := strconv.ParseFloat(string(text), 64)
		if err != nil || !(math.Abs(seconds) < 9e9) {
			return when, fmt.Sprintf("the time %s in %q is not Unix seconds", show(text), f.Msec)
		}
		// The variable holds milliseconds, which a float64 represents exactly.
		return time.UnixMilli(int64(math.Round(seconds * 1000))).UTC(), ""
	}
	if text := member(o, f.TimeISO8601); text != nil {
		when, err := time.Parse(time.RFC3339, strings.ToUpper(string(text)))
		if err != nil || when.Year() < 1678 || when.Year() > 2261 {
			return when, fmt.Sprintf("the time %s in %q is not ISO 8601", show(text), f.TimeISO8601)
		}
		return when.UTC(), ""
	}
	if text := member(o, f.TimeLocal); text != nil {
		when, ok := parseLocalTime(text, 0)
		if !ok {
			return when, fmt.Sprintf("the time %s in %q is not like 20/Nov/2026:09:00:00 +0000", show(text), f.TimeLocal)
		}
		return when, ""
	}
	return when, fmt.Sprintf("no time in %q, %q or %q", f.Msec, f.TimeISO8601, f.TimeLocal)
}
