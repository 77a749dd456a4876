package deadletters

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

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
		Layout: dead.Layout(c, v, "Dead letters", "engine"), Done: deadDone(asked),
		Type: format.Safe(asked.Get("type"), format.MaxName), Filtered: len(base) > 0,
		Operate: dead.Opt.May(c, site.Operate), Confirm: dead.Opt.ExternalPath + site.DeadLetterConfirmPath,
		Ages: []string{"1d", "7d", "30d", "90d"}, Clear: dead.Href(site.DeadLetterListPath, nil),
	}
	p.Crumbs = dead.crumbs("")
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
		dead.Message(c, http.StatusBadRequest, "No such page",
			"This page of the list does not exist. Start again at the first page.")
		return
	case err != nil:
		p.Note = dead.deadTrouble(v, err)
		dead.Page(c, http.StatusOK, "engine-dead-letters", p)
		return
	}
	p.Total = format.Count(stats.Count)
	p.Filters = []site.Choice{
		deadLetterChoice("origin", "Origin", "Every origin", stats.ByOrigin, asked),
		deadLetterChoice("sink", "Sink", "Every sink", stats.BySink, asked),
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

// crumbs is the way to one page of the dead letters; what is "" for the list itself.
func (dead *Handler) crumbs(what string) []site.Link {
	way := []site.Link{{Text: "Engine", Href: dead.Href("/engine", nil)}}
	if what == "" {
		return append(way, site.Link{Text: "Dead letters"})
	}
	return append(way, dead.Crumb("Dead letters", site.DeadLetterListPath, what)...)
}
