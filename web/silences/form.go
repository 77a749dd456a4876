package silences

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/alerts/silence"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// formPath is where forms are sent to.
const formPath = site.SilenceListPath + "/do"

// Values of the field do.
const (
	doAdd    = "add"
	doExpire = "expire"
)

// lengths are what the form offers, and usual is what it proposes.
var lengths = []string{"30m", "1h", "2h", "4h", "8h", "1d", "3d", "7d", "30d"}

const usual = "2h"

// inputTime is how a date field of a form writes a time, in UTC.
const inputTime = "2006-01-02T15:04"

// maxForm bounds a form with four bytes for each character, all of them escaped.
const maxForm = 3*utf8.UTFMax*(silence.MaxMatchers+silence.MaxComment+silence.MaxAuthor) + 4<<10

// newPage is the form that adds a silence.
type newPage struct {
	site.Layout
	Action, List string
	About        string // the alert whose labels are filled in
	Problem      string // with what was sent
	Matchers     string // one on each line
	Author       string
	Comment      string
	Starts       string
	Lengths      []site.Option
}

func (h *Handler) newPage(c *gin.Context) {
	if !h.canAdd(c) {
		return
	}
	p := newPage{Author: h.Opt.Caller(c)}
	if fingerprint := c.Query("alert"); fingerprint != "" {
		if a := h.firing(fingerprint); a != nil {
			p.About, p.Matchers = format.Safe(a.Name, format.MaxName), matchersOf(a)
		} else {
			p.Problem = "This alert does not fire any more."
		}
	}
	h.showForm(c, http.StatusOK, p, usual)
}

// canAdd sends a page if silences cannot be added, or have no effect.
func (h *Handler) canAdd(c *gin.Context) bool {
	if !h.ready(c) {
		return false
	}
	if !h.Opt.Silences.HasReceivers() {
		h.Message(c, http.StatusConflict, "Nothing to silence", idle)
		return false
	}
	return true
}

func (h *Handler) showForm(c *gin.Context, status int, p newPage, length string) {
	p.Layout = h.Layout(c, h.View(), "Add a silence", "silences")
	p.Action, p.List = h.Opt.ExternalPath+formPath, h.Href(site.SilenceListPath, nil)
	for _, l := range lengths {
		p.Lengths = append(p.Lengths, site.Option{Value: l, Word: l, On: l == length})
	}
	p.Refresh, p.Themes, p.Stream = nil, nil, ""
	site.FormPage(c)
	h.Page(c, status, "silence-new", p)
}

// firing finds an alert that fires; nil if there is none.
func (h *Handler) firing(fingerprint string) *state.Alert {
	if h.Opt.Alerts == nil {
		return nil
	}
	active := h.Opt.Alerts().Active
	i := slices.IndexFunc(active, func(a state.Alert) bool {
		return a.State == state.Firing && a.Fingerprint == fingerprint
	})
	if i < 0 {
		return nil
	}
	return &active[i]
}

// matchersOf are matchers of just this alert. The labels of a tier are left out: they say in which windows the engine
// noticed the same thing.
func matchersOf(a *state.Alert) string {
	var lines []string
	for _, l := range a.Labels {
		if !slices.Contains([]string{series.LabelTier, series.LabelLong, series.LabelShort}, l.Name) {
			lines = append(lines, silence.Equal(l.Name, l.Value))
		}
	}
	return strings.Join(lines, "\n")
}

// form carries out what a form of the pages asks for, and redirects to the list.
func (h *Handler) form(c *gin.Context) {
	c.Header("Cache-Control", "no-store")
	if !h.OwnForm(c, "Open the silences and try again there.") {
		return
	}
	if !h.ready(c) {
		return
	}
	form, err := site.ReadForm(c, maxForm)
	if err != nil {
		h.Undone(c, http.StatusBadRequest, "The form could not be read: "+err.Error()+".")
		return
	}
	switch form.Get("do") {
	case doAdd:
		h.formAdd(c, form)
	case doExpire:
		if _, err := h.expireSilence(c, form.Get("id")); err != nil {
			status, text := failure(err)
			h.Undone(c, status, text)
			return
		}
		h.done(c, doExpire)
	default:
		h.Undone(c, http.StatusBadRequest, "The form could not be read: it does not say what to do.")
	}
}

func (h *Handler) done(c *gin.Context, what string) {
	c.Header("Location", h.Href(site.SilenceListPath, url.Values{"did": {what}}))
	c.Status(http.StatusSeeOther)
}

func (h *Handler) formAdd(c *gin.Context, form url.Values) {
	if !h.canAdd(c) {
		return
	}
	s, err := h.formSilence(form)
	if err == nil {
		_, err = h.addSilence(c, s)
	}
	if err != nil {
		status, text := failure(err)
		p := newPage{
			Problem:  format.Safe(strings.ToUpper(text[:1])+text[1:], format.MaxText),
			Matchers: shown(form.Get("matchers"), silence.MaxMatchers), Author: shown(form.Get("author"), silence.MaxAuthor),
			Comment: shown(form.Get("comment"), silence.MaxComment), Starts: shown(form.Get("starts"), len(inputTime)),
		}
		h.showForm(c, status, p, form.Get("for"))
		return
	}
	h.done(c, doAdd)
}

// shown is what a form had, for the same form again. Lines stay lines.
func shown(s string, most int) string {
	var lines []string
	for line := range strings.SplitSeq(strings.ReplaceAll(s, "\r\n", "\n"), "\n") {
		lines = append(lines, format.Safe(line, most))
	}
	return strings.Join(lines, "\n")
}

// formSilence is the silence that a form asks for. Errors wrap silence.ErrInvalid.
func (h *Handler) formSilence(form url.Values) (silence.Silence, error) {
	field := func(name string) string { return strings.TrimSpace(strings.ReplaceAll(form.Get(name), "\r\n", "\n")) }
	invalid := func(text string) error { return fmt.Errorf("%w: %s", silence.ErrInvalid, text) }
	s := silence.Silence{Author: field("author"), Comment: field("comment")}
	var matchers []string
	for line := range strings.SplitSeq(field("matchers"), "\n") {
		if line = strings.TrimSuffix(strings.TrimSpace(line), ","); line != "" {
			matchers = append(matchers, line)
		}
	}
	s.Matchers = strings.Join(matchers, ",")
	s.Starts = h.Opt.Now().UTC()
	if at := field("starts"); at != "" {
		var err error
		if s.Starts, err = time.Parse(inputTime, at); err != nil {
			return s, invalid("start: want a time such as 2026-11-22T10:00, in UTC")
		}
	}
	length, err := slo.ParseDuration(field("for"))
	if err != nil || length <= 0 {
		return s, invalid("choose how long it lasts")
	}
	s.Ends = s.Starts.Add(length)
	return s, nil
}
