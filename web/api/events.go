package api

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/alertmanager/pkg/labels"

	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/traces"
	"github.com/sloengine/sloengine/web/api/v1"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

// EventsPath is where the events of an SLO are.
func EventsPath(id slo.ID) string {
	return "/api/v1/slos/" + url.PathEscape(id.Service()) + "/" + url.PathEscape(id.Name()) + "/events"
}

// apiEvents finds events in the log. It is asked by people, and takes as long as it reads.
func (api *Handler) apiEvents(c *gin.Context) {
	v := api.View()
	c.Header("Cache-Control", "no-store")
	id := slo.NewID(c.Param("service"), c.Param("slo"))
	q := c.Request.URL.Query()
	ask := counting.EventQuery{SLO: id}
	r, some := site.FindGroup(v.Rep, id, q)
	switch {
	case len(site.Prefixed(q, site.GroupParam)) > 0:
		if r = api.one(c, v); r == nil {
			return
		}
		ask.Group = r.Group
	case r == nil && !some:
		api.one(c, v) // says so
		return
	case r == nil: // it is grouped, and all groups are asked for
		r = &v.Rep.SLOs[slices.IndexFunc(v.Rep.SLOs, func(r sla.SLOReport) bool { return r.SLO.ID == id })]
	}
	if api.Opt.Events == nil {
		respond.Problem(c, http.StatusNotImplemented, "This engine has no log.", nil)
		return
	}
	if err := ReadEventQuery(&ask, q, v.Now); err != nil {
		respond.Problem(c, http.StatusBadRequest, err.Error(), nil)
		return
	}
	found, err := api.Opt.Events(c.Request.Context(), &ask)
	switch {
	case errors.Is(err, counting.ErrNoSLO):
		respond.Problem(c, http.StatusNotFound, err.Error(), nil)
	case errors.Is(err, fold.ErrNotJudged):
		respond.Problem(c, http.StatusUnprocessableEntity, err.Error(), nil)
	case err != nil:
		api.Opt.LogError("read events of "+string(id), err)
		respond.Problem(c, http.StatusServiceUnavailable, "The log could not be read now.", nil)
	default:
		respond.JSON(c, http.StatusOK, "application/json", api.newEvents(r.SLO, &ask, found))
	}
}

// ReadEventQuery reads the parameters last, from, to, where, verdict, limit and compare. The default is the last hour.
func ReadEventQuery(ask *counting.EventQuery, q url.Values, now time.Time) error {
	var err error
	ask.To = now.UTC().Add(24 * time.Hour) // with events ahead of the clock
	if s := q.Get("to"); s != "" {
		if ask.To, err = site.ParseTime(s); err != nil {
			return fmt.Errorf("to: %w", err)
		}
	}
	last := time.Hour
	if s := q.Get("last"); s != "" {
		if last, err = slo.ParseDuration(s); err != nil || last <= 0 {
			return errors.New("last: want a duration such as 6h")
		}
	}
	end := now.UTC()
	if q.Has("to") {
		end = ask.To
	}
	ask.From = end.Add(-last)
	if s := q.Get("from"); s != "" {
		if ask.From, err = site.ParseTime(s); err != nil {
			return fmt.Errorf("from: %w", err)
		}
	}
	if !ask.From.Before(ask.To) {
		return errors.New("from must be before to")
	}
	limit := 50
	if s := q.Get("limit"); s != "" {
		if limit, err = strconv.Atoi(s); err != nil || limit < 1 || limit > counting.MaxEvents {
			return fmt.Errorf("limit: want a number from 1 to %d", counting.MaxEvents)
		}
	}
	switch q.Get("verdict") {
	case "", "bad":
		ask.Bad = limit
	case "good":
		ask.Good = limit
	case "all":
		ask.Bad, ask.Good = limit, limit
	default:
		return errors.New("verdict: want bad, good or all")
	}
	if s := q.Get("compare"); s != "" {
		if ask.Compare, err = strconv.ParseBool(s); err != nil {
			return errors.New("compare: want true or false")
		}
	}
	ask.Where, err = readSelector(q.Get("where"))
	return err
}

// maxSelector bounds the text of a selector.
const maxSelector = 1024

func readSelector(text string) (sel slo.Selector, err error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	if len(text) > maxSelector {
		return nil, fmt.Errorf("where: want at most %d characters", maxSelector)
	}
	parsed, err := labels.ParseMatchers(text)
	if err != nil {
		return nil, fmt.Errorf(`where: %s (want matchers such as {bank="X",outcome!="success"})`,
			format.Safe(err.Error(), format.MaxTitle))
	}
	for _, m := range parsed {
		x, err := slo.NewMatcher(m.Name, slo.MatchOp(m.Type.String()), m.Value)
		if err != nil {
			return nil, fmt.Errorf("where: %w", err)
		}
		sel = append(sel, x)
	}
	return sel, nil
}

func (api *Handler) newEvents(s *slo.SLO, ask *counting.EventQuery, found *counting.EventAnswer) *v1.Events {
	out := &v1.Events{ID: ask.SLO, From: ask.From, To: ask.To, Records: found.Records, Unread: found.Unread,
		Bad: api.eventList(s, found.Bad), Good: api.eventList(s, found.Good)}
	if !found.Since.IsZero() {
		out.Since = &found.Since
	}
	if ask.Compare {
		out.Compare = newComparison(s, found)
	}
	return out
}

func (api *Handler) eventList(s *slo.SLO, list []counting.FoundEvent) []v1.FoundEvent {
	out := make([]v1.FoundEvent, len(list))
	for i := range list {
		e := &list[i]
		x := v1.FoundEvent{ID: e.ID, Time: e.Time, Received: e.Received, Type: e.Type, Outcome: e.Outcome.String(),
			Severity: e.Severity, Count: e.Count, Weight: e.Weight, Group: groupJSON(s.GroupBy, e.Group)}
		if e.HasDuration {
			seconds := e.Duration.Seconds()
			x.Duration = &seconds
		}
		if e.Trace != (traces.ID{}) {
			x.Trace, x.TraceURL = e.Trace.String(), site.TraceURL(api.Opt.TraceURL, e.Trace)
		}
		if len(e.Attributes) > 0 {
			x.Attributes = make(map[string]string, len(e.Attributes))
			for _, a := range e.Attributes {
				x.Attributes[a.Name] = a.Value
			}
		}
		out[i] = x
	}
	return out
}

// newComparison says what is different about the bad events of an SLO.
func newComparison(s *slo.SLO, found *counting.EventAnswer) *v1.EventComparison {
	budget := s.Objective.Budget()
	out := &v1.EventComparison{Bad: found.BadSum, Good: found.GoodSum, Burn: found.Burn(budget), Text: found.Text(budget),
		Differences: []v1.AttributeDifference{}}
	for i := range found.Differences {
		x := &found.Differences[i]
		out.Differences = append(out.Differences, v1.AttributeDifference{Attribute: x.Attribute, Value: x.Value,
			Same: append([]string{}, x.Same...), OfBad: x.OfBad, OfGood: x.OfGood, Lift: x.Lift, Burn: x.Without / budget,
			P: x.P})
	}
	return out
}
