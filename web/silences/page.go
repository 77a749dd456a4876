package silences

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/alerts/silence"
	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// listPage lists the silences: those that hold, those that will, and those that ended within five days.
type listPage struct {
	site.Layout
	Done     string // what the last form did
	Verdict  chart.Mark
	Headline string
	Scope    string
	Idle     string // why silences have no effect; "" if they have
	Rows     []row
	More     int
	New      string // address of the form that adds one; "" if the reader may not
	Action   string // of the form that expires one; "" if the reader may not
	API      string

	HasPreviews bool // the settings ask for them
	Previews    []preview
}

// preview is a message that a receiver got, or would have got.
type preview struct {
	At            format.Stamp
	Receiver      string
	Mark          chart.Mark
	Subject, Text string
}

// row is a silence in the list.
type row struct {
	ID       string
	Mark     chart.Mark
	Matchers string
	Comment  string
	Author   string
	Starts   format.Stamp
	Ends     format.Stamp
	Left     string // until it ends; "" unless it holds
	Hides    string // how many alerts that fire now
	Expire   bool   // it can be
}

const shownSilences = 200

// idle is what a page says when silences have no effect.
const idle = "This engine has no receivers of its own, so silences have no effect here. If an Alertmanager notifies " +
	"people of these alerts, silence them there."

// ready sends a page if the engine keeps no silences.
func (h *Handler) ready(c *gin.Context) bool {
	c.Header("Cache-Control", "no-store")
	if h.Opt.Silences == nil {
		h.Message(c, http.StatusNotImplemented, "No silences", "This engine does not store silences.")
		return false
	}
	return true
}

// doneTexts say what the form did that redirected to the list.
var doneTexts = map[string]string{doAdd: "The silence was added.", doExpire: "The silence was expired."}

func (h *Handler) listPage(c *gin.Context) {
	if !h.ready(c) {
		return
	}
	v := h.View()
	site.RefreshHeader(c)
	p := listPage{
		Layout: h.Layout(c, v, "Silences", "silences"), Done: doneTexts[c.Query("did")], API: h.Opt.ExternalPath + Path,
		Verdict: chart.OK(""), Headline: "No alert is silenced",
	}
	may := h.Opt.May(c, site.Operate)
	if may {
		p.Action = h.Opt.ExternalPath + formPath
		site.FormPage(c)
	}
	switch {
	case !h.Opt.Silences.HasReceivers():
		p.Idle, p.Verdict, p.Headline = idle, chart.None(""), "Silences have no effect on this engine"
	case may:
		p.New = h.Opt.ExternalPath + site.NewSilencePath
	}
	all := h.Opt.Silences.Silences()
	rank := func(s *silence.Silence) int {
		return slices.Index([]silence.State{silence.Active, silence.Pending, silence.Expired}, s.State(v.Now))
	}
	order.By(all, func(a, b *silence.Silence) int {
		x := rank(a)
		if x != rank(b) {
			return x - rank(b)
		}
		switch a.State(v.Now) {
		case silence.Active:
			return a.Ends.Compare(b.Ends)
		case silence.Pending:
			return a.Starts.Compare(b.Starts)
		}
		return b.Ends.Compare(a.Ends)
	})
	active, pending := 0, 0
	for i := range all {
		switch all[i].State(v.Now) {
		case silence.Active:
			active++
		case silence.Pending:
			pending++
		}
		if len(p.Rows) == shownSilences {
			p.More++
			continue
		}
		p.Rows = append(p.Rows, h.newRow(&all[i], v, may))
	}
	if hidden := h.hidden().all; hidden > 0 {
		p.Verdict, p.Headline = chart.Wait(""),
			cmp.Or(map[int]string{1: "1 firing alert is silenced"}[hidden], format.Count(hidden)+" firing alerts are silenced")
	}
	p.Scope = "Active: " + format.Count(active) + ". Pending: " + format.Count(pending) + "."
	h.fillPreviews(&p, v)
	h.Page(c, http.StatusOK, "silences", p)
}

func (h *Handler) fillPreviews(p *listPage, v site.View) {
	list, on := h.Opt.Silences.Previews()
	p.HasPreviews = on
	for _, m := range list {
		out := preview{At: format.NewStamp(m.At, v.Now), Receiver: format.Safe(m.Receiver, format.MaxName),
			Mark: chart.Bad("firing"), Subject: format.Safe(m.Subject, format.MaxText)}
		for line := range strings.Lines(m.Text) {
			out.Text += format.Safe(strings.TrimRight(line, "\n"), format.MaxText) + "\n"
		}
		if m.Resolved {
			out.Mark = chart.OK("resolved")
		}
		p.Previews = append(p.Previews, out)
	}
}

func (h *Handler) newRow(s *silence.Silence, v site.View, may bool) row {
	status := h.status(*s)
	r := row{
		ID: s.ID, Mark: chart.None(string(status.State)), Matchers: format.Safe(s.Matchers, format.MaxText),
		Comment: format.Safe(s.Comment, format.MaxText),
		Author:  format.Safe(s.Author, format.MaxName), Starts: format.NewStamp(s.Starts, v.Now),
		Ends: format.NewStamp(s.Ends, v.Now), Hides: format.NoValue,
		Expire: may && status.State != silence.Expired,
	}
	if status.State == silence.Active {
		r.Mark, r.Left, r.Hides = chart.Wait(string(status.State)), format.Duration(s.Ends.Sub(v.Now)),
			format.Count(status.Alerts)
	}
	return r
}
