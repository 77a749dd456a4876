package deadletters

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// deadLetterView is the page of one dead letter.
type deadLetterView struct {
	site.Layout
	ID      string
	Reason  string
	Error   string
	Facts   []site.Fact
	Event   string // of the entry, to be read
	Cut     string // what was left out of it
	Kind    string // what Event is
	Operate bool
	Confirm string
	API     string
}

// shownEvent is how many characters of an event its page shows.
const shownEvent = 20_000

func (dead *Handler) deadLetterPage(c *gin.Context) {
	c.Header("Cache-Control", "no-store")
	v := dead.View()
	if dead.Opt.DLQ == nil {
		dead.Message(c, http.StatusNotImplemented, "No dead letters", "This engine does not store dead letters.")
		return
	}
	id := c.Query("id")
	const gone = "There is no dead letter with this id. It may have been replayed, discarded or purged."
	if !plainID(id) {
		dead.Message(c, http.StatusNotFound, "Not there", gone)
		return
	}
	ctx, cancel := context.WithTimeout(c.Request.Context(), deadWait)
	defer cancel()
	e, err := dead.Opt.DLQ.Get(ctx, id)
	switch {
	case errors.Is(err, dlq.ErrNotFound), errors.Is(err, dlq.ErrInvalid):
		dead.Message(c, http.StatusNotFound, "Not there", gone)
		return
	case err != nil:
		dead.Message(c, http.StatusServiceUnavailable, "Not now", dead.deadTrouble(v, err))
		return
	}
	p := deadLetterView{
		Layout: dead.Layout(c, v, "Dead letter", "engine"), ID: id, Reason: format.Safe(e.Reason, format.MaxTitle),
		Error: format.Safe(e.Error, format.MaxText), Facts: deadLetterFacts(&e, v.Now),
		Operate: dead.Opt.May(c, site.Operate), Confirm: dead.Opt.ExternalPath + site.DeadLetterConfirmPath,
		API: dead.Opt.ExternalPath + "/api/v1/dlq/" + url.PathEscape(id),
	}
	p.Refresh, p.Stream = nil, ""
	p.Crumbs = dead.crumbs(format.Safe(id, format.MaxName))
	p.Event, p.Kind, p.Cut = deadLetterText(&e)
	dead.Page(c, http.StatusOK, "engine-dead-letter", p)
}

func deadLetterFacts(e *dlq.Entry, now time.Time) []site.Fact {
	var out []site.Fact
	text := func(name, value string) {
		if value != "" {
			out = append(out, site.Fact{Name: name, Value: format.Safe(value, format.MaxTitle), Code: true})
		}
	}
	at := func(name string, t time.Time, note string) {
		if !t.IsZero() {
			out = append(out, site.Fact{Name: name, Value: format.Ago(t, now), At: format.NewStamp(t, now), Note: note})
		}
	}
	origin := map[dlq.Origin]string{dlq.Admission: "refused before it reached the log",
		dlq.Fold: "in the log, but could not be counted", dlq.Sink: "counted, but not delivered to its sink"}[e.Origin]
	out = append(out, site.Fact{Name: "Origin", Value: format.Safe(string(e.Origin), format.MaxName), Note: origin})
	text("Sink", e.Sink)
	if p := e.From; p != nil {
		text("Source", p.Source)
		text("Topic or queue", p.Topic)
		where := "partition " + strconv.Itoa(int(p.Partition)) + ", offset " + strconv.FormatInt(p.Offset, 10)
		note := format.Bytes(int64(p.Bytes))
		if p.Item >= 0 {
			note = "event " + strconv.Itoa(p.Item) + " of the message, " + note
		}
		out = append(out, site.Fact{Name: "Message", Value: where, Note: note})
		at("Message time", p.Time, "")
	}
	text("Error class", e.Class)
	if e.Attempts > 0 {
		out = append(out, site.Fact{Name: "Attempts", Value: strconv.Itoa(e.Attempts)})
	}
	at("First failure", e.First, "")
	at("Last failure", e.Last, "")
	at("Saved", e.Saved, "its age counts from here")
	switch {
	case e.SeqEnd > e.Seq:
		out = append(
			out, site.Fact{Name: "Log position", Value: "records " + format.Count(e.Seq) + " to " + format.Count(e.SeqEnd)})
	case e.Seq > 0:
		out = append(
			out, site.Fact{Name: "Log position", Value: "record " + format.Count(e.Seq), Note: "event " + strconv.Itoa(e.Index)})
	}
	text("Service", e.Service)
	text("Type", e.Type)
	text("Severity", e.Severity)
	return out
}

// deadLetterText is the event of an entry, indented.
func deadLetterText(e *dlq.Entry) (text, kind, cut string) {
	kind = "Event"
	raw := []byte(e.Event)
	var pretty bytes.Buffer
	switch {
	case len(raw) == 0 && len(e.Raw) > 0:
		raw, kind = e.Raw, "Raw data, not a readable event"
	case len(raw) == 0:
		return "", "", ""
	case json.Indent(&pretty, raw, "", "  ") == nil:
		raw = pretty.Bytes()
	}
	var b strings.Builder
	left := shownEvent
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSuffix(line, "\n")
		s := format.Safe(line, left)
		b.WriteString(s + "\n")
		if left -= len([]rune(s)) + 1; left <= 0 || strings.HasSuffix(s, "…") && !strings.HasSuffix(line, "…") {
			cut = "Only the beginning of " + format.Bytes(len(e.Event)+len(e.Raw)) + " is shown."
			break
		}
	}
	return strings.TrimSuffix(b.String(), "\n"), kind, cut
}
