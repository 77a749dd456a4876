package silences

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/alertmanager/pkg/labels"
	"github.com/prometheus/common/model"

	"github.com/sloengine/sloengine/alerts/silence"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

// Addresses of the silences in version 2 of Alertmanager's API, so that amtool works with the engine. Errors are JSON
// strings there.
const (
	V2Path    = "/api/v2/silences"
	V2OnePath = "/api/v2/silence/:id"
)

// v2Matcher is a matcher of a silence in Alertmanager's API.
type v2Matcher struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	IsRegex bool   `json:"isRegex"`
	IsEqual *bool  `json:"isEqual"` // true if it is missing
}

// v2Silence is a silence in Alertmanager's API.
type v2Silence struct {
	ID     string `json:"id"`
	Status struct {
		State silence.State `json:"state"`
	} `json:"status"`
	Updated  time.Time   `json:"updatedAt"`
	Comment  string      `json:"comment"`
	Author   string      `json:"createdBy"`
	Starts   time.Time   `json:"startsAt"`
	Ends     time.Time   `json:"endsAt"`
	Matchers []v2Matcher `json:"matchers"`
}

func (h *Handler) registerV2(r gin.IRouter, get func(path string, h ...gin.HandlerFunc), read,
	operate gin.HandlerFunc) {
	get(V2Path, read, h.v2List)
	get(V2OnePath, read, h.v2Get)
	r.POST(V2Path, site.Secure, operate, h.v2Add)
	r.DELETE(V2OnePath, site.Secure, operate, h.v2Expire)
}

// v2Type are the operators of a matcher, by isRegex and isEqual.
var v2Type = map[[2]bool]labels.MatchType{
	{false, true}: labels.MatchEqual, {false, false}: labels.MatchNotEqual, {true, true}: labels.MatchRegexp,
	{true, false}: labels.MatchNotRegexp,
}

// text is the matcher as the engine keeps it.
func (m v2Matcher) text() (string, error) {
	typed, err := labels.NewMatcher(v2Type[[2]bool{m.IsRegex, m.IsEqual == nil || *m.IsEqual}], m.Name, m.Value)
	if err == nil {
		var again *labels.Matcher
		if again, err = labels.ParseMatcher(typed.String()); err == nil && again.Name == m.Name {
			return typed.String(), nil
		}
	}
	return "", fmt.Errorf("%w: matchers: no label %q with this value can be matched", silence.ErrInvalid, m.Name)
}

func (h *Handler) newV2(s silence.Silence) (v2Silence, error) {
	out := v2Silence{ID: s.ID, Updated: s.Created, Comment: s.Comment, Author: s.Author, Starts: s.Starts, Ends: s.Ends}
	out.Status.State = s.State(h.Opt.Now())
	parsed, err := labels.ParseMatchers(s.Matchers)
	for _, m := range parsed {
		equal := m.Type == labels.MatchEqual || m.Type == labels.MatchRegexp
		out.Matchers = append(
			out.Matchers, v2Matcher{m.Name, m.Value, m.Type == labels.MatchRegexp || m.Type == labels.MatchNotRegexp, &equal})
	}
	return out, err
}

// v2Send answers in JSON.
func v2Send(c *gin.Context, status int, v any) { respond.JSON(c, status, "application/json", v) }

// v2List lists the silences whose matchers fit those of the parameter filter, as Alertmanager does: by the label and
// the value or expression that a silence names.
func (h *Handler) v2List(c *gin.Context) {
	if !h.has(c) {
		return
	}
	var filter labels.Matchers
	for _, text := range c.QueryArray("filter") {
		m, err := labels.ParseMatcher(text)
		if err != nil {
			v2Send(c, http.StatusBadRequest, "filter: want a matcher such as service=\"shop\"")
			return
		}
		filter = append(filter, m)
	}
	out := []v2Silence{}
	for _, s := range h.Opt.Silences.Silences() {
		v2, err := h.newV2(s)
		named := model.LabelSet{}
		for _, m := range v2.Matchers {
			named[model.LabelName(m.Name)] = model.LabelValue(m.Value)
		}
		if err == nil && filter.Matches(named) {
			out = append(out, v2)
		}
	}
	v2Send(c, http.StatusOK, out)
}

// find is the silence with an id that the caller may see.
func (h *Handler) find(id string) (silence.Silence, error) {
	all := h.Opt.Silences.Silences()
	if i := slices.IndexFunc(all, func(s silence.Silence) bool { return s.ID == id }); i >= 0 {
		return all[i], nil
	}
	return silence.Silence{}, silence.ErrNotFound
}

func (h *Handler) v2Get(c *gin.Context) {
	if !h.has(c) {
		return
	}
	s, err := h.find(c.Param("id"))
	if err == nil {
		var out v2Silence
		if out, err = h.newV2(s); err == nil {
			v2Send(c, http.StatusOK, out)
			return
		}
	}
	status, text := failure(err)
	v2Send(c, status, text)
}

// v2Add adds a silence. One with an id takes the place of that silence, which expires.
func (h *Handler) v2Add(c *gin.Context) {
	c.Header("Cache-Control", "no-store")
	body, ok := h.JSONBody(c)
	if !ok || !h.has(c) {
		return
	}
	s, old, err := h.readV2(body)
	if err == nil && old != "" {
		_, err = h.find(old)
	}
	if err == nil {
		s.Author = strings.TrimSpace(s.Author)
		if s.Author == "" {
			s.Author = h.Opt.Caller(c)
		}
		s, err = h.addSilence(c, s)
	}
	if err == nil && old != "" {
		_, err = h.expireSilence(c, old)
	}
	if status, text := failure(err); err != nil {
		v2Send(c, status, text)
		return
	}
	v2Send(c, http.StatusOK, map[string]string{"silenceID": s.ID})
}

// readV2 reads a silence and the id of the one whose place it takes, if any. Errors wrap silence.ErrInvalid.
func (h *Handler) readV2(body []byte) (s silence.Silence, id string, err error) {
	var matchers []v2Matcher
	err = site.ReadObject(body, site.Fields{
		"id": site.String(&id), "comment": site.String(&s.Comment), "createdBy": site.String(&s.Author),
		"startsAt": site.ReadTime(&s.Starts), "endsAt": site.ReadTime(&s.Ends),
		"matchers": site.Value(&matchers, `a list such as [{"name":"service","value":"shop","isRegex":false}]`),
	})
	if err != nil {
		return s, id, fmt.Errorf("%w: body: %w", silence.ErrInvalid, err)
	}
	texts := make([]string, len(matchers))
	for i, m := range matchers {
		if texts[i], err = m.text(); err != nil {
			return s, id, err
		}
	}
	s.Matchers = strings.Join(texts, ",")
	if now := h.Opt.Now(); s.Starts.Before(now) {
		s.Starts = now.UTC() // as Alertmanager: what is past cannot be silenced
	}
	return s, id, nil
}

func (h *Handler) v2Expire(c *gin.Context) {
	c.Header("Cache-Control", "no-store")
	if err := http.NewCrossOriginProtection().Check(c.Request); err != nil {
		v2Send(c, http.StatusForbidden, "Requests from pages of another site are refused.")
		return
	}
	if !h.has(c) {
		return
	}
	if _, err := h.expireSilence(c, c.Param("id")); err != nil {
		status, text := failure(err)
		v2Send(c, status, text)
		return
	}
	c.Status(http.StatusOK)
}
