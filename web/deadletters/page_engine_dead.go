package deadletters

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

const (
	// shownDead is how many dead letters the engine page lists; the list has shownDeadLetters.
	shownDead        = 5
	shownDeadLetters = 25
	// shownTallies is how many reasons or sinks the engine page counts.
	shownTallies = 6
	// deadWait is how long a page waits for the store.
	deadWait = 3 * time.Second
)

// Summary is the part of the engine page about dead letters.
type Summary struct {
	Total   string
	Size    string
	Oldest  format.Stamp
	Damage  string // what the files have lost; "" if nothing
	Age     string
	Note    string // instead of rows
	Tallies []tallyTable
	Rows    []deadRow
	List    string
}

// tallyTable counts dead letters by one thing, which is the name of its filter.
type tallyTable struct {
	By   string
	Rows []tallyRow
	More int
}

type tallyRow struct {
	Name, Href, Count string // Href is "" where no filter can name it
	Share             chart.Gauge
}

type deadRow struct {
	At              format.Stamp
	ID              string // "" if no form can name it
	Href            string // "" too, then
	Origin, Sink    string
	Reason, Why     string
	Type            string
	Event           string
	Attempts, Class string
}

func (dead *Handler) Summarise(c *gin.Context, v site.View) *Summary {
	ctx, cancel := context.WithTimeout(c.Request.Context(), deadWait)
	defer cancel()
	p := &Summary{List: dead.Href(site.DeadLetterListPath, nil)}
	stats, err := dead.Opt.DLQ.Stats(ctx)
	var page dlq.Page
	if err == nil {
		page, err = dead.Opt.DLQ.List(ctx, dlq.Query{Newest: true, Limit: shownDead})
	}
	if err != nil {
		p.Note = dead.deadTrouble(v, err)
		return p
	}
	p.Total, p.Oldest = format.Count(stats.Count), format.NewStamp(stats.Oldest, v.Now)
	p.Size = format.Bytes(stats.Bytes)
	if !stats.Oldest.IsZero() {
		p.Age = format.Ago(stats.Oldest, v.Now)
	}
	if l := stats.Lost; l != nil {
		p.Damage = fmt.Sprintf("%s in the files cannot be read: %s, at most %s lost.", format.Plural(stats.Damaged, "place"), format.Bytes(l.Bytes), format.Plural(l.Entries, "dead letter"))
		if !l.From.IsZero() && !l.To.IsZero() {
			p.Damage += " The unreadable part was written between " + l.From.Format("2006-01-02 15:04:05Z") + " and " + l.To.Format("2006-01-02 15:04:05Z") + "."
		}
	}
	if stats.Count > 0 {
		for _, t := range []struct {
			by     string
			counts map[string]int64
		}{{"origin", stats.ByOrigin}, {"reason", stats.ByReason}, {"sink", stats.BySink}} {
			if len(t.counts) > 0 {
				p.Tallies = append(p.Tallies, dead.tallyTable(t.by, t.counts, stats.Count))
			}
		}
	}
	for i := range page.Entries {
		p.Rows = append(p.Rows, dead.newDeadRow(&page.Entries[i], v.Now))
	}
	if len(p.Rows) == 0 {
		p.Note = "None. Every accepted event was counted and delivered."
	}
	return p
}

// deadTrouble explains why the dead letters cannot be shown.
func (dead *Handler) deadTrouble(v site.View, err error) string {
	if !v.Eng.State.Recovered() {
		return "Dead letters are available once the engine has recovered."
	}
	dead.Opt.LogError("list dead letters", err)
	return "The dead letters could not be read. The engine's log has the cause. Reload the page in a moment."
}

func (dead *Handler) tallyTable(by string, counts map[string]int64, total int64) tallyTable {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	t := tallyTable{By: by}
	for i, name := range names {
		if i == shownTallies {
			t.More = len(names) - i
			break
		}
		r := tallyRow{Name: cmp.Or(format.Safe(name, format.MaxName), "(none)"), Count: format.Count(counts[name])}
		r.Share = chart.NewGauge(float64(counts[name])/float64(total), "share", "")
		if plainFilter(by, name) {
			r.Href = dead.Href(site.DeadLetterListPath, url.Values{by: {name}})
		}
		t.Rows = append(t.Rows, r)
	}
	return t
}

// plainFilter reports whether a page can carry a filter on a value: only text that is shown unchanged.
func plainFilter(name, value string) bool {
	return value != "" && value != "(other)" && format.Safe(value, maxFilterText) == value && setDLQFilter(&dlq.Query{}, name, value) == nil
}

func (dead *Handler) newDeadRow(e *dlq.Entry, now time.Time) deadRow {
	r := deadRow{
		At: format.NewStamp(e.Saved, now), Origin: format.Safe(string(e.Origin), format.MaxName), Sink: format.Safe(e.Sink, format.MaxName), Reason: format.Safe(e.Reason, format.MaxTitle),
		Why: format.Safe(e.Error, format.MaxTitle), Type: format.Safe(strings.TrimPrefix(e.Service+" / "+e.Type, " / "), format.MaxName), Event: format.Safe(string(e.Event), format.MaxTitle),
	}
	if e.Service == "" && e.Type == "" {
		r.Type = ""
	}
	if plainID(e.ID) {
		r.ID, r.Href = e.ID, dead.Href(site.DeadLetterPath, url.Values{"id": {e.ID}})
	}
	switch {
	case r.Event != "":
	case e.SeqEnd > e.Seq:
		r.Event = "records " + format.Count(e.Seq) + " to " + format.Count(e.SeqEnd) + " of the log"
	default:
		r.Event = format.Safe(string(e.Raw), format.MaxTitle)
	}
	return r
}

// deadLetterList is the page that lists dead letters.
type deadLetterList struct {
	site.Layout
	Done     string // what the last form did
	Total    string
	Filters  []site.Choice
	Type     string // what the field of the type holds
	Filtered bool
	Rows     []deadRow
	Note     string // instead of rows
	First    string // link to the first page; "" on it
	Next     string
	Operate  bool
	Confirm  string
	Fields   [][2]string // that choose all that match
	Ages     []string    // of a purge
	Clear    string
}

func (dead *Handler) deadLetterListPage(c *gin.Context) {
	c.Header("Cache-Control", "no-store")
	v := dead.View()
	if dead.Opt.DLQ == nil {
		dead.Message(c, http.StatusNotImplemented, "No dead letters", "This engine does not store dead letters.")
		return
	}
	asked := c.Request.URL.Query()
	q := dlq.Query{Newest: true, Limit: shownDeadLetters, Cursor: asked.Get("cursor")}
	base := url.Values{} // what is filtered by
	for _, name := range dlqFilters {
		value := asked.Get(name)
		if value == "" {
			continue
		}
		if err := setDLQFilter(&q, name, value); err != nil {
			dead.Message(c, http.StatusBadRequest, "Invalid filter", "The filter "+name+" cannot be read: "+err.Error()+".")
			return
		}
		base.Set(name, value)
	}
	if err := checkDLQRange(&q); err != nil {
		dead.Message(c, http.StatusBadRequest, "Invalid filter", "The range cannot be read: "+err.Error()+".")
		return
	}
	p := deadLetterList{
		Layout: dead.Layout(c, v, "Dead letters", "engine"), Done: deadDone(asked), Type: format.Safe(asked.Get("type"), format.MaxName), Filtered: len(base) > 0,
		Operate: dead.Opt.May(c, site.Operate), Confirm: dead.Opt.ExternalPath + site.DeadLetterConfirmPath, Ages: []string{"1d", "7d", "30d", "90d"}, Clear: dead.Href(site.DeadLetterListPath, nil),
	}
	// The list does not refresh while its reader selects entries.
	p.Refresh, p.Stream = nil, ""
	ctx, cancel := context.WithTimeout(c.Request.Context(), deadWait)
	defer cancel()
	stats, err := dead.Opt.DLQ.Stats(ctx)
	var page dlq.Page
	if err == nil {
		page, err = dead.someDeadLetters(ctx, q)
	}
	switch {
	case errors.Is(err, dlq.ErrInvalid):
		dead.Message(c, http.StatusBadRequest, "No such page", "This page of the list does not exist. Start again at the first page.")
		return
	case err != nil:
		p.Note = dead.deadTrouble(v, err)
		dead.Page(c, http.StatusOK, "engine-dead-letters", p)
		return
	}
	p.Total = format.Count(stats.Count)
	p.Filters = []site.Choice{
		deadLetterChoice("origin", "Origin", "Every origin", stats.ByOrigin, asked), deadLetterChoice("sink", "Sink", "Every sink", stats.BySink, asked),
		deadLetterChoice("reason", "Reason", "Every reason", stats.ByReason, asked),
	}
	for i := range page.Entries {
		p.Rows = append(p.Rows, dead.newDeadRow(&page.Entries[i], v.Now))
	}
	with := func(cursor string) string {
		to := maps.Clone(base)
		if cursor != "" {
			to.Set("cursor", cursor)
		}
		return dead.Href(site.DeadLetterListPath, to)
	}
	if q.Cursor != "" {
		p.First = with("")
	}
	if page.Next != "" {
		p.Next = with(page.Next)
	}
	p.Fields = site.Hidden(base)
	if len(p.Fields) < len(base) {
		p.Fields = nil // a field left out would choose more than is shown
	} else if len(base) == 0 {
		p.Fields = [][2]string{{"all", "true"}}
	}
	switch {
	case len(p.Rows) > 0:
	case q.Cursor != "":
		p.Note = "This page has no more dead letters."
	case p.Filtered:
		p.Note = "No dead letter matches this filter."
	default:
		p.Note = "None. Every accepted event was counted and delivered."
	}
	dead.Page(c, http.StatusOK, "engine-dead-letters", p)
}

// someDeadLetters returns the next page with entries, since the store may return empty ones before the end.
func (dead *Handler) someDeadLetters(ctx context.Context, q dlq.Query) (dlq.Page, error) {
	for {
		page, err := dead.Opt.DLQ.List(ctx, q)
		if err != nil || len(page.Entries) > 0 || page.Next == "" {
			return page, err
		}
		if ctx.Err() != nil {
			return page, ctx.Err()
		}
		q.Cursor = page.Next
	}
}

func deadLetterChoice(name, label, none string, counts map[string]int64, asked url.Values) site.Choice {
	f := site.Choice{Name: name, Label: label, Any: none}
	values := slices.Sorted(maps.Keys(counts))
	if on := asked.Get(name); on != "" && !slices.Contains(values, on) {
		values = append(values, on)
	}
	for _, v := range values {
		if plainFilter(name, v) {
			f.Options = append(f.Options, site.Option{Value: v, On: v == asked.Get(name)})
		}
	}
	return f
}

// deadDone describes the result of the form that redirected here. Only numbers are taken from the address.
func deadDone(q url.Values) string {
	n := func(name string) uint64 {
		x, _ := strconv.ParseUint(q.Get(name), 10, 32) // anything but a number counts as 0
		return x
	}
	past := map[string]string{actReplay: "replayed", actDiscard: "discarded", ActPurge: "purged"}[q.Get("did")]
	if past == "" {
		return ""
	}
	s := format.Count(n("done")) + " " + past + "."
	if x := n("failed"); x > 0 {
		s += " " + format.Count(x) + " failed again and remain."
	}
	if x := n("old"); x > 0 {
		s += " " + format.Count(x) + " were too old to be replayed."
	}
	if x := n("gone"); x > 0 {
		s += " " + format.Count(x) + " no longer existed."
	}
	if n("more") > 0 {
		s += " Time ran out before all were done. Repeat the action, or use the command sloengine dlq."
	}
	return s
}

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
	List    string
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
		Layout: dead.Layout(c, v, "Dead letter", "engine"), ID: id, Reason: format.Safe(e.Reason, format.MaxTitle), Error: format.Safe(e.Error, format.MaxText), Facts: deadLetterFacts(&e, v.Now),
		Operate: dead.Opt.May(c, site.Operate), Confirm: dead.Opt.ExternalPath + site.DeadLetterConfirmPath, List: dead.Href(site.DeadLetterListPath, nil), API: dead.Opt.ExternalPath + "/api/v1/dlq/" + url.PathEscape(id),
	}
	p.Refresh, p.Stream = nil, ""
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
	origin := map[dlq.Origin]string{dlq.Admission: "refused before it reached the log", dlq.Fold: "in the log, but could not be counted", dlq.Sink: "counted, but not delivered to its sink"}[e.Origin]
	out = append(out, site.Fact{Name: "Origin", Value: format.Safe(string(e.Origin), format.MaxName), Note: origin})
	text("Sink", e.Sink)
	text("Error class", e.Class)
	if e.Attempts > 0 {
		out = append(out, site.Fact{Name: "Attempts", Value: strconv.Itoa(e.Attempts)})
	}
	at("First failure", e.First, "")
	at("Last failure", e.Last, "")
	at("Saved", e.Saved, "its age counts from here")
	switch {
	case e.SeqEnd > e.Seq:
		out = append(out, site.Fact{Name: "Log position", Value: "records " + format.Count(e.Seq) + " to " + format.Count(e.SeqEnd)})
	case e.Seq > 0:
		out = append(out, site.Fact{Name: "Log position", Value: "record " + format.Count(e.Seq), Note: "event " + strconv.Itoa(e.Index)})
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
