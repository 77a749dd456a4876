package dlq

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/valyala/fastjson"
)

// Origin is where an entry failed, and where a replay returns to.
type Origin string

// The origins.
const (
	Admission Origin = "admission" // refused before the log, such as by a rate limit
	Fold      Origin = "fold"      // in the log, refused by the fold
	Sink      Origin = "sink"      // counted, but one sink could not be given it
)

// ReasonRateLimited is the reason of events that a rate limit refused. Filters treat it differently
// from all others.
const ReasonRateLimited = "rate_limited"

// ReasonForgotten is the reason of events that may count already, since ids of their time have been forgotten.
const ReasonForgotten = "id_forgotten"

// Entry is one dead letter.
type Entry struct {
	// ID names the entry in its store: 1 to 200 letters, digits and "._:~-". Save fills
	// an empty one, see [Entry.DefaultID].
	ID     string `json:"id"`
	Origin Origin `json:"origin"`
	// Sink is the name of the sink; only with the origin Sink.
	Sink   string `json:"sink,omitempty"`
	Reason string `json:"reason"`
	// Class is the class of the last error, such as "timeout".
	Class string `json:"class,omitempty"`
	// Error is the text of the first failure, for people.
	Error    string `json:"error,omitempty"`
	Attempts int    `json:"attempts,omitempty"`
	// First and Last are the times of the first and the last failure.
	First time.Time `json:"first,omitzero"`
	Last  time.Time `json:"last,omitzero"`
	// Saved is when the entry came into the store, in whole milliseconds. Age, time
	// ranges and retention go by it. Save fills a zero one.
	Saved time.Time `json:"saved"`
	// Seq and Index are the place in the log: the record, and the event in it (-1 is the
	// record itself). Seq 0 means that it never was in the log.
	Seq   uint64 `json:"seq,omitempty"`
	Index int    `json:"index,omitempty"`
	// SeqEnd is the last record of an entry that stands for a range of the log.
	SeqEnd uint64 `json:"seq_end,omitempty"`

	Service  string `json:"service,omitempty"`
	Type     string `json:"type,omitempty"`
	Severity string `json:"severity,omitempty"`
	// Event is the event, as JSON on one line.
	Event json.RawMessage `json:"event,omitempty"`
	// Raw is the failed event if it is not readable JSON.
	Raw []byte `json:"raw,omitempty"`
	// From is where it was in a source. Nil: it did not come from one.
	From *Place `json:"from,omitempty"`
}

// Place is where something was in a source: a message of a topic or a queue, or a part of one.
type Place struct {
	Source    string `json:"source"` // its name in the settings
	Topic     string `json:"topic"`  // or queue
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Item      int    `json:"item"`  // the event in the message, from 0; -1 is the message itself
	Bytes     int    `json:"bytes"` // of the message or of its part; more than len(Raw) if that was cut off
	// Time is the time of the message, and Headers are those that its content depends on.
	Time    time.Time         `json:"time,omitzero"`
	Headers map[string]string `json:"headers,omitempty"`
}

// MaxEntryBytes is the most that the JSON form of an entry may take.
const MaxEntryBytes = 1 << 20

const maxIDBytes = 200

// DefaultID is the ID that Save gives to an entry without one. With a place in the log it
// follows from origin, sink and place, so that saving the same failure again after a
// crash changes nothing; without one it is random.
func (e *Entry) DefaultID() string {
	if e.Seq == 0 {
		var b [12]byte
		_, _ = rand.Read(b[:]) // never fails
		return string(e.Origin) + "-" + hex.EncodeToString(b[:])
	}
	id := append([]byte{}, e.Origin...)
	if e.Sink != "" {
		id = append(append(id, '-'), plainName(e.Sink)...)
	}
	id = strconv.AppendUint(append(id, '-'), e.Seq, 10)
	if e.SeqEnd > e.Seq {
		return string(strconv.AppendUint(append(id, '~'), e.SeqEnd, 10))
	}
	return string(strconv.AppendInt(append(id, '-'), int64(e.Index), 10))
}

// plainName is a name as a part of an ID. Names of sinks are plain; another one is
// written as hex, so that two names never become one.
func plainName(name string) string {
	if checkID(name) == nil && len(name) <= 100 && name[0] != '~' {
		return name
	}
	return "~" + hex.EncodeToString([]byte(name[:min(len(name), 64)]))
}

// ErrInvalid is wrapped by errors about an entry, an ID or a query that no store takes.
var ErrInvalid = errors.New("invalid dead letter")

func checkID(id string) error {
	if id == "" || len(id) > maxIDBytes {
		return fmt.Errorf("%w: ID of %d bytes (want 1 to %d)", ErrInvalid, len(id), maxIDBytes)
	}
	for i := range len(id) {
		switch c := id[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9',
			c == '.', c == '_', c == ':', c == '~', c == '-':
		default:
			return fmt.Errorf("%w: character %q in the ID %q", ErrInvalid, c, id)
		}
	}
	return nil
}

// prepared is an entry that a store can keep, and its JSON form.
type prepared struct {
	*Entry
	body []byte
}

// prepare fills the fields that the caller left empty, in place so that a second try of the same slice has the
// same IDs, and encodes the entries. Those that no store takes are left out, and the error is about the first of
// them.
func prepare(entries []Entry, now time.Time) (kept []prepared, err error) {
	kept = make([]prepared, 0, len(entries))
	for i := range entries {
		e := &entries[i]
		invalid := e.prepare(now)
		var body []byte
		if invalid == nil {
			body, invalid = e.encode()
		}
		if invalid == nil {
			kept = append(kept, prepared{e, body})
		} else if err == nil {
			err = fmt.Errorf("entry %d: %w", i, invalid)
		}
	}
	return kept, err
}

func (e *Entry) prepare(now time.Time) error {
	switch e.Origin {
	case Admission, Fold, Sink:
	default:
		return fmt.Errorf("%w: unknown origin %q", ErrInvalid, e.Origin)
	}
	if e.Reason == "" {
		return fmt.Errorf("%w: no reason", ErrInvalid)
	}
	if e.ID == "" {
		e.ID = e.DefaultID()
	}
	if err := checkID(e.ID); err != nil {
		return err
	}
	if e.Saved.IsZero() {
		e.Saved = now
	}
	e.Saved = time.UnixMilli(e.Saved.UnixMilli()).UTC()
	if y := e.Saved.Year(); y < 1970 || y > 9999 {
		return fmt.Errorf("%w: saved in the year %d", ErrInvalid, y)
	}
	e.First, e.Last = storable(e.First), storable(e.Last)
	if e.From != nil {
		e.From.Time = storable(e.From.Time)
	}
	if len(e.Event) == 0 {
		e.Event = nil
	} else if !json.Valid(e.Event) {
		e.Raw, e.Event = append(e.Raw[:len(e.Raw):len(e.Raw)], e.Event...), nil
	}
	return nil
}

// storable is a time in UTC, or the nearest one that JSON has: a sender can choose the time of a message freely.
func storable(t time.Time) time.Time {
	switch t = t.UTC(); {
	case t.Year() < 0:
		return time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
	case t.Year() > 9999:
		return time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	}
	return t
}

// encode is the JSON form, in one line without a line break at the end. The ID is first. An oversized entry is
// cut.
func (e *Entry) encode() ([]byte, error) {
	body, err := e.marshal()
	if err != nil || len(body) <= MaxEntryBytes {
		return body, err
	}
	e.cut(len(body))
	if body, err = e.marshal(); err == nil && len(body) > MaxEntryBytes {
		err = fmt.Errorf("%w: %s has %d bytes (at most %d)", ErrInvalid, e.ID, len(body), MaxEntryBytes)
	}
	return body, err
}

// The sizes to which an oversized entry is cut.
const (
	cutRaw   = 512 << 10
	cutError = 4 << 10
)

// cut shortens the texts that senders and sinks can make long. A cut event is no longer valid.
func (e *Entry) cut(size int) {
	if len(e.Event) > cutRaw {
		e.Raw, e.Event = e.Event, nil
	}
	e.Raw = e.Raw[:min(len(e.Raw), cutRaw)]
	e.Error = fmt.Sprintf("%s (cut off: %d bytes, at most %d)", e.Error[:min(len(e.Error), cutError)], size, MaxEntryBytes)
	if e.From != nil {
		from := *e.From
		from.Headers = nil
		e.From = &from
	}
}

func (e *Entry) marshal() ([]byte, error) {
	var buf bytes.Buffer
	buf.Grow(256 + len(e.Event))
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return nil, fmt.Errorf("%w: encode %s: %w", ErrInvalid, e.ID, err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

func decodeEntry(data []byte) (e Entry, err error) {
	if err := json.Unmarshal(data, &e); err != nil {
		return e, fmt.Errorf("decode dead letter: %w", err)
	}
	return e, nil
}

var idPrefix = []byte(`{"id":"`)

// encodedID is the ID of an entry in its JSON form. It points into data.
func encodedID(data []byte) []byte {
	rest, ok := bytes.CutPrefix(data, idPrefix)
	if !ok {
		return nil
	}
	id, _, _ := bytes.Cut(rest, []byte{'"'})
	return id
}

var parsers fastjson.ParserPool

// encodedKey is the key under which an entry in its JSON form is counted, without decoding it.
func encodedKey(data []byte) (tallyKey, error) {
	p := parsers.Get()
	defer parsers.Put(p)
	v, err := p.ParseBytes(data)
	if err != nil {
		return tallyKey{}, fmt.Errorf("decode dead letter: %w", err)
	}
	key := tallyKey{Origin(v.GetStringBytes("origin")), string(v.GetStringBytes("reason")),
		string(v.GetStringBytes("sink"))}
	if key.origin == "" || key.reason == "" || checkID(string(encodedID(data))) != nil {
		return tallyKey{}, fmt.Errorf("%w: ID, origin and reason are required", ErrInvalid)
	}
	return key, nil
}

// failed is the entry after one more failure.
func (e Entry) failed(f Failure) Entry {
	e.Attempts++
	if f.Class != "" {
		e.Class = f.Class
	}
	if !f.At.IsZero() {
		e.Last = storable(f.At)
	}
	return e
}
