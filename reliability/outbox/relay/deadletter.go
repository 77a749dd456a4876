package relay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/reliability/outbox"
	"github.com/sloengine/sloengine/reliability/retry"
)

// errMessage makes a message impossible to send, independent of the broker.
var errMessage = errors.New("the row cannot be published")

func message(it *item) (*Message, error) {
	if it.Payload == nil && it.bytes > 0 {
		return nil, retry.Permanent(
			fmt.Errorf("%w: the payload has %d bytes, more than the broker takes", errMessage, it.bytes))
	}
	own, err := outbox.ParseHeaders(it.Headers)
	if err != nil {
		return nil, retry.Permanent(fmt.Errorf("%w: %w", errMessage, err))
	}
	m := &Message{Row: &it.Row, Headers: make([]Header, 0, len(own)+4)}
	for name, value := range own {
		m.Headers = append(m.Headers, Header{name, value})
	}
	order.By(m.Headers, func(a, b *Header) int { return strings.Compare(a.Name, b.Name) })
	m.add(HeaderIdempotencyKey, it.IdempotencyKey)
	m.add(HeaderEventType, it.EventType)
	m.add(HeaderAggregateType, it.AggregateType)
	m.add(HeaderAggregateID, it.AggregateID)
	return m, nil
}

// add adds a header that the row does not have itself.
func (m *Message) add(name, value string) {
	if value != "" && !slices.ContainsFunc(m.Headers, func(h Header) bool { return strings.EqualFold(h.Name, name) }) {
		m.Headers = append(m.Headers, Header{name, value})
	}
}

// deadLetter is the payload of the message about a row that is given up.
type deadLetter struct {
	Row      deadRow   `json:"row"`
	Error    string    `json:"error"`
	Class    string    `json:"error_class"`
	FailedAt time.Time `json:"failed_at"`
	Attempts int       `json:"attempts"`
}

type deadRow struct {
	ID             int64           `json:"id"`
	CreatedAt      time.Time       `json:"created_at"`
	IdempotencyKey string          `json:"idempotency_key"`
	AggregateType  string          `json:"aggregate_type,omitempty"`
	AggregateID    string          `json:"aggregate_id,omitempty"`
	EventType      string          `json:"event_type,omitempty"`
	Topic          string          `json:"topic"`
	Key            string          `json:"key"`
	Headers        json.RawMessage `json:"headers,omitempty"`
	Payload        json.RawMessage `json:"payload,omitempty"`        // if it is JSON
	PayloadText    string          `json:"payload_text,omitempty"`   // if it is another text
	PayloadBase64  []byte          `json:"payload_base64,omitempty"` // otherwise
	PayloadBytes   int             `json:"payload_bytes"`
	Omitted        bool            `json:"payload_omitted,omitempty"` // it is too large, and only in the table
}

// giveUp sends the dead-letter messages of rows, and makes those FAILED whose message was accepted. The others are
// tried again later.
func (r *Relay) giveUp(ctx context.Context, b *batch, results []result, failed []int) {
	if len(failed) == 0 {
		return
	}
	if r.o.DeadLetterTopic == "" {
		for _, i := range failed {
			r.gaveUp(&results[i])
		}
		return
	}
	messages := make([]*Message, len(failed))
	for n, i := range failed {
		messages[n] = r.deadMessage(&results[i], true)
	}
	outcomes := r.o.Publisher.Publish(ctx, messages)
	for n, i := range failed {
		o := outcomes[n]
		if o.Err != nil && !o.Away && retry.ClassOf(o.Err) == retry.ClassPermanent { // it may be too large with the payload
			o = r.o.Publisher.Publish(ctx, []*Message{r.deadMessage(&results[i], false)})[0]
		}
		if o.Err == nil && !o.Skipped {
			r.gaveUp(&results[i])
			continue
		}
		res, err := &results[i], cmp.Or(o.Err, errNotSent)
		res.err = clip("the dead-letter message was not accepted: " + err.Error() + "; the row failed with: " + res.err)
		r.logFailure(res.item, "dead-letter message was not accepted", err, "dead_letter_topic", r.o.DeadLetterTopic)
	}
}

// errNotSent is the error of a message that was skipped.
var errNotSent = errors.New("another message with its key was not accepted")

func (r *Relay) gaveUp(res *result) {
	res.status, res.delay = outbox.Failed, 0
	r.logFailure(res.item, "row was given up", errors.New(res.err), "attempts", res.attempts)
}

// deadMessage is the message about a row that is given up.
func (r *Relay) deadMessage(res *result, withPayload bool) *Message {
	it := res.item
	// The time is the database's, as everything else about the row.
	failedAt := it.CreatedAt.Add(time.Duration(it.age * float64(time.Second))).UTC()
	// of a row without a usable one
	if !it.StoredAt.Valid || !it.CreatedAt.Equal(it.StoredAt.Time) || failedAt.Year() > 9999 {
		failedAt = r.o.Now().UTC()
	}
	d := deadLetter{
		Row: deadRow{
			ID: it.ID, CreatedAt: it.CreatedAt.UTC(), IdempotencyKey: it.IdempotencyKey, AggregateType: it.AggregateType,
			AggregateID: it.AggregateID,
			EventType:   it.EventType, Topic: it.Topic, Key: it.Key, PayloadBytes: it.bytes, Omitted: true,
		},
		Error: res.err, Class: res.class.String(), FailedAt: failedAt, Attempts: res.attempts,
	}
	if json.Valid(it.Headers) {
		d.Row.Headers = it.Headers
	}
	if withPayload && it.Payload != nil {
		d.Row.Omitted = false
		switch {
		case json.Valid(it.Payload):
			d.Row.Payload = it.Payload
		case utf8.Valid(it.Payload):
			d.Row.PayloadText = string(it.Payload)
		default:
			d.Row.PayloadBase64 = it.Payload
		}
	}
	raw, err := json.Marshal(d)
	if err != nil { // of values that were checked above
		raw = []byte(fmt.Sprintf(`{"row":{"id":%d},"error":%q}`, it.ID, err.Error()))
	}
	row := it.Row
	row.Topic, row.Payload = r.o.DeadLetterTopic, raw
	if r.o.DeadLetterKey != "" {
		row.Key = r.o.DeadLetterKey
	}
	m := &Message{Row: &row, DeadLetter: true}
	m.add(HeaderIdempotencyKey, it.IdempotencyKey)
	m.add(HeaderEventType, it.EventType)
	m.add(HeaderAggregateType, it.AggregateType)
	m.add(HeaderAggregateID, it.AggregateID)
	m.add(HeaderTraceParent, traceParent(it))
	return m
}

// maxError bounds the stored text of an error, in bytes.
const maxError = 1000

// clip makes an error short, and a text that PostgreSQL takes.
func clip(s string) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "?")
	if len(s) > maxError {
		s = strings.ToValidUTF8(s[:maxError], "") + ".."
	}
	return s
}

// traceParent is that of a row, or "".
func traceParent(it *item) string {
	own, _ := outbox.ParseHeaders(it.Headers) // a row without readable headers has none
	return clip(own[HeaderTraceParent])
}
