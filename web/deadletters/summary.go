package deadletters

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
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
		p.Damage = fmt.Sprintf("%s in the files cannot be read: %s, at most %s lost.", format.Plural(stats.Damaged, "place"),
			format.Bytes(l.Bytes), format.Plural(l.Entries, "dead letter"))
		if !l.From.IsZero() && !l.To.IsZero() {
			p.Damage += " The unreadable part was written between " + l.From.Format("2006-01-02 15:04:05Z") + " and " +
				l.To.Format("2006-01-02 15:04:05Z") + "."
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
	return value != "" && value != "(other)" && format.Safe(value, maxFilterText) == value &&
		setDLQFilter(&dlq.Query{}, name, value) == nil
}

func (dead *Handler) newDeadRow(e *dlq.Entry, now time.Time) deadRow {
	r := deadRow{
		At: format.NewStamp(e.Saved, now), Origin: format.Safe(string(e.Origin), format.MaxName),
		Sink: format.Safe(e.Sink, format.MaxName), Reason: format.Safe(e.Reason, format.MaxTitle),
		Why:   format.Safe(e.Error, format.MaxTitle),
		Type:  format.Safe(strings.TrimPrefix(e.Service+" / "+e.Type, " / "), format.MaxName),
		Event: format.Safe(string(e.Event), format.MaxTitle),
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
