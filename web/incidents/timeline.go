package incidents

import (
	"html/template"
	"strings"
	"time"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/markdown"
)

// moment is something that happened in an incident.
type moment struct {
	At    format.Stamp
	After string // since the start
	What  string
	By    string
	Tag   string
	Text  template.HTML // of a note or an update

	at time.Time
}

// Bounds of the timeline.
const (
	shownMoments = 100       // the latest
	shownText    = 256 << 10 // bytes of notes and updates that one page renders
)

// newTimeline tells what happened, in order. more is how many moments are left out at its beginning.
func newTimeline(inc *incident.Incident, now time.Time) (out []moment, more int) {
	type text struct {
		moment
		markdown string
	}
	var all []text
	add := func(at time.Time, what, by string) *text {
		all = append(all, text{moment: moment{at: at, What: what, By: format.Safe(by, format.MaxName)}})
		return &all[len(all)-1]
	}
	add(inc.Onset, "Started", "").Tag = onsetNotes[inc.OnsetBy]
	if inc.Automated {
		what := "First alert"
		if len(inc.Alerts) > 0 {
			what += ": " + format.Safe(inc.Alerts[0].Name, format.MaxName)
		}
		add(inc.Detected, what, "")
	} else {
		add(inc.Detected, "Opened by hand", inc.OpenedBy)
	}
	if paged, ok := inc.Paged(); ok && (!inc.Automated || paged.After(inc.Detected)) {
		add(paged, "First paging alert", "")
	}
	if a := inc.Ack; a != nil {
		m := add(a.Time, "Acknowledged", a.By)
		m.Tag = ackNotes[a.How]
		if a.Team != "" {
			m.By += " (" + format.Safe(a.Team, format.MaxName) + ")"
		}
	}
	for i := range inc.Notes {
		n := &inc.Notes[i]
		add(n.Time, "Note", n.By).markdown = n.Text
	}
	for i := range inc.Updates {
		u := &inc.Updates[i]
		what := "Update"
		if u.Status != "" {
			what += ", " + string(u.Status)
		}
		m := add(u.Time, what, u.By)
		if m.markdown = u.Text; u.Public {
			m.Tag = "public"
		}
	}
	for _, e := range inc.Edits {
		var fields []string
		for _, f := range [][2]string{{"title", e.Title}, {"severity", string(e.Severity)}, {"owner", e.Owner}} {
			if f[1] != "" {
				fields = append(fields, f[0]+" "+format.Safe(f[1], format.MaxTitle))
			}
		}
		add(e.Time, "Changed: "+strings.Join(fields, ", "), e.By)
	}
	if r := inc.Resolved; r != nil {
		m := add(r.Time, "Resolved", r.By)
		if r.Automated {
			m.Tag = "with its alerts"
		}
	}
	order.By(all, func(a, b *text) int { return a.at.Compare(b.at) })
	more = max(0, len(all)-shownMoments)
	all = all[more:]
	left := shownText
	for i := range all {
		left -= len(all[i].markdown)
	}
	for left < 0 {
		left += len(all[0].markdown)
		all, more = all[1:], more+1
	}
	for _, x := range all {
		x.At, x.After = format.NewStamp(x.at, now), format.Duration(x.at.Sub(inc.Onset))
		if x.markdown != "" {
			x.Text = markdown.Render(x.markdown)
		}
		out = append(out, x.moment)
	}
	return out, more
}

// ackNotes say how an incident was acknowledged.
var ackNotes = map[string]string{
	incident.ByLink: "by the link in a notification",
	incident.ByAPI:  "over the API",
	incident.ByPage: "on this page",
}
