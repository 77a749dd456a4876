package relay

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/sloengine/sloengine/reliability/retry"
)

// postBatch posts rows as CloudEvents in one request. A batch that the receiver refuses without saying which row is at
// fault is halved until that row is alone.
func (h *HTTP) postBatch(ctx context.Context, part []*Message) []Outcome {
	body := []byte{'['}
	for i, m := range part {
		if i > 0 {
			body = append(body, ',')
		}
		body = appendCloudEvent(body, m, cmp.Or(h.o.Source, m.Topic))
	}
	body = append(body, ']')
	outcomes := make([]Outcome, len(part))
	if refused, ok := h.enter(ctx, false); !ok {
		fillOutcomes(outcomes, refused)
		return outcomes
	}
	r := h.post(ctx, h.o.URL, body, http.Header{"Content-Type": {"application/cloudevents-batch+json"}})
	h.leave()
	if r.answer != nil {
		if errs, named := r.answer.Parts(len(part)); named {
			for i, err := range errs {
				outcomes[i].Err = err
			}
			return outcomes
		}
	}
	if r.err != nil && !r.away && retry.ClassOf(r.err) != retry.ClassOverload && len(part) > 1 {
		half := len(part) / 2
		return append(h.postBatch(ctx, part[:half]), h.postBatch(ctx, part[half:])...)
	}
	fillOutcomes(outcomes, Outcome{Err: r.err, Away: r.away})
	return outcomes
}

func fillOutcomes(outcomes []Outcome, o Outcome) {
	for i := range outcomes {
		outcomes[i] = o
	}
}

// cloudEventCore are the attributes of CloudEvents that are set from columns.
var cloudEventCore = map[string]bool{
	"specversion": true, "id": true, "source": true, "type": true, "time": true, "subject": true, "datacontenttype": true,
	"dataschema": true, "data": true, "partitionkey": true, "topic": true,
}

// appendCloudEvent appends a row as a CloudEvent. Headers are extension attributes, whose names can have small letters
// and digits only.
func appendCloudEvent(b []byte, m *Message, source string) []byte {
	text := func(name, value string) {
		if value != "" {
			b = append(append(append(b, ',', '"'), name...), '"', ':')
			b = appendText(b, value)
		}
	}
	b = append(b, `{"specversion":"1.0"`...)
	text("id", m.IdempotencyKey)
	text("source", source)
	text("type", cmp.Or(m.EventType, m.Topic))
	text("subject", m.AggregateID)
	text("time", m.CreatedAt.UTC().Format(time.RFC3339Nano))
	text("partitionkey", m.Key)
	text("topic", m.Topic)
	seen := map[string]bool{"idempotencykey": true, "eventtype": true, "aggregateid": true} // they are above
	for _, h := range m.Headers {
		name := extensionName(h.Name)
		if cloudEventCore[name] {
			name = "header" + name
		}
		if name != "" && !seen[name] {
			seen[name] = true
			text(name, h.Value)
		}
	}
	if json.Valid(m.Payload) {
		b = append(append(b, `,"datacontenttype":"application/json","data":`...), m.Payload...)
	} else {
		text("datacontenttype", contentType(m))
		b = append(b, `,"data_base64":"`...)
		b = append(base64.StdEncoding.AppendEncode(b, m.Payload), '"')
	}
	return append(b, '}')
}

func appendText(b []byte, s string) []byte {
	quoted, err := json.Marshal(s)
	if err != nil { // a text always has a JSON form
		return append(b, `""`...)
	}
	return append(b, quoted...)
}

// extensionName is the name of a header as that of an extension attribute.
func extensionName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(name))
}
