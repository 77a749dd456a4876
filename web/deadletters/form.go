package deadletters

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// The actions of the forms.
const (
	actReplay  = "replay"
	actDiscard = "discard"
	ActPurge   = "purge"
)

// formTime bounds one form. What it leaves undone needs another try.
const formTime = 25 * time.Second

// formDeadLetters carries out a confirmed action and redirects to the list.
func (dead *Handler) formDeadLetters(c *gin.Context) {
	c.Header("Cache-Control", "no-store")
	if !dead.OwnForm(c, "Open the dead letters on the engine page and try again there.") {
		return
	}
	if dead.Opt.DLQ == nil {
		dead.Undone(c, http.StatusNotImplemented, "This engine does not store dead letters.")
		return
	}
	action, r, err := readForm(c, dead.Opt.Now())
	if err != nil {
		dead.Undone(c, http.StatusBadRequest, "The form could not be read: "+err.Error()+".")
		return
	}
	ctx, cancel := context.WithTimeout(c.Request.Context(), formTime)
	defer cancel()
	c.Request = c.Request.WithContext(ctx)
	did := url.Values{"did": {action}}
	note := func(name string, n int) {
		if n > 0 {
			did.Set(name, strconv.Itoa(n))
		}
	}
	switch action {
	case actReplay:
		result, e := dead.replay(c, r)
		err = e
		note("done", result.Replayed)
		note("failed", result.Failed+result.HeldBack+result.NoTarget)
		note("old", result.TooOld)
		note("gone", result.NotFound)
	case actDiscard:
		result, e := dead.discard(c, r)
		err = e
		note("done", result.Discarded)
		note("gone", result.NotFound)
	case ActPurge:
		n, e := dead.purge(c, r)
		err = e
		note("done", n)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil:
		did.Set("more", "1")
	case err != nil:
		dead.Opt.LogError(action+" dead letters", err)
		dead.Message(c, http.StatusServiceUnavailable, "Only partly done",
			"The dead letters could not be changed. The engine's log has the cause. The list shows the remaining ones.")
		return
	}
	c.Header("Location", dead.Href(site.DeadLetterListPath, did))
	c.Status(http.StatusSeeOther)
}

// purge carries out a purge and records it in the audit log.
func (dead *Handler) purge(c *gin.Context, r dlqRequest) (int, error) {
	n, err := dead.Opt.DLQ.Purge(c.Request.Context(), r.before, r.dryRun)
	dead.audit(
		c, "dlq.purge", r, fmt.Sprintf("before=%s purged=%d", r.before.UTC().Format("2006-01-02T15:04:05.999Z07:00"), n), err)
	return n, err
}

// readForm reads the body of a form.
func readForm(c *gin.Context, now time.Time) (action string, r dlqRequest, err error) {
	form, err := site.ReadForm(c, site.MaxBody, "id")
	if err != nil {
		return "", r, err
	}
	return ReadAction(form, now)
}

// ReadAction reads what shall be done to which dead letters. The fields are those of the
// API: an action, and ids, filters, all=true or, for a purge, before or older_than.
// Exactly one of them says which; a field that is unknown, empty or there twice must
// not widen that.
func ReadAction(form url.Values, now time.Time) (action string, r dlqRequest, err error) {
	filtered := false
	for name, values := range form {
		if name == "id" {
			r.ByIDs = true
			if r.ids, err = checkIDs(values); err != nil {
				return "", r, err
			}
			continue
		}
		value := values[0]
		switch {
		case len(values) > 1:
			err = errors.New("duplicate field")
		case name == "action":
			action = value
		case name == "all":
			if r.All = value == "true"; !r.All {
				err = errors.New("want true")
			}
		case name == "before" || name == "older_than":
			err = r.setBefore(name, value, now)
		case !slices.Contains(dlqFilters, name):
			err = errors.New("unknown field")
		case value == "":
			err = errors.New("must not be empty")
		default:
			filtered = true
			err = setDLQFilter(&r.Query, name, value)
		}
		if err != nil {
			return "", r, fmt.Errorf("field %s: %w", format.Safe(name, format.MaxName), err)
		}
	}
	timed := !r.before.IsZero()
	n := count(r.ByIDs, filtered, r.All, timed)
	switch {
	case action != actReplay && action != actDiscard && action != ActPurge:
		err = errors.New("want one action: replay, discard or purge")
	case n == 0:
		err = errors.New("no dead letter is selected")
	case n > 1 || (action == ActPurge) != timed:
		err = errors.New("want either ids or filters, and for a purge a time")
	case r.before.After(now):
		err = errors.New("field before: must not be in the future")
	default:
		err = checkDLQRange(&r.Query)
	}
	return action, r, err
}
