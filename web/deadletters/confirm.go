package deadletters

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// deadLetterConfirm is the page that shows what an action would do and asks for confirmation.
type deadLetterConfirm struct {
	site.Layout
	Question string
	Which    []site.Fact
	IDs      []string
	MoreIDs  int
	Result   []site.Figure
	Errors   []string
	Warning  string
	Action   string // where the form goes
	Fields   [][2]string
	Button   string // "" if there is nothing to do
	Danger   bool
	Back     string
}

// confirmTime is how long a dry run may take.
const confirmTime = 10 * time.Second

// confirmPage shows the result of a dry run, with a button that carries it out. It changes nothing.
func (dead *Handler) confirmPage(c *gin.Context) {
	c.Header("Cache-Control", "no-store")
	v := dead.View()
	if dead.Opt.DLQ == nil {
		dead.Undone(c, http.StatusNotImplemented, "This engine does not store dead letters.")
		return
	}
	now := v.Now.UTC().Truncate(time.Millisecond).Add(time.Millisecond)
	var action string
	var r dlqRequest
	form, err := url.ParseQuery(c.Request.URL.RawQuery)
	if err == nil {
		action, r, err = ReadAction(form, v.Now)
	}
	if err != nil {
		dead.Undone(c, http.StatusBadRequest, "The request could not be read: "+err.Error()+".")
		return
	}
	if !r.ByIDs && action != ActPurge && (r.Query.To.IsZero() || r.Query.To.After(now)) {
		// The reader does not agree to what arrives after this dry run.
		r.All, r.Query.To = false, now
	}
	p := deadLetterConfirm{
		Layout: dead.Layout(c, v, "Are you sure?", "engine"), Action: dead.Opt.ExternalPath + "/engine/dlq",
		Danger: action != actReplay, Back: dead.Href(site.DeadLetterListPath, backTo(form)),
	}
	p.Refresh, p.Themes, p.Stream = nil, nil, ""
	if p.Fields, err = confirmFields(action, r, form); err != nil {
		dead.Undone(c, http.StatusBadRequest, "The action cannot be confirmed on a page: "+err.Error()+".")
		return
	}
	p.Which, p.IDs, p.MoreIDs = confirmWhich(r, v.Now)
	ctx, cancel := context.WithTimeout(c.Request.Context(), confirmTime)
	defer cancel()
	c.Request = c.Request.WithContext(ctx)
	r.dryRun = true
	n, err := dead.confirmDryRun(c, action, r, &p)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		p.Warning = "Counting took longer than " + format.Duration(confirmTime) +
			", or another replay is running. Narrow the filter, or use the command sloengine dlq."
	case err != nil && !v.Eng.State.Recovered():
		dead.Undone(c, http.StatusServiceUnavailable, "Dead letters are available once the engine has recovered.")
		return
	case err != nil:
		dead.Opt.LogError("dry run of "+action, err)
		dead.Undone(c, http.StatusServiceUnavailable,
			"The dead letters could not be counted. The engine's log has the cause.")
		return
	case n == 0:
		p.Warning = "There is nothing to " + action + " any more."
	default:
		p.Button = map[string]string{actReplay: "Replay ", actDiscard: "Discard ", ActPurge: "Purge "}[action] +
			format.Plural(n, "dead letter")
	}
	if p.Danger && n > 0 && err == nil {
		p.Warning = "This is permanent: removed dead letters cannot be restored."
	}
	p.Question = map[string]string{actReplay: "Replay ", actDiscard: "Discard ", ActPurge: "Purge "}[action] +
		format.Plural(n, "dead letter") + "?"
	p.Crumbs = dead.crumbs(strings.TrimSuffix(p.Question, "?"))
	site.FormPage(c)
	dead.Page(c, http.StatusOK, "engine-confirm", p)
}

// confirmDryRun counts what would be done.
func (dead *Handler) confirmDryRun(c *gin.Context, action string, r dlqRequest,
	p *deadLetterConfirm) (n int, err error) {
	add := func(name string, n int, note string, bad bool) {
		p.Result = append(p.Result, site.Figure{Name: name, Value: format.Count(n), Note: note, Bad: bad && n > 0})
	}
	switch action {
	case actReplay:
		result, err := dead.replay(c, r)
		add("Match", result.Matched, "", false)
		add("Would be replayed", result.Replayed, "returned to where they failed", false)
		add("Too old", result.TooOld, "stay", true)
		add("No target", result.NoTarget, "stay: their sink no longer exists", true)
		add("Gone", result.NotFound, "replayed or removed meanwhile", true)
		for _, s := range result.Errors {
			p.Errors = append(p.Errors, format.Safe(s, format.MaxTitle))
		}
		return result.Replayed, err
	case actDiscard:
		result, err := dead.discard(c, r)
		add("Would be discarded", result.Discarded, "", false)
		if r.ByIDs {
			add("Gone", result.NotFound, "replayed or removed meanwhile", true)
		}
		return result.Discarded, err
	}
	n, err = dead.purge(c, r)
	add("Would be purged", n, "", false)
	return n, err
}

// confirmFields are the fields of the form that carries the action out. Text that a form may change could select other
// dead letters, so it is refused.
func confirmFields(action string, r dlqRequest, form url.Values) ([][2]string, error) {
	out := [][2]string{{"action", action}}
	if action == ActPurge {
		return append(out, [2]string{"before", r.before.UTC().Format(time.RFC3339Nano)}), nil
	}
	for _, id := range r.ids {
		out = append(out, [2]string{"id", id})
	}
	if r.ByIDs {
		return out, nil
	}
	for _, name := range dlqFilters {
		value := form.Get(name)
		if name == "to" {
			value = r.Query.To.UTC().Format(time.RFC3339Nano)
		}
		if value == "" {
			continue
		}
		if format.Safe(value, maxFilterText) != value {
			return nil, fmt.Errorf("the filter %s has characters that a form may change (use the API, or sloengine dlq)", name)
		}
		out = append(out, [2]string{name, value})
	}
	return out, nil
}

// confirmWhich says which dead letters are meant.
func confirmWhich(r dlqRequest, now time.Time) (facts []site.Fact, ids []string, more int) {
	if r.ByIDs {
		return nil, r.ids[:min(len(r.ids), shownIDs)], max(0, len(r.ids)-shownIDs)
	}
	if !r.before.IsZero() {
		return []site.Fact{{Name: "Saved before", Value: format.Ago(r.before, now), At: format.NewStamp(r.before, now)}},
			nil, 0
	}
	q := &r.Query
	values := map[string]string{
		"Origin": string(q.Origin), "Sink": q.Sink, "Service": q.Service, "Type": q.Type, "Severity": q.Severity,
		"Reason": q.Reason, "Error class": q.Class,
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if values[name] != "" {
			facts = append(facts, site.Fact{Name: name, Value: format.Safe(values[name], format.MaxTitle), Code: true})
		}
	}
	if len(facts) == 0 && q.From.IsZero() {
		facts = append(facts, site.Fact{Name: "Which", Value: "all dead letters stored now"})
	}
	if !q.From.IsZero() {
		facts = append(
			facts, site.Fact{Name: "Saved from", Value: format.NewStamp(q.From, now).Text, At: format.NewStamp(q.From, now)})
	}
	return append(facts, site.Fact{Name: "Saved before", Value: format.NewStamp(q.To, now).Text,
		At: format.NewStamp(q.To, now), Note: "newer ones are not affected"}), nil, 0
}

// backTo is the list that the reader came from.
func backTo(form url.Values) url.Values {
	q := url.Values{}
	for _, name := range dlqFilters {
		if v := form.Get(name); v != "" {
			q.Set(name, v)
		}
	}
	return q
}
