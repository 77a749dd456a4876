package ui

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

// counted are the facts of a ratio, an apdex or a volume: what its counts are made of, and how far its present period
// is.
func counted(r *sla.SLOReport, now time.Time) []site.Fact {
	var fs []site.Fact
	if r.Parts != nil {
		for i, name := range r.SLO.Indicator.Kind.PartNames() {
			if i < len(r.Parts.Period) {
				fs = append(fs, site.Fact{Name: strings.ToUpper(name[:1]) + name[1:] + " in the period",
					Value: format.Count(r.Parts.Period[i])})
			}
		}
	}
	v := r.Volume
	if v == nil {
		return fs
	}
	name := "Present " + string(r.SLO.Indicator.Calendar)
	if !now.Before(v.To) {
		name = "Last " + string(r.SLO.Indicator.Calendar)
	}
	note := fmt.Sprintf("%s expected by now", format.Count(uint64(v.Expected)))
	if v.Usual == 0 {
		note += ", by the time that is over"
	}
	if v.Events >= v.Target {
		note = "reached"
	} else if !now.Before(v.To) {
		note = "missed"
	}
	fs = append(fs, site.Fact{
		Name: name, Value: fmt.Sprintf("%s of %s events", format.Count(v.Events), format.Count(v.Target)), Note: note})
	if !v.Missed.From.IsZero() {
		fs = append(fs, site.Fact{Name: "Last missed", Value: v.Missed.From.In(r.SLO.Indicator.Location).Format("2006-01-02"),
			Note: fmt.Sprintf("%s events", format.Count(v.MissedEvents))})
	}
	return fs
}

// seriesFacts say what is counted of series of Prometheus.
func seriesFacts(ind *slo.Indicator) []site.Fact {
	text := func(name, query string) site.Fact {
		return site.Fact{Name: name, Value: format.Safe(query, format.MaxText), Code: true}
	}
	evaluated := site.Fact{Name: "Evaluated", Value: "every " + slo.FormatDuration(ind.PromEvery) + " as time slices"}
	part, query := "Bad", ind.PromBad+ind.PromBadQuery
	if ind.PromGood+ind.PromGoodQuery != "" {
		part, query = "Good", ind.PromGood+ind.PromGoodQuery
	}
	switch ind.PromForm() {
	case slo.PromQueries:
		if ind.PromEvery == 0 {
			evaluated = site.Fact{Name: "Counted", Value: "native histograms as they are received"}
		} else {
			evaluated.Note = "with as many events as the rates say, else 10,000 counts each"
		}
		return []site.Fact{text("Query of all", ind.PromTotalQuery), text("Query of the "+strings.ToLower(part), query),
			evaluated}
	case slo.PromRatio:
		evaluated.Note = "of 10,000 counts each"
		return []site.Fact{text("Query of the bad share", ind.PromErrorRatioQuery), evaluated}
	case slo.PromThreshold:
		evaluated.Note = "that count 1 each"
		return []site.Fact{text("Query", ind.PromQuery), {Name: "Good sample",
			Value: string(ind.PromOp) + " " + strconv.FormatFloat(ind.PromValue, 'g', -1, 64)}, evaluated}
	}
	return []site.Fact{text("All series", ind.PromTotal), text(part+" series", query)}
}

// besidePart is why increase() says another number than an SLO on the counters of a Prometheus.
type besidePart struct {
	Since   format.Stamp // the source counts them
	Facts   []site.Fact
	Command string
}

// newBeside shows what the source found as it read. What increase() says of the window is for the command to ask, which
// has to read all samples: that is too much for a page.
func (ui *Handler) newBeside(r *sla.SLOReport, now time.Time) *besidePart {
	if ui.Opt.Counters == nil || r.SLO.Indicator.PromForm() != slo.PromCounters {
		return nil
	}
	servers := ui.Opt.Counters(r.SLO.ID)
	if len(servers) == 0 {
		return nil
	}
	b := &besidePart{Since: format.NewStamp(servers[0].Began, now)}
	fact := func(name string, n uint64, what, note string) {
		b.Facts = append(b.Facts, site.Fact{Name: name, Value: format.Plural(n, what), Note: note})
	}
	c, prometheus := servers[0], " --prometheus "+shell(servers[0].URL)
	if len(servers) > 1 { // the command asks each of them
		c, prometheus = sumOf(servers), ""
		for i := range servers {
			one := &servers[i]
			note := fmt.Sprintf("of %s, with %s and %s", format.Safe(one.URL, format.MaxTitle),
				format.Plural(one.Resets, "reset"), format.Plural(one.Gaps, "gap"))
			if one.Left != "" {
				note += "; " + format.Safe(one.Left, format.MaxText)
			}
			fact(fmt.Sprintf("Server %d", i+1), one.Samples, "sample", note)
		}
	}
	fact("Read", c.Samples, "sample", "at most "+slo.FormatDuration(secondsOf(c.ScrapeSeconds))+" apart")
	fact("Began", c.NewSeries, "more counter",
		format.Count(c.FirstValues)+" in their first values, which increase() leaves out")
	fact("Fell", c.Resets, "time", format.Count(c.AfterResets)+" since then, which both count")
	fact("Gaps", c.Gaps, "gap",
		format.Count(c.InGaps)+" in their middles; increase() extrapolates at the ends of a window")
	if c.Cut > 0 {
		note := "the last ones at " + format.NewStamp(c.CutAt, now).Text
		if c.CutGroup != "" {
			note += " of " + format.Safe(c.CutGroup, format.MaxTitle)
		}
		fact("Not counted", c.Cut, "event", "more than there are in all, "+note)
	}
	from := now.Add(-24 * time.Hour)
	if r.Period.From.After(from) {
		from = r.Period.From
	}
	b.Command = fmt.Sprintf("sloengine reconcile --url %s --slo %s%s --from %s --to %s",
		shell(ui.Opt.ExternalURL), shell(string(r.SLO.ID)), prometheus, from.UTC().Format(time.RFC3339),
		now.UTC().Format(time.RFC3339))
	return b
}

// sumOf is what all servers have together.
func sumOf(servers []status.SourceCounters) (sum status.SourceCounters) {
	for i := range servers {
		c := &servers[i]
		sum.ScrapeSeconds = max(sum.ScrapeSeconds, c.ScrapeSeconds)
		sum.Samples += c.Samples
		sum.NewSeries, sum.FirstValues = sum.NewSeries+c.NewSeries, sum.FirstValues+c.FirstValues
		sum.Resets, sum.AfterResets = sum.Resets+c.Resets, sum.AfterResets+c.AfterResets
		sum.Gaps, sum.InGaps = sum.Gaps+c.Gaps, sum.InGaps+c.InGaps
		if sum.Cut += c.Cut; c.CutAt.After(sum.CutAt) {
			sum.CutAt, sum.CutGroup = c.CutAt, c.CutGroup
		}
	}
	return sum
}

func secondsOf(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// shell quotes a word for a shell, if it has to be.
func shell(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/:._-@%+,="
	s = format.Safe(s, format.MaxText)
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
