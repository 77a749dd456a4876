package send

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/ingest/event"
)

// This file reads the logs of servers that write neither JSON nor what Apache writes.

// statusNone is the status of a request that the client gave up before the answer, as nginx logs it.
const statusNone = 499

// haproxyTimeBytes is the length of 02/Jan/2006:15:04:05.000, which is in the zone of the machine.
const haproxyTimeBytes = 24

// parseHAProxy reads `option httplog`, behind the prefix of syslog or without one:
//
//	client:port [request date] frontend backend/server TR/Tw/Tc/Tr/Ta status bytes .. {captures} "request"
//
// Ta is the active time in milliseconds. A request without an answer has the status -1.
func (p *Parser) parseHAProxy(line []byte, dst *event.Event) (reason string) {
	var r request
	before, rest, found := bytes.Cut(line, []byte(" ["))
	for found && (len(rest) <= haproxyTimeBytes || rest[haproxyTimeBytes] != ']') { // of a process: haproxy[1389]:
		before, rest, found = bytes.Cut(rest, []byte(" ["))
	}
	if !found {
		return "no time such as [20/Nov/2026:09:00:00.123]"
	}
	began, err := time.ParseInLocation("02/Jan/2006:15:04:05.000", string(rest[:haproxyTimeBytes]), p.opt.Zone)
	if err != nil || began.Year() < 1678 || began.Year() > 2261 {
		return fmt.Sprintf("the time %s is not like 20/Nov/2026:09:00:00.123", show(rest[:haproxyTimeBytes]))
	}
	words := bytes.Fields(rest[haproxyTimeBytes+1:])
	if len(words) < 5 {
		return "the line ends before the size (is this `option httplog`?)"
	}
	timers := bytes.Split(words[2], []byte{'/'})
	if len(timers) != 5 {
		return fmt.Sprintf("the timers %s are not five (is this `option httplog`?)", show(words[2]))
	}
	r.time = began.UTC()
	// With a plus it was logged before the end, see option logasap.
	if total := timers[4]; !bytes.HasPrefix(total, []byte{'+'}) {
		ms, err := strconv.ParseUint(string(total), 10, 32)
		if err != nil {
			return fmt.Sprintf("the total time %s is not a number of milliseconds", show(total))
		}
		r.took, r.timed = time.Duration(ms)*time.Millisecond, true
		r.time = r.time.Add(r.took)
	}
	if r.status = parseStatus(words[3]); string(words[3]) == "-1" {
		r.status = statusNone
	} else if r.status == 0 {
		return fmt.Sprintf("the status %s is not a number from 100 to 999", show(words[3]))
	}
	if r.bytes = bytes.TrimPrefix(words[4], []byte{'+'}); !allDigits(r.bytes) || len(r.bytes) > 19 {
		return fmt.Sprintf("the size %s is not a number", show(words[4]))
	}
	// The request is the last field, and what it holds of quotes is encoded.
	if end := bytes.LastIndexByte(rest, '"'); end > 0 {
		if begin := bytes.LastIndexByte(rest[:end], '"'); begin > 0 {
			r.method, r.target = splitRequest(rest[begin+1 : end])
		}
	}
	host := before[bytes.LastIndexByte(before, ' ')+1:]
	if i := bytes.LastIndexByte(host, ':'); i > 0 {
		r.client = host[:i]
	}
	p.fill(dst, &r)
	return ""
}

// parseALB reads the access log of an application load balancer of AWS:
//
//	type time elb client:port target:port request_processing_time target_processing_time response_processing_time
//	elb_status_code target_status_code received_bytes sent_bytes "request" "user_agent" ..
//
// The time is that of the end. Processing times are seconds, and -1 where a target did not answer.
func (p *Parser) parseALB(line []byte, dst *event.Event) (reason string) {
	head, rest, found := bytes.Cut(line, []byte{'"'})
	words := bytes.Fields(head)
	if !found || len(words) != 12 {
		return "not 12 fields before the request (is this the access log of an application load balancer?)"
	}
	var r request
	when, err := time.Parse(time.RFC3339, string(words[1]))
	if err != nil || when.Year() < 1678 || when.Year() > 2261 {
		return fmt.Sprintf("the time %s is not ISO 8601", show(words[1]))
	}
	r.time, r.timed = when.UTC(), true
	for _, word := range words[5:8] {
		switch took, ok := jsonDuration(word, time.Second); {
		case string(word) == "-1":
			r.timed = false
		case !ok:
			return fmt.Sprintf("the processing time %s is not a number of seconds", show(word))
		default:
			r.took += took
		}
	}
	if r.status = parseStatus(words[8]); r.status == 0 {
		return fmt.Sprintf("the status %s is not a number from 100 to 999", show(words[8]))
	}
	if r.bytes = notDash(words[11]); !allDigits(r.bytes) || len(r.bytes) > 19 {
		return fmt.Sprintf("the size %s is not a number", show(words[11]))
	}
	text, rest, closed := quoted(append([]byte{'"'}, rest...))
	if !closed {
		return "the request has no closing quote"
	}
	r.method, r.target = splitRequest(text)
	r.userAgent, rest, _ = quoted(bytes.TrimLeft(rest, " "))
	r.userAgent = notDash(r.userAgent)
	if i := bytes.LastIndexByte(words[3], ':'); i > 0 {
		r.client = words[3][:i]
	}
	for range 3 { // ssl_cipher, ssl_protocol, target_group_arn
		_, rest = nextWord(rest)
	}
	r.id, _, _ = quoted(bytes.TrimLeft(rest, " "))
	r.id = notDash(r.id)
	p.fill(dst, &r)
	return ""
}

// errNoEvent means that a line is a comment.
var errNoEvent = errors.New("the line is a comment")

// w3cHeader reads a line that begins with #. That of the fields says what the lines after it have.
func (p *Parser) w3cHeader(line []byte) {
	if names, found := bytes.CutPrefix(line, []byte("#Fields:")); found {
		p.columns = p.columns[:0]
		for _, name := range bytes.Fields(names) {
			p.columns = append(p.columns, string(name))
		}
	}
}

// parseW3C reads the extended format of the W3C as IIS writes it: a line with #Fields names those of the lines after
// it, times are in UTC, time-taken is milliseconds, and + stands for a space.
func (p *Parser) parseW3C(line []byte, dst *event.Event) (reason string) {
	if len(p.columns) == 0 {
		return "no line with #Fields before this one"
	}
	words := bytes.Fields(line)
	if len(words) != len(p.columns) {
		return fmt.Sprintf("%d fields, but #Fields has %d names", len(words), len(p.columns))
	}
	field := func(name string) []byte {
		for i, column := range p.columns {
			if column == name {
				return notDash(words[i])
			}
		}
		return nil
	}
	for _, name := range []string{"date", "time", "sc-status"} {
		if field(name) == nil {
			return fmt.Sprintf("no %s (add it to the fields that the site logs)", name)
		}
	}
	var r request
	at := string(field("date")) + " " + string(field("time"))
	when, err := time.Parse("2006-01-02 15:04:05", at)
	if err != nil || when.Year() < 1678 || when.Year() > 2261 {
		return fmt.Sprintf("the time %s is not like 2026-11-20 09:00:00", show([]byte(at)))
	}
	r.time = when
	if r.status = parseStatus(field("sc-status")); r.status == 0 {
		return fmt.Sprintf("the status %s is not a number from 100 to 999", show(field("sc-status")))
	}
	if took := field("time-taken"); took != nil {
		if r.took, r.timed = jsonDuration(took, time.Millisecond); !r.timed {
			return fmt.Sprintf("the time-taken %s is not a number of milliseconds", show(took))
		}
	}
	if r.bytes = field("sc-bytes"); !allDigits(r.bytes) || len(r.bytes) > 19 {
		return fmt.Sprintf("the size %s is not a number", show(r.bytes))
	}
	r.method, r.target, r.client = field("cs-method"), field("cs-uri-stem"), field("c-ip")
	r.referer = field("cs(Referer)")
	r.userAgent = []byte(strings.ReplaceAll(string(field("cs(User-Agent)")), "+", " "))
	p.fill(dst, &r)
	return ""
}
