package dlq

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Query chooses entries. A field that is empty matches all; several must all match.
type Query struct {
	Origin   Origin
	Sink     string
	Service  string
	Type     string
	Severity string
	Reason   string
	Class    string
	// Services, if it is not nil, are those whose entries match.
	Services []string
	// From and To bound the time of saving: From <= Saved < To.
	From, To time.Time
	// Newest turns the order round.
	Newest bool
	// Limit is the size of a page: 1 to 1000, 0 is 100.
	Limit int
	// Cursor is where to continue: Page.Next of the same query, "" is the beginning.
	Cursor string
}

// The sizes of a page.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
)

// Page is a part of the answer to a query.
type Page struct {
	// Entries are up to Limit entries. There may be fewer, even zero, before the end: the work for one
	// page is bounded.
	Entries []Entry `json:"entries"`
	// Next is the cursor of the next page; "" at the end.
	Next string `json:"next,omitempty"`
}

// position is where a query continues: behind the entry of that number, in its direction. In the
// beginning there is no such entry.
type position struct {
	n     uint64
	begun bool
}

func (p position) passed(n uint64, newest bool) bool {
	switch {
	case !p.begun:
		return false
	case newest:
		return n >= p.n
	}
	return n <= p.n
}

func cursor(n uint64, newest bool) string {
	direction := byte('o')
	if newest {
		direction = 'n'
	}
	return base64.RawURLEncoding.EncodeToString(strconv.AppendUint([]byte{direction}, n, 36))
}

// normal fills the defaults and reads the cursor.
func (q Query) normal() (Query, position, error) {
	switch {
	case q.Limit == 0:
		q.Limit = DefaultLimit
	case q.Limit < 0 || q.Limit > MaxLimit:
		return q, position{}, fmt.Errorf("%w: limit %d (want 1 to %d)", ErrInvalid, q.Limit, MaxLimit)
	}
	if q.Cursor == "" {
		return q, position{}, nil
	}
	data, err := base64.RawURLEncoding.DecodeString(q.Cursor)
	if err != nil || len(data) < 2 || data[0] != 'o' && data[0] != 'n' {
		return q, position{}, fmt.Errorf("%w: cursor %q", ErrInvalid, q.Cursor)
	}
	if (data[0] == 'n') != q.Newest {
		return q, position{}, fmt.Errorf("%w: cursor %q belongs to the opposite order", ErrInvalid, q.Cursor)
	}
	n, err := strconv.ParseUint(string(data[1:]), 36, 64)
	if err != nil {
		return q, position{}, fmt.Errorf("%w: cursor %q", ErrInvalid, q.Cursor)
	}
	return q, position{n, true}, nil
}

// Match reports whether an entry is asked for. The cursor plays no part.
func (q *Query) Match(e *Entry) bool {
	return (q.Origin == "" || q.Origin == e.Origin) &&
		(q.Sink == "" || q.Sink == e.Sink) &&
		(q.Service == "" || q.Service == e.Service) &&
		(q.Type == "" || q.Type == e.Type) &&
		(q.Severity == "" || q.Severity == e.Severity) &&
		(q.Reason == "" || q.Reason == e.Reason) &&
		(q.Class == "" || q.Class == e.Class) &&
		(q.Services == nil || slices.Contains(q.Services, e.Service)) &&
		q.matchTime(e.Saved)
}

func (q *Query) matchTime(saved time.Time) bool {
	return (q.From.IsZero() || !saved.Before(q.From)) && (q.To.IsZero() || saved.Before(q.To))
}

// matchKey reports whether entries counted under a key can match.
func (q *Query) matchKey(key tallyKey) bool {
	return (q.Origin == "" || q.Origin == key.origin) &&
		(q.Sink == "" || q.Sink == key.sink || key.sink == tallyOther) &&
		(q.Reason == "" || q.Reason == key.reason || key.reason == tallyOther)
}

// mayMatch is a cheap look at the JSON form: false only if Match would be.
func (q *Query) mayMatch(data []byte) bool {
	for _, v := range []string{q.Sink, q.Service, q.Type, q.Severity, q.Reason, q.Class} {
		if v != "" && checkID(v) == nil && !bytes.Contains(data, []byte(v)) {
			return false
		}
	}
	return q.Services == nil || slices.ContainsFunc(q.Services, func(v string) bool {
		return checkID(v) != nil || bytes.Contains(data, []byte(v))
	})
}
