package alertpage

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/alerts/backtest"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// tryPage is a form for another objective, window or alerts of an SLO, and what they would have done.
type tryPage struct {
	site.Layout
	Action, ID string
	SLO        string // address of the SLO
	Form       tryForm
	Windows    []site.Option
	Lasts      []site.Option
	Problems   []string
	Progress   string // it is being replayed
	YAML       string // of the candidate
	Result     *tryResult
}

// tryForm are the fields of the form.
type tryForm struct{ Objective, Window, Tiers, MinEvents, FalsePages, Last string }

// Bounds of the form, and how long a replay may take.
const (
	maxTiersText = 2048
	maxField     = 40
	tryFor       = 2 * time.Minute
)

var (
	tryWindows = []string{"7d", "14d", "28d", "30d", "90d"}
	tryLasts   = []string{"7d", "14d", "30d"}
)

// asWindow is the window that the SLO has.
const asWindow = "as it is"

func (h *Handler) tryPage(c *gin.Context) {
	v := h.View()
	c.Header("Cache-Control", "no-store")
	q := c.Request.URL.Query()
	id := slo.ID(q.Get("id"))
	var s *slo.SLO
	if v.Rep != nil {
		if i := slices.IndexFunc(v.Rep.SLOs, func(r sla.SLOReport) bool { return r.SLO.ID == id }); i >= 0 {
			s = v.Rep.SLOs[i].SLO
		}
	}
	switch {
	case s == nil:
		h.Message(c, http.StatusNotFound, "No such SLO",
			"The current spec has no SLO with this name. It may have been renamed or removed.")
		return
	case h.Opt.Try == nil:
		h.Message(c, http.StatusNotImplemented, "Nothing to try it on", "The events are in the log of another engine.")
		return
	case s.Indicator.RulesOnly():
		h.Message(c, http.StatusUnprocessableEntity, "Nothing to try it on",
			"This SLO is on series of a Prometheus, which are not in the log.")
		return
	}
	p := tryPage{Layout: h.Layout(c, v, "Try "+site.Title(string(id), nil, nil), "slo"), ID: string(id),
		Action: h.Href(site.TryPath, nil), Form: formOf(s)}
	p.Refresh, p.Stream = nil, ""
	p.Crumbs = append(h.GroupCrumbs(site.Link{Text: "SLOs", Href: "/"}, id.Service(), id.Name(),
		url.Values{"slo": {string(id)}}, nil, nil), site.Link{Text: "Try"})
	status := http.StatusOK
	if q.Has("objective") {
		p.Form = readForm(q)
		candidate, yaml, problems := p.Form.candidate(s)
		last, ok := map[string]time.Duration{"7d": 7, "14d": 14, "30d": 30}[p.Form.Last]
		if !ok {
			problems = append(problems, "Choose one of the times.")
		}
		if p.Problems = problems; len(problems) > 0 {
			status = http.StatusBadRequest
		} else {
			// The head is of a file with this SLO alone: its types are not those of the service.
			_, entry, _ := bytes.Cut(yaml, []byte("\nslos:\n"))
			p.YAML = lines(entry)
			status = h.try(c, &p, s, candidate, yaml, last*24*time.Hour)
		}
	}
	p.options(s)
	h.Page(c, status, "try", p)
}

// try asks for the replay, and fills in what it found or how far it is.
func (h *Handler) try(c *gin.Context, p *tryPage, s, candidate *slo.SLO, yaml []byte, last time.Duration) int {
	got := h.Opt.Try(backtest.Request{Key: p.ID + "\x00" + p.Form.Last + "\x00" + string(yaml), Before: alone(s),
		After: alone(candidate), Last: last, Zone: time.UTC, Own: true, Within: tryFor})
	switch {
	case got.Err != nil:
		p.Problems = []string{format.Safe(got.Err.Error(), format.MaxText)}
		return http.StatusServiceUnavailable
	case got.Result != nil:
		p.Result = newTryResult(p.ID, got.Result, h.Opt.Now(), h.IncidentHref)
		return http.StatusOK
	}
	c.Header("Refresh", "2")
	p.Progress = fmt.Sprintf("Replayed %s of the time.", format.Percent(got.Progress, 0))
	if got.Busy {
		p.Progress = fmt.Sprintf("The engine replays its log for somebody else, %s of it so far. Yours is next.",
			format.Percent(got.Progress, 0))
	}
	return http.StatusOK
}

// formOf is what an SLO has now.
func formOf(s *slo.SLO) tryForm {
	f := tryForm{Objective: s.Objective.Percent(), Window: asWindow,
		MinEvents: strconv.FormatUint(s.Alerting.MinEvents, 10), FalsePages: "1", Last: "30d"}
	if x := s.Alerting.FalsePages; x > 0 {
		f.FalsePages = strconv.FormatFloat(x, 'f', -1, 64)
	}
	list := s.Alerting.Tiers
	if len(list) == 0 {
		list = slo.Tiers
	}
	for _, t := range list {
		severity := "ticket"
		if t.Page {
			severity = "page"
		}
		f.Tiers += fmt.Sprintf("%s %s %s %s%%\n", severity, slo.FormatDuration(t.Long), slo.FormatDuration(t.Short),
			strconv.FormatFloat(math.Round(t.Share*1e8)/1e6, 'f', -1, 64))
	}
	return f
}

func readForm(q url.Values) tryForm {
	field := func(name string) string { return format.Safe(strings.TrimSpace(q.Get(name)), maxField) }
	f := tryForm{Objective: field("objective"), Window: field("window"), MinEvents: field("min_events"),
		FalsePages: field("false_pages"), Last: field("last")}
	tiers := q.Get("tiers")
	for line := range strings.SplitSeq(tiers[:min(len(tiers), maxTiersText)], "\n") {
		if line = strings.TrimSpace(line); line != "" {
			f.Tiers += format.Safe(line, maxField) + "\n"
		}
	}
	return f
}

// candidate is an SLO as the form has it, and its YAML, or what is wrong.
func (f *tryForm) candidate(s *slo.SLO) (out *slo.SLO, yaml []byte, problems []string) {
	bad := func(text string, args ...any) { problems = append(problems, fmt.Sprintf(text, args...)) }
	x := *s
	var err error
	if x.Objective, err = slo.ParsePercent(strings.TrimSuffix(f.Objective, "%")); err != nil {
		bad("Objective: want a percentage such as 99.9.")
	}
	if f.Window != asWindow {
		if !slices.Contains(tryWindows, f.Window) {
			bad("Window: choose one of the list.")
		} else if d, err := slo.ParseDuration(f.Window); err == nil {
			x.Window = slo.Window{Rolling: d}
		}
	}
	if x.Alerting.MinEvents, err = strconv.ParseUint(f.MinEvents, 10, 32); err != nil {
		bad("Events at least: want a whole number.")
	}
	x.Alerting.FalsePages, err = strconv.ParseFloat(f.FalsePages, 64)
	if err != nil || !format.Finite(x.Alerting.FalsePages) {
		bad("Pages by chance: want a number per year such as 1.")
	}
	if x.Alerting.FalsePages == slo.DefaultFalsePages {
		x.Alerting.FalsePages = 0
	}
	x.Alerting.Tiers = nil
	for line := range strings.Lines(f.Tiers) {
		t, err := readTier(line)
		if err != nil {
			bad("Burn-rate alerts: %s.", err)
			continue
		}
		x.Alerting.Tiers = append(x.Alerting.Tiers, t)
	}
	if slices.Equal(x.Alerting.Tiers, slo.Tiers) {
		x.Alerting.Tiers = nil
	}
	if len(problems) > 0 {
		return nil, nil, problems
	}
	written := x
	written.Corrections = nil // they are no part of its entry, and name other SLOs
	yaml = spec.Encode(alone(&written))
	written.CausedBy, written.Links = nil, nil // as they were, and causes are other SLOs
	_, found := spec.Load([]spec.File{{Name: "candidate", Data: spec.Encode(alone(&written))}})
	for _, p := range found.Errors() {
		text := p.Message
		if p.Suggestion != "" {
			text += " (" + p.Suggestion + ")"
		}
		bad("%s", format.Safe(text, format.MaxText))
	}
	return &x, yaml, problems
}

// alone is a spec of one SLO.
func alone(s *slo.SLO) *spec.Spec {
	return &spec.Spec{SLOs: []*slo.SLO{s}, Services: []spec.Service{{Name: s.ID.Service(),
		Dimensions: spec.DefaultDimensions}}}
}

// readTier reads a line such as page 1h 5m 2%.
func readTier(line string) (t slo.Tier, err error) {
	wrong := fmt.Errorf("want lines such as page 1h 5m 2%%, got %q", format.Safe(strings.TrimSpace(line), maxField))
	part := strings.Fields(line)
	if len(part) != 4 || part[0] != "page" && part[0] != "ticket" {
		return t, wrong
	}
	t.Page = part[0] == "page"
	var percent float64
	if t.Long, err = slo.ParseDuration(part[1]); err != nil {
		return t, wrong
	}
	if t.Short, err = slo.ParseDuration(part[2]); err != nil {
		return t, wrong
	}
	if percent, err = strconv.ParseFloat(strings.TrimSuffix(part[3], "%"), 64); err != nil || !format.Finite(percent) {
		return t, wrong
	}
	t.Share = percent / 100
	return t, nil
}

func (p *tryPage) options(s *slo.SLO) {
	option := func(value, word, picked string) site.Option {
		return site.Option{Value: value, Word: word, On: value == picked}
	}
	p.Windows = append(p.Windows, option(asWindow, s.Window.String()+", as it is", p.Form.Window))
	for _, w := range tryWindows {
		if w != s.Window.String() {
			p.Windows = append(p.Windows, option(w, w, p.Form.Window))
		}
	}
	for _, l := range tryLasts {
		p.Lasts = append(p.Lasts, option(l, "the last "+l, p.Form.Last))
	}
}

// lines shows a text of many lines.
func lines(text []byte) string {
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		b.WriteString(format.Safe(strings.TrimRight(line, "\n"), format.MaxText) + "\n")
	}
	return b.String()
}
