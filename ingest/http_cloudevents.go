package ingest

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/ingest/event"
)

// parseEnvelope reads the headers of a CloudEvent in binary mode; nil: it is none. One without a version is meant as
// one, too: its id must not get lost.
func parseEnvelope(h http.Header) (*event.Envelope, *refusal) {
	if h["Ce-Specversion"] == nil && h["Ce-Id"] == nil {
		return nil, nil
	}
	e := &event.Envelope{}
	if media := h.Get("Content-Type"); media != "" {
		if len(media) >= len(structured) && strings.EqualFold(media[:len(structured)], structured) {
			return nil, nil
		}
		e.ContentType = []byte(media)
	}
	for name, to := range e.Attributes() {
		switch values := h.Values("ce-" + name); {
		case len(values) > 1:
			return nil, &refusal{status: http.StatusBadRequest, code: problemBadBody, closeConn: true,
				detail: fmt.Sprintf("header ce-%s must appear once, not %d times", name, len(values))}
		case len(values) == 1:
			*to = attributeOf(values[0])
		}
	}
	return e, nil
}

// structured is the beginning of the media types of CloudEvents that have their attributes in the body, which win over
// headers.
const structured = "application/cloudevents"

// attributeOf decodes the value of an attribute in a header (CloudEvents 1.0, HTTP protocol binding, 3.1.3.2). A
// percent sign that begins no escape stands for itself.
func attributeOf(value string) []byte {
	if n := len(value); n >= 2 && value[0] == '"' && value[n-1] == '"' {
		var b strings.Builder
		for i := 1; i < n-1; i++ {
			if value[i] == '\\' && i+1 < n-1 {
				i++
			}
			b.WriteByte(value[i])
		}
		value = b.String()
	}
	if plain, err := url.PathUnescape(value); err == nil {
		value = plain
	}
	return []byte(value)
}

// maxWebhookRate is the most requests per minute that a webhook is granted. Its token and the rate limits bound its
// traffic.
const maxWebhookRate = 6000

// handshake answers whether events may be delivered here (CloudEvents 1.0, HTTP webhooks, 4). It grants any origin at
// once, since the token decides about events, and never calls the URL that a request names for a later answer.
func (h *Handler) handshake(c *gin.Context) {
	header := c.Writer.Header()
	header.Set("Allow", "OPTIONS, POST")
	origin := c.Request.Header.Values("WebHook-Request-Origin")
	if len(origin) == 0 { // another question, such as that of a browser
		c.Status(http.StatusNoContent)
		return
	}
	rate, status := c.Request.Header.Get("WebHook-Request-Rate"), http.StatusOK
	n, err := strconv.ParseUint(rate, 10, 31)
	switch {
	case len(origin) > 1, len(origin[0]) > 253, !event.ValidName(origin[0]), rate != "" && (err != nil || n == 0):
		status = http.StatusBadRequest
	case rate != "":
		header.Set("WebHook-Allowed-Rate", strconv.FormatUint(min(n, maxWebhookRate), 10))
		fallthrough
	default:
		header.Set("WebHook-Allowed-Origin", origin[0])
	}
	h.o.Metrics.countRequest(status)
	c.Status(status)
}
