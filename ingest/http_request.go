package ingest

import (
	crand "crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/deadline"
)

// mediaTypes are the content types of events. A browser sends none of them to another site
// without asking it first, unlike a request without any: so one is required.
var mediaTypes = map[string]event.Format{
	"application/json":                   event.JSON,
	"application/x-ndjson":               event.NDJSON,
	"application/cloudevents+json":       event.CloudEvent,
	"application/cloudevents-batch+json": event.CloudEventBatch,
}

const supportedMedia = "application/json, application/x-ndjson, application/cloudevents+json, " +
	"application/cloudevents-batch+json"

// parseMediaType reads the Content-Type. The only parameter that may matter is
// charset, which must be UTF-8.
func parseMediaType(h http.Header) (event.Format, *refusal) {
	value := h.Get("Content-Type")
	if value == "" {
		return 0, unsupportedMedia("missing Content-Type")
	}
	if m, ok := mediaTypes[value]; ok {
		return m, nil
	}
	name, params, _ := strings.Cut(value, ";")
	m, ok := mediaTypes[strings.ToLower(strings.TrimSpace(name))]
	if !ok {
		return 0, unsupportedMedia(fmt.Sprintf("unsupported Content-Type %.100q", value))
	}
	for param := range strings.SplitSeq(params, ";") {
		key, charset, _ := strings.Cut(param, "=")
		charset = strings.Trim(strings.TrimSpace(charset), `"`)
		if strings.EqualFold(strings.TrimSpace(key), "charset") && !strings.EqualFold(charset, "utf-8") {
			return 0, unsupportedMedia(fmt.Sprintf("the charset must be utf-8, not %.40q", charset))
		}
	}
	return m, nil
}

func unsupportedMedia(reason string) *refusal {
	return &refusal{status: http.StatusUnsupportedMediaType, code: problemMediaType, closeConn: true,
		detail: reason + " (want one of " + supportedMedia + ")"}
}

// crossOrigin finds requests that a page of another site made a browser send.
var crossOrigin http.CrossOriginProtection

// checkOrigin refuses such a request: its page could write as the person in front of it.
func checkOrigin(req *http.Request) *refusal {
	if crossOrigin.Check(req) == nil {
		return nil
	}
	return &refusal{status: http.StatusForbidden, code: problemCrossSite, closeConn: true,
		detail: "a web page of another site sent this request (send events from a server, or through a proxy under the " +
			"page's own host name)"}
}

// parseQuery reads dry_run, backfill and covers. A misspelt value must not silently store events
// that were meant as a dry run.
func (s *requestState) parseQuery(req *http.Request) *refusal {
	if req.URL.RawQuery == "" {
		return nil
	}
	query, err := url.ParseQuery(req.URL.RawQuery)
	if err != nil {
		return &refusal{status: http.StatusBadRequest, code: problemBadQuery, detail: err.Error(), closeConn: true}
	}
	flags := map[string]*bool{"dry_run": &s.query.dryRun, "backfill": &s.query.backfill}
	for name := range query {
		if flags[name] == nil && name != "covers" {
			// A misspelt dry_run must not store events that were only to be tried.
			return &refusal{status: http.StatusBadRequest, code: problemBadQuery, closeConn: true,
				detail: fmt.Sprintf("unknown query parameter %s (want dry_run, backfill or covers)",
					strconv.Quote(name[:min(len(name), 64)]))}
		}
	}
	for name, flag := range flags {
		values, ok := query[name]
		if !ok {
			continue
		}
		switch {
		case len(values) == 1 && values[0] == "true":
			*flag = true
		case len(values) == 1 && values[0] == "false":
		default:
			return &refusal{status: http.StatusBadRequest, code: problemBadQuery, closeConn: true,
				detail: name + " must appear once, as true or false"}
		}
	}
	if s.query.covers, err = parseCovers(query["covers"], s.query.backfill); err != nil {
		return &refusal{status: http.StatusBadRequest, code: problemBadQuery, detail: err.Error(), closeConn: true}
	}
	return nil
}

// parseCovers reads the times of which a sender says that it sends all events. There are few: a file has one.
func parseCovers(values []string, backfill bool) (out []event.Span, err error) {
	switch {
	case len(values) > 0 && !backfill:
		return nil, errors.New("covers is for backfills (add backfill=true)")
	case len(values) > event.MaxCovers:
		return nil, fmt.Errorf("covers appears %d times (at most %d)", len(values), event.MaxCovers)
	}
	for _, value := range values {
		from, to, _ := strings.Cut(strings.ReplaceAll(value, " ", "+"), "/") // an unescaped + arrives as a space
		first, ok1 := event.ParseTime([]byte(from))
		last, ok2 := event.ParseTime([]byte(to))
		if !ok1 || !ok2 || last < first {
			return nil, fmt.Errorf("invalid covers %s (want FROM/TO, such as 2026-11-01T00:00:00Z/2026-11-08T00:00:00Z)",
				strconv.Quote(value[:min(len(value), 64)]))
		}
		out = append(out, event.Span{From: first, To: last})
	}
	return out, nil
}

// parseDeadline reads X-Request-Deadline: RFC 3339, or Unix seconds (with a
// fraction or without). It is zero if the header is absent.
func parseDeadline(h http.Header) (time.Time, *refusal) {
	value := h.Get(deadline.Header)
	if value == "" {
		return time.Time{}, nil
	}
	if t, err := deadline.Parse(value); err == nil {
		return t, nil
	}
	return time.Time{}, &refusal{status: http.StatusBadRequest, code: problemBadDeadline, closeConn: true,
		detail: "X-Request-Deadline must be an RFC 3339 time or Unix seconds"}
}

// Ids of requests and events that came without one: random per process, then
// counted, so that they are unique without asking for randomness each time.
var (
	processID   = randomHex(8)
	requestSeq  atomic.Uint64
	assignedSeq atomic.Uint64
)

func randomHex(n int) string {
	raw := make([]byte, n)
	_, _ = crand.Read(raw) // never fails since Go 1.24
	return hex.EncodeToString(raw)
}

const maxRequestID = 128

// requestID takes the sender's X-Request-Id if it can go into logs and headers
// as it is, and makes one otherwise.
func requestID(h http.Header) string {
	if id := h.Get(headerRequestID); id != "" && saneRequestID(id) {
		return id
	}
	var buf [40]byte
	b := append(buf[:0], processID...)
	b = append(b, '-')
	return string(strconv.AppendUint(b, requestSeq.Add(1), 36))
}

func saneRequestID(id string) bool {
	if len(id) > maxRequestID {
		return false
	}
	for i := 0; i < len(id); i++ {
		c := id[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '-', c == '_', c == '.', c == ':', c == '/', c == '+', c == '=', c == '@', c == '#':
		default:
			return false
		}
	}
	return true
}

// idMaker makes the ids of one request's events that came without one. They
// share memory: a request has up to thousands of them.
type idMaker struct{ buf strings.Builder }

func (m *idMaker) next(int) string {
	const idBytes = 2*8 + 2 + 13 // process id, "a-", a 64-bit number in base 36
	if m.buf.Cap()-m.buf.Len() < idBytes {
		size := max(idBytes, min(64*idBytes, 4*m.buf.Cap()))
		m.buf = strings.Builder{} // the ids so far keep the memory they are in
		m.buf.Grow(size)
	}
	start := m.buf.Len()
	m.buf.WriteString(processID)
	m.buf.WriteString("-e")
	var num [13]byte
	m.buf.Write(strconv.AppendUint(num[:0], assignedSeq.Add(1), 36))
	return m.buf.String()[start:]
}

func (m *idMaker) reset() { m.buf = strings.Builder{} }
