package web

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/deadletters"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

// engineHandler serves the page about the engine itself: what comes in, what is on disk, how its parts do, what was
// rejected, and in a view of several engines, each of them. It shows status.Engine and computes nothing but rates of
// the last hour, of which it keeps samples.
type engineHandler struct {
	*site.Site
	dead  *deadletters.Handler
	rates rateRing
}

type enginePage struct {
	site.Layout
	Now      time.Time
	Text     string
	Progress chart.Gauge // of the recovery; Class "" if there is none
	Degraded []string
	Findings []string // what makes numbers wrong
	Rate     rateChart
	Ingest   []site.Figure
	Disk     diskBar
	Sections []section
	Problems []string // of the last reload of the spec
	Parts    partsView
	Parked   *parkedPart
	Rejects  []rejectRow
	Unknown  *unknownPart
	Seen     *seenPart            // nil: all spans are counted
	Dead     *deadletters.Summary // nil: there is no dead-letter store
}

type section struct {
	Name  string
	Facts []site.Fact
}

func (h *engineHandler) page(c *gin.Context) {
	v := h.EngineView()
	c.Header("Cache-Control", "no-store")
	e := v.Eng
	if e.Fleet != nil {
		h.fleetPage(c, v)
		return
	}
	p := enginePage{
		Layout: h.Layout(c, v, "Engine", "engine"), Now: v.Now, Text: status.StateText(e.State),
		Rate: h.rateChart(v), Ingest: intake(&e),
		Disk: newDiskBar(e.Disk), Parts: newPartsView(&e, v.Now),
	}
	if e.State == status.Recovering {
		p.Progress = chart.NewGauge(e.Progress, "ok", format.Percent(e.Progress, 0)+" of the log replayed")
	}
	window := "unknown"
	if e.IDs.WindowSeconds > 0 {
		window = format.Duration(format.Seconds(e.IDs.WindowSeconds))
	}
	p.Sections = []section{
		{"Counting", append(reportFacts(v),
			site.Fact{Name: "Watermark", Value: format.Ago(e.Fold.Watermark, v.Now),
				At: format.NewStamp(e.Fold.Watermark, v.Now), Note: "receive time of the last counted record"},
			site.Fact{Name: "Behind the log", Value: format.Plural(e.Fold.Lag, "record")},
			site.Fact{Name: "Counted groups", Value: format.Count(e.Fold.Groups),
				Note: format.Bytes(e.Fold.Bytes) + " of buckets"},
		)},
		{"Log and checkpoint", []site.Fact{
			{Name: "Log", Value: fmt.Sprintf("%s in %s", format.Bytes(e.Log.Bytes), format.Plural(e.Log.Segments, "segment"))},
			{Name: "Last durable record", Value: format.Count(e.Log.Seq)},
			{Name: "Waiting for the disk", Value: format.Plural(e.Ingest.Queue, "request")},
			{Name: "Checkpoint", Value: format.Ago(e.Checkpoint.Time, v.Now), At: format.NewStamp(e.Checkpoint.Time, v.Now),
				Note: format.Bytes(e.Checkpoint.Bytes)},
			{Name: "History", Value: historyText(&e.Log, v.Now), At: format.NewStamp(e.Log.HistoryFrom, v.Now),
				Note: "the log behind the last checkpoint"},
			{Name: "Rebuild", Value: rebuildText(e.Rebuild), Note: "counts of changed definitions, from the history"},
			{Name: "Data directory", Value: format.Safe(e.Disk.Dir, format.MaxTitle), Code: true},
		}},
		{"Deduplication table", []site.Fact{
			{Name: "Ids", Value: format.Count(e.IDs.Known), Note: format.Bytes(e.IDs.Bytes) + " of memory"},
			{Name: "Dedup window", Value: window, Note: "how far back a duplicate is recognised at the current event rate"},
		}},
		{"Spec and process", append(h.processFacts(v), changeFacts(e.Spec.Change, v.Now)...)},
	}
	p.Sections = append(p.Sections, forecastSection(v)...)
	p.Parked = h.parkedPart(v)
	for _, d := range e.Degraded(v.Now) {
		p.Degraded = append(p.Degraded, strings.TrimSpace(d.Part+" "+d.Name)+": "+d.Reason)
	}
	if h.Opt.Findings != nil {
		for _, f := range h.Opt.Findings() {
			p.Findings = append(p.Findings, f.Text())
		}
	}
	if h.Opt.Rejects != nil {
		p.Rejects, p.Unknown = newRejectRows(h.Opt.Rejects()), newUnknownPart(h.Opt.Unknown())
	}
	if h.Opt.Seen != nil {
		p.Seen = newSeenPart(h.Opt.Seen(), h.ExternalURL(c.Request))
	}
	if h.Opt.DLQ != nil {
		p.Dead = h.dead.Summarise(c, v)
	}
	h.Page(c, http.StatusOK, "engine", p)
}

// reportFacts are those of the latest report.
func reportFacts(v site.View) []site.Fact {
	if v.Rep == nil {
		return []site.Fact{{Name: "Report", Value: "none yet"}}
	}
	return []site.Fact{
		{Name: "Report", Value: fmt.Sprintf("number %d, %s", v.Rep.Version, format.Ago(v.Rep.Time, v.Now)),
			At: format.NewStamp(v.Rep.Time, v.Now)},
		{Name: "Took", Value: v.Rep.Took.Round(10 * time.Microsecond).String()},
		{Name: "SLO groups", Value: format.Count(len(v.Rep.SLOs))},
	}
}

// processFacts are those of the spec in force and of the process.
func (h *engineHandler) processFacts(v site.View) []site.Fact {
	e := &v.Eng
	return []site.Fact{
		{Name: "Spec loaded", Value: format.Ago(e.Spec.Loaded, v.Now), At: format.NewStamp(e.Spec.Loaded, v.Now),
			Note: format.Plural(e.Spec.SLOs, "SLO")},
		{Name: "Hash", Value: format.Safe(e.Spec.Hash, format.MaxName), Code: true},
		{Name: "Started", Value: format.Ago(e.Started, v.Now), At: format.NewStamp(e.Started, v.Now)},
		{Name: "Version", Value: format.Safe(h.Opt.Version.Version, format.MaxName),
			Note: strings.TrimSpace(
				format.Safe(h.Opt.Version.Revision, format.MaxName) + " " + format.Safe(h.Opt.Version.Go, format.MaxName))},
	}
}

// intake counts the outcomes of events since the start. Outcomes of rate limits are left out if there are none.
func intake(e *status.Engine) []site.Figure {
	i := e.Arrived()
	out := ingestFigures(i)
	if len(e.Limits) == 0 && i.Limited+i.Sampled+i.DeadLettered == 0 {
		return out
	}
	f := func(name string, n uint64, note string) site.Figure {
		return site.Figure{Name: name, Value: format.Compact(n), Title: format.Count(n), Note: note, Bad: false}
	}
	return append(out,
		f("Limited", i.Limited, "over a rate limit: dropped or throttled"),
		f("Sampled", i.Sampled, "over a rate limit: represented by reweighted events"),
		f("Dead-lettered", i.DeadLettered, "over a rate limit, saved as dead letters"))
}

func ingestFigures(i status.IngestStatus) []site.Figure {
	f := func(name string, n uint64, note string, bad bool) site.Figure {
		return site.Figure{Name: name, Value: format.Compact(n), Title: format.Count(n), Note: note, Bad: bad && n > 0}
	}
	return []site.Figure{
		f("Accepted", i.Accepted, "durable and counted", false),
		f("Duplicate", i.Duplicates, "id already accepted, not counted again", false),
		f("Late", i.Late, "counted in the minute they happened", false),
		f("Rejected", i.Rejected, "invalid, not accepted", true),
		f("Refused", i.Refused, "accepted but not countable: dead letters", true),
	}
}

// diskBar shows the free space of the disk and the mark below which no events are
// taken. Where the size of the disk is unknown it ends at four times the mark.
type diskBar struct {
	Gauge chart.Gauge
	Low   string // place of the mark, per cent
	Free  string
	Text  string
}

func newDiskBar(d status.DiskStatus) diskBar {
	full := float64(d.TotalBytes)
	of := " of " + format.Bytes(d.TotalBytes)
	if d.TotalBytes == 0 {
		full, of = 4*float64(d.LowBytes), ""
	}
	b := diskBar{Gauge: chart.NewGauge(1, "ok", ""), Free: format.Bytes(d.FreeBytes) + of}
	if full > 0 {
		b.Gauge = chart.NewGauge(float64(d.FreeBytes)/full, "ok", "")
	}
	if d.LowBytes == 0 {
		b.Text = "No low-water mark is set: a full disk is only noticed when a write fails."
	} else {
		b.Low = chart.Coord(100 * min(1, float64(d.LowBytes)/full))
		b.Text = "New events are refused below the low-water mark of " + format.Bytes(d.LowBytes) + "."
		switch {
		case d.FreeBytes < d.LowBytes:
			b.Gauge.Class, b.Text = "bad", "Free space is below the low-water mark of "+format.Bytes(d.LowBytes)+
				": new events are refused until space is freed."
		case d.FreeBytes < 2*d.LowBytes:
			b.Gauge.Class, b.Text = "risk", "New events are refused below the low-water mark of "+format.Bytes(d.LowBytes)+
				". Free space, or move the data directory to a larger disk."
		}
	}
	b.Gauge.Label = b.Free + " free. " + b.Text
	return b
}

// rebuildText says which SLOs are being rebuilt.
func rebuildText(p *counting.RebuildProgress) string {
	if p == nil {
		return "none"
	}
	text := "waiting: " + idText(p.Waiting)
	if len(p.SLOs) > 0 {
		text = format.And(p.SLOs) + ", " + format.Percent(p.Share, 0)
	}
	if len(p.Held) > 0 {
		text += ". Earlier definitions in force until then: " + idText(p.Held)
	}
	if p.Failing != "" {
		text += ". Failing, tried again each minute: " + format.Safe(p.Failing, format.MaxText)
	}
	return text
}

// historyText says how much of the log is retained, and since when.
func historyText(l *status.LogStatus, now time.Time) string {
	if l.HistoryFrom.IsZero() {
		return "none"
	}
	text := format.Bytes(l.HistoryBytes) + ", from " + format.Ago(l.HistoryFrom, now)
	switch {
	case l.HistoryShort != "":
		text += ". The " + format.Safe(l.HistoryShort, format.MaxText)
	case l.HistoryLeft > 0:
		text += ". The oldest are deleted in " + format.Duration(format.Seconds(l.HistoryLeft)) + " at this rate"
	}
	return text
}
