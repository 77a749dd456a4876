package web

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
)

type enginePage struct {
	layout
	Text     string
	Progress gauge // of the recovery; Class "" if there is none
	Degraded []string
	Rate     rateChart
	Ingest   []figure
	Disk     diskBar
	Sections []section
	Problems []string // of the last reload of the spec
	Parts    partsView
	Parked   *parkedPart
	Dead     *deadPart // nil: there is no dead-letter store
}

type section struct {
	Name  string
	Facts []fact
}

func (w *Web) enginePage(c *gin.Context) {
	v := w.view()
	c.Header("Cache-Control", "no-store")
	e := v.eng
	p := enginePage{
		layout: w.layout(c, v, "Engine", "engine"), Text: stateText(e.State), Rate: w.rateChart(v), Ingest: intake(&e),
		Disk: newDiskBar(e.Disk), Parts: newPartsView(&e, v.now),
	}
	if e.State == Recovering {
		p.Progress = gauge{coord(100 * min(1, max(0, e.Progress))), "ok", percent(e.Progress, 0) + " of the log replayed"}
	}
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
		horizon = span(seconds(e.IDs.HorizonSeconds))
	}
	p.Sections = []section{
		{"Counting", append(report,
			fact{Name: "Watermark", Value: ago(e.Fold.Watermark, v.now), At: newStamp(e.Fold.Watermark, v.now), Note: "receive time of the last counted record"},
			fact{Name: "Behind the log", Value: plural64(e.Fold.Lag, "record")},
			fact{Name: "Counted groups", Value: count(uint64(max(0, e.Fold.Groups))), Note: bytesText(e.Fold.Bytes) + " of buckets"},
		)},
		{"Log and checkpoint", []fact{
			{Name: "Log", Value: fmt.Sprintf("%s in %s", bytesText(e.Log.Bytes), plural(e.Log.Segments, "segment"))},
			{Name: "Last durable record", Value: count(e.Log.Seq)},
			{Name: "Waiting for the disk", Value: plural(e.Ingest.Queue, "request")},
			{Name: "Checkpoint", Value: ago(e.Checkpoint.Time, v.now), At: newStamp(e.Checkpoint.Time, v.now), Note: bytesText(e.Checkpoint.Bytes)},
			{Name: "Data folder", Value: show(e.Disk.Dir, shownTitle), Code: true},
		}},
		{"Known ids", []fact{
			{Name: "Ids", Value: count(e.IDs.Known), Note: bytesText(e.IDs.Bytes) + " of memory"},
			{Name: "Horizon", Value: horizon, Note: "a repeat is recognised for this long at the present rate"},
		}},
		{"Spec and process", []fact{
			{Name: "Spec loaded", Value: ago(e.Spec.Loaded, v.now), At: newStamp(e.Spec.Loaded, v.now), Note: plural(e.Spec.SLOs, "SLO")},
			{Name: "Hash", Value: show(e.Spec.Hash, shownName), Code: true},
			{Name: "Started", Value: ago(e.Started, v.now), At: newStamp(e.Started, v.now)},
			{Name: "Version", Value: show(w.opt.Version.Version, shownName), Note: strings.TrimSpace(show(w.opt.Version.Revision, shownName) + " " + show(w.opt.Version.Go, shownName))},
		}},
	}
	last := &p.Sections[len(p.Sections)-1]
	last.Facts = append(last.Facts, changeFacts(e.Spec.Change, v.now)...)
	p.Parked = w.parkedPart(v)
	for _, d := range e.degraded(v.now) {
		p.Degraded = append(p.Degraded, strings.TrimSpace(d.Part+" "+d.Name)+": "+d.Reason)
	}
	if w.opt.DLQ != nil {
		p.Dead = w.deadPart(c, v)
	}
	w.page(c, http.StatusOK, "engine", p)
}

// intake are the figures of what became of events since the start. Those of the rate
// limits stay away where there are none.
func intake(e *EngineStatus) []figure {
	i := &e.Ingest
	out := ingestFigures(*i)
	if len(e.Limits) == 0 && i.Limited+i.Sampled+i.DeadLettered == 0 {
		return out
	}
	f := func(name string, n uint64, note string) figure {
		return figure{name, compact(n), count(n), note, false}
	}
	return append(out,
		f("Limited", i.Limited, "over a limit: dropped or put off"),
		f("Sampled", i.Sampled, "over a limit: others stand for them"),
		f("Dead-lettered", i.DeadLettered, "over a limit, too important to lose"))
}

// diskBar shows the free space of the disk and the mark below which no events are
// taken. Where the size of the disk is unknown it ends at four times the mark.
type diskBar struct {
	Gauge gauge
	Low   string // place of the mark, per cent
	Free  string
	Text  string
}

func newDiskBar(d DiskStatus) diskBar {
	full := float64(d.TotalBytes)
	of := " of " + size(d.TotalBytes)
	if d.TotalBytes == 0 {
		full, of = 4*float64(d.LowBytes), ""
	}
	b := diskBar{Gauge: gauge{Width: "100", Class: "ok"}, Free: size(d.FreeBytes) + of}
	if full > 0 {
		b.Gauge.Width = coord(100 * min(1, float64(d.FreeBytes)/full))
	}
	if d.LowBytes == 0 {
		b.Text = "Low water is not guarded: a full disk is noticed when it is full."
	} else {
		b.Low = coord(100 * min(1, float64(d.LowBytes)/full))
		b.Text = "Below " + size(d.LowBytes) + ", the mark, no more events are taken."
		switch {
		case d.FreeBytes < d.LowBytes:
			b.Gauge.Class, b.Text = "bad", "This is below the low-water mark of "+size(d.LowBytes)+": no events are taken until there is room."
		case d.FreeBytes < 2*d.LowBytes:
			b.Gauge.Class, b.Text = "risk", "Below "+size(d.LowBytes)+", the mark, no more events are taken. Make room, or move the data folder to a larger disk."
		}
	}
	b.Gauge.Label = b.Free + " free. " + b.Text
	return b
}

func bytesText(n int64) string { return size(uint64(max(0, n))) }

func plural(n int, what string) string { return plural64(uint64(max(0, n)), what) }

func plural64(n uint64, what string) string {
	s := count(n) + " " + what
	if n != 1 {
		s += "s"
	}
	return s
}
