package web

import (
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
)

type enginePage struct {
	layout
	Text       string
	Ingest     []figure
	Sections   []section
	Dead       []deadRow
	DeadTotal  string
	DeadNote   string
	DeadHidden bool
}

type section struct {
	Name  string
	Facts []fact
}

type deadRow struct {
	At            stamp
	Origin, ID    string
	Reason, Event string
}

// shownDead is how many dead letters the page lists.
const shownDead = 20

func (w *Web) enginePage(c *gin.Context) {
	v := w.view()
	c.Header("Cache-Control", "no-store")
	e := v.eng
	p := enginePage{layout: w.layout(c, v, "Engine", "engine"), Text: stateText(e.State), Ingest: ingestFigures(e.Ingest)}

	report := []fact{{Name: "Report", Value: "none yet"}}
	if v.rep != nil {
		report = []fact{
			{Name: "Report", Value: fmt.Sprintf("number %d, %s", v.rep.Version, ago(v.rep.Time, v.now)), At: newStamp(v.rep.Time, v.now)},
			{Name: "Took", Value: v.rep.Took.Round(10 * time.Microsecond).String()},
			{Name: "SLO groups", Value: count(uint64(len(v.rep.SLOs)))},
		}
	}
	horizon := "unknown"
	if e.IDs.HorizonSeconds > 0 {
		horizon = span(time.Duration(e.IDs.HorizonSeconds * float64(time.Second)))
	}
	p.Sections = []section{
		{"Counting", append(report,
			fact{Name: "Watermark", Value: ago(e.Fold.Watermark, v.now), At: newStamp(e.Fold.Watermark, v.now), Note: "receive time of the last counted record"},
			fact{Name: "Behind the log", Value: count(e.Fold.Lag) + " records"},
			fact{Name: "Counted groups", Value: count(uint64(max(0, e.Fold.Groups)))},
			fact{Name: "Buckets in memory", Value: bytesText(e.Fold.Bytes)},
		)},
		{"Durability", []fact{
			{Name: "Log", Value: fmt.Sprintf("%s in %s", bytesText(e.Log.Bytes), plural(e.Log.Segments, "segment"))},
			{Name: "Last durable record", Value: count(e.Log.Seq)},
			{Name: "Waiting for the disk", Value: plural(e.Ingest.Queue, "request")},
			{Name: "Checkpoint", Value: ago(e.Checkpoint.Time, v.now), At: newStamp(e.Checkpoint.Time, v.now), Note: bytesText(e.Checkpoint.Bytes)},
			{Name: "Data folder", Value: show(e.Disk.Dir, shownTitle), Code: true},
			{Name: "Disk free", Value: size(e.Disk.FreeBytes), Note: "events are refused below " + size(e.Disk.LowBytes)},
		}},
		{"Known ids", []fact{
			{Name: "Ids", Value: count(e.IDs.Known)},
			{Name: "Memory", Value: bytesText(e.IDs.Bytes)},
			{Name: "Horizon", Value: horizon, Note: "a repeat is recognised for this long at the present rate"},
		}},
		{"Spec and process", []fact{
			{Name: "Spec loaded", Value: ago(e.Spec.Loaded, v.now), At: newStamp(e.Spec.Loaded, v.now)},
			{Name: "Hash", Value: show(e.Spec.Hash, shownName), Code: true},
			{Name: "SLOs", Value: count(uint64(max(0, e.Spec.SLOs)))},
			{Name: "Started", Value: ago(e.Started, v.now), At: newStamp(e.Started, v.now)},
			{Name: "Version", Value: show(w.opt.Version.Version, shownName), Note: show(w.opt.Version.Revision, shownName)},
			{Name: "Go", Value: show(w.opt.Version.Go, shownName)},
		}},
	}
	w.fillDead(c, v, &p)
	w.page(c, http.StatusOK, "engine", p)
}

func (w *Web) fillDead(c *gin.Context, v view, p *enginePage) {
	if w.opt.DeadLetters == nil {
		p.DeadHidden = true
		return
	}
	list, total, err := w.opt.DeadLetters(c.Request.Context(), shownDead)
	if err != nil {
		w.opt.LogError("list dead letters", err)
		p.DeadNote = "The dead letters could not be read now."
		return
	}
	p.DeadTotal = count(total)
	for _, d := range list {
		p.Dead = append(p.Dead, deadRow{At: newStamp(d.Time, v.now), Origin: show(d.Origin, shownName), ID: show(d.ID, shownName), Reason: show(d.Reason, shownTitle), Event: show(d.Event, shownText)})
	}
}

func bytesText(n int64) string { return size(uint64(max(0, n))) }

func plural(n int, what string) string {
	s := count(uint64(max(0, n))) + " " + what
	if n != 1 {
		s += "s"
	}
	return s
}
