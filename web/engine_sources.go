package web

import (
	"fmt"
	"strings"
	"time"

	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

// shownTopics is how many topics of a source the page lists.
const shownTopics = 20

// sourceMark says how a source does, the worst first.
func sourceMark(s *status.SourceStatus) chart.Mark {
	lost := 0
	for _, t := range s.Troubles {
		if t.Kind == "position" || t.Kind == "commit" {
			lost++
		}
	}
	switch {
	case s.Paused:
		return chart.Risk("paused")
	case len(s.Troubles) > lost:
		return chart.Bad("failing")
	case lost > 0:
		return chart.Risk("see below")
	case s.LastBatch.IsZero():
		return chart.None("no message yet")
	}
	return chart.OK("reading")
}

func newSourceView(s *status.SourceStatus, now time.Time) sinkView {
	v := sinkView{Mark: sourceMark(s), Name: format.Safe(s.Name, format.MaxName),
		Kind: format.Safe(s.Kind, format.MaxName)}
	v.Facts = []site.Fact{
		{Name: "Read", Value: format.Plural(s.Messages, "message") + ", " + format.Bytes(int64(s.Bytes)),
			Note: "since the start"},
		{Name: "Events", Value: format.Count(s.Accepted) + " accepted", Note: eventNotes(s)},
		behindFact(s),
		{Name: "Last batch", Value: format.Ago(s.LastBatch, now), At: format.NewStamp(s.LastBatch, now)},
	}
	for i, t := range s.Topics {
		if i == shownTopics {
			v.Facts = append(v.Facts, site.Fact{Name: "Topics", Value: fmt.Sprintf("and %d more", len(s.Topics)-i)})
			break
		}
		v.Facts = append(v.Facts, site.Fact{
			Name: "Topic", Value: format.Safe(t.Name, format.MaxTitle), Code: true,
			Note: fmt.Sprintf("%d of %s here, %s behind", t.Owned, format.Plural(t.Partitions, "partition"),
				format.Plural(uint64(max(0, t.Lag)), "message")),
		})
	}
	if t := s.Table; t != nil {
		note := fmt.Sprintf("way %s, the oldest row behind is %s old", format.Safe(t.Way, format.MaxName),
			format.Duration(secondsOf(t.OldestSeconds)))
		if t.Held > 0 {
			note += fmt.Sprintf(", %s held back by an open transaction for %s", format.Plural(uint64(t.Held), "row"),
				format.Duration(secondsOf(t.HeldSeconds)))
		}
		v.Facts = append(
			v.Facts, site.Fact{Name: "Table", Value: format.Safe(t.Name, format.MaxTitle), Code: true, Note: note})
	}
	for _, t := range s.Troubles {
		name := strings.ReplaceAll(format.Safe(string(t.Kind), format.MaxName), "_", " ")
		if t.Name != "" {
			name += " " + format.Safe(t.Name, format.MaxName)
		}
		v.Facts = append(v.Facts, site.Fact{
			Name: "Trouble", Value: name + ", for " + format.Duration(max(0, now.Sub(t.Since))),
			At:   format.NewStamp(t.Since, now),
			Note: format.Safe(t.Brief, format.MaxTitle) + " (" + format.Safe(t.Reason, format.MaxTitle) + ")",
		})
	}
	return v
}

// behindFact says how much a source has to read yet.
func behindFact(s *status.SourceStatus) site.Fact {
	r := s.Reading
	switch {
	case r == nil:
		return site.Fact{Name: "Behind", Value: format.Plural(uint64(max(0, s.Lag)), "message")}
	case r.Complete >= r.Indicators:
		return site.Fact{Name: "History", Value: "read", Note: format.Plural(r.Indicators, "indicator") + " up to now"}
	}
	f := site.Fact{Name: "History", Value: format.Percent(r.Share, 1) + " read",
		Note: fmt.Sprintf("%d of %s up to now", r.Complete, format.Plural(r.Indicators, "indicator"))}
	if r.LeftSeconds > 0 {
		f.Note += ", about " + format.Duration(secondsOf(r.LeftSeconds)) + " left"
	}
	return f
}

func secondsOf(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// eventNotes are the outcomes besides accepted.
func eventNotes(s *status.SourceStatus) string {
	var out []string
	for _, x := range []struct {
		n    uint64
		name string
	}{{s.Duplicates, "duplicates"}, {s.Rejected, "rejected"}, {s.Expired, "older than any window"},
		{s.DeadLetters, "dead letters"}} {
		if x.n > 0 {
			out = append(out, format.Count(x.n)+" "+x.name)
		}
	}
	return strings.Join(out, ", ")
}
