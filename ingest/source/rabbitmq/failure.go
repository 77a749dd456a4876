package rabbitmq

import (
	"errors"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/valyala/fastjson"

	"github.com/sloengine/sloengine/ingest/mapping"
)

// errorTypes are the error_type of a failure by the reason of the death.
var errorTypes = map[string]string{
	ReasonExpired: "queue_ttl_expired", ReasonRejected: "message_rejected", ReasonMaxLen: "queue_length_exceeded",
	ReasonDeliveryLimit: "delivery_limit_exceeded",
}

// Attributes of a failure event.
const (
	attrErrorType = "error_type"
	attrQueue     = "queue"
	attrReason    = "reason"
	attrDeaths    = "deaths"
)

// failure is a dead-lettered message as an event.
type failure struct {
	value        []byte // the event as JSON
	service, typ string
	severity     string
	id           string // "" if neither the mapping nor the message has one
}

// failures makes events of dead-lettered messages. It is for one goroutine.
type failures struct {
	mapper   *mapping.Mapper
	severity string
	parser   fastjson.Parser
	arena    fastjson.Arena
}

// event is the failure that a message stands for: the mapped event, as a failure at the time of its death. It has the
// id that the worker's own event would have, so the first of the two counts.
func (f *failures) event(d *amqp.Delivery, l *history, now time.Time) (*failure, error) {
	base, err := f.mapper.Append(nil, d.Body)
	if err != nil {
		return nil, err
	}
	v, err := f.parser.ParseBytes(base)
	if err != nil {
		return nil, err // the mapping wrote it
	}
	f.arena.Reset()
	a := &f.arena
	out := &failure{
		service: string(v.GetStringBytes("service")), typ: string(v.GetStringBytes("type")),
		severity: string(v.GetStringBytes("severity")),
		id:       string(v.GetStringBytes("id")),
	}
	if out.service == "" || out.typ == "" {
		return nil, errors.New("the message has no service or no type (check map)")
	}
	if out.id == "" && d.MessageId != "" {
		out.id = d.MessageId
		v.Set("id", a.NewString(out.id))
	}
	v.Set("outcome", a.NewString("failure"))
	if out.severity == "" && f.severity != "" {
		out.severity = f.severity
		v.Set("severity", a.NewString(f.severity))
	}
	at := l.at
	if at.IsZero() || at.After(now) { // the broker's clock is ahead
		at = now
	}
	v.Set("time", a.NewString(at.UTC().Format(time.RFC3339Nano)))
	attrs := v.Get("attributes")
	if attrs == nil || attrs.Type() != fastjson.TypeObject {
		attrs = a.NewObject()
		v.Set("attributes", attrs)
	}
	errorType := errorTypes[l.last.Reason]
	if errorType == "" {
		errorType = "dead_lettered"
	}
	attrs.Set(attrErrorType, a.NewString(errorType))
	attrs.Set(attrQueue, a.NewString(l.last.Queue))
	attrs.Set(attrReason, a.NewString(l.last.Reason))
	attrs.Set(attrDeaths, a.NewNumberString(strconv.FormatInt(l.count, 10)))
	out.value = v.MarshalTo(nil)
	return out, nil
}
