package deadletters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

// Handler serves the API and the pages of the dead letters.
type Handler struct{ *site.Site }

// New makes the API and the pages of a site.
func New(s *site.Site) *Handler { return &Handler{s} }

// Register mounts the API and the pages.
func (dead *Handler) Register(r gin.IRouter, get func(path string, h ...gin.HandlerFunc), read,
	operate gin.HandlerFunc) {
	get("/api/v1/dlq", read, dead.apiDeadLetters)
	get("/api/v1/dlq/stats", read, dead.apiDeadLetterStats)
	get("/api/v1/dlq/:id", read, dead.apiDeadLetter)
	r.POST("/api/v1/dlq/replay", site.Secure, operate, dead.apiReplay)
	r.POST("/api/v1/dlq/discard", site.Secure, operate, dead.apiDiscard)
	r.POST("/api/v1/dlq/purge", site.Secure, operate, dead.apiPurge)
	get(site.DeadLetterListPath, read, dead.deadLetterListPage)
	get(site.DeadLetterPath, read, dead.deadLetterPage)
	get(site.DeadLetterConfirmPath, operate, dead.confirmPage)
	r.POST("/engine/dlq", site.Secure, operate, dead.formDeadLetters)
}

// List is a page of dead letters. There may be fewer than asked for, even
// none, before the end.
type List struct {
	Items []dlq.Entry `json:"items"`
	Next  string      `json:"next_cursor,omitempty"` // absent on the last page
}

// hasDLQ sends a problem if the engine stores no dead letters.
func (dead *Handler) hasDLQ(c *gin.Context) bool {
	c.Header("Cache-Control", "no-store")
	if dead.Opt.DLQ == nil {
		respond.Problem(c, http.StatusNotImplemented, "This engine does not store dead letters.", nil)
		return false
	}
	return true
}

// dlqProblem sends an error of the store as a problem. did says what was done before the error, and may be empty.
func (dead *Handler) dlqProblem(c *gin.Context, doing, did string, err error) {
	switch {
	case errors.Is(err, dlq.ErrInvalid):
		respond.Problem(c, http.StatusBadRequest, err.Error(), nil)
	case errors.Is(err, dlq.ErrNotFound):
		respond.Problem(
			c, http.StatusNotFound, "There is no dead letter with this id. It may have been replayed, discarded or purged.", nil)
	case !dead.Opt.Brief().State.Recovered():
		c.Header("Retry-After", "5")
		respond.Problem(c, http.StatusServiceUnavailable,
			"The engine is still recovering. Dead letters are available once it has recovered.", nil)
	default:
		if c.Request.Context().Err() == nil { // else the caller went away
			dead.Opt.LogError(doing+" dead letters", err)
		}
		c.Header("Retry-After", "5")
		respond.Problem(c, http.StatusServiceUnavailable,
			fmt.Sprintf("The dead letters could not be %s%s. The engine's log has the cause.", dlqPast[doing], did), nil)
	}
}

var dlqPast = map[string]string{"read": "read", "count": "counted", "replay": "replayed",
	"discard": "discarded", "purge": "purged"}

func (dead *Handler) apiDeadLetters(c *gin.Context) {
	if !dead.hasDLQ(c) {
		return
	}
	q, err := parseDLQQuery(c.Request.URL.RawQuery)
	if err != nil {
		respond.Problem(c, http.StatusBadRequest, err.Error(), nil)
		return
	}
	page, err := dead.listDeadLetters(c.Request.Context(), q)
	if err != nil {
		if errors.Is(err, dlq.ErrInvalid) {
			err = fmt.Errorf("cursor: want next_cursor of an earlier response to the same query: %w", err)
		}
		dead.dlqProblem(c, "read", "", err)
		return
	}
	respond.JSON(c, http.StatusOK, "application/json", List{append([]dlq.Entry{}, page.Entries...), page.Next})
}

// A page of dead letters ends when its events reach deadLetterPageBytes. One call of the store reads deadLetterPortion
// entries.
const (
	deadLetterPageBytes = 4 << 20
	deadLetterPortion   = 50
)

// listDeadLetters reads a page in portions, since a thousand entries may hold a thousand of the largest events.
func (dead *Handler) listDeadLetters(ctx context.Context, q dlq.Query) (page dlq.Page, err error) {
	want := cmp.Or(q.Limit, dlq.DefaultLimit)
	for bytes := 0; ; {
		q.Limit = min(deadLetterPortion, want-len(page.Entries))
		part, err := dead.Opt.DLQ.List(ctx, q)
		if err != nil {
			return page, err
		}
		for i := range part.Entries {
			bytes += len(part.Entries[i].Event) + len(part.Entries[i].Raw)
		}
		page.Entries, page.Next = append(page.Entries, part.Entries...), part.Next
		if part.Next == "" || len(page.Entries) >= want || bytes >= deadLetterPageBytes || len(part.Entries) < q.Limit {
			return page, nil
		}
		q.Cursor = part.Next
	}
}

func (dead *Handler) apiDeadLetter(c *gin.Context) {
	if !dead.hasDLQ(c) {
		return
	}
	if id := c.Param("id"); !plainID(id) {
		respond.Problem(
			c, http.StatusNotFound, fmt.Sprintf("%q is not the id of a dead letter.", format.Safe(id, format.MaxName)), nil)
		return
	}
	e, err := dead.Opt.DLQ.Get(c.Request.Context(), c.Param("id"))
	if err != nil {
		dead.dlqProblem(c, "read", "", err)
		return
	}
	respond.JSON(c, http.StatusOK, "application/json", e)
}

func (dead *Handler) apiDeadLetterStats(c *gin.Context) {
	if !dead.hasDLQ(c) {
		return
	}
	s, err := dead.Opt.DLQ.Stats(c.Request.Context())
	if err != nil {
		dead.dlqProblem(c, "count", "", err)
		return
	}
	for _, m := range []*map[string]int64{&s.ByOrigin, &s.ByReason, &s.BySink} {
		if *m == nil {
			*m = map[string]int64{}
		}
	}
	respond.JSON(c, http.StatusOK, "application/json", s)
}

func (dead *Handler) apiReplay(c *gin.Context) {
	if r, ok := dead.dlqBody(c, parseDLQRequest); ok {
		result, err := dead.replay(c, r)
		if err != nil {
			dead.dlqProblem(
				c, "replay", fmt.Sprintf(" completely (%d were replayed, %d failed)", result.Replayed, result.Failed), err)
			return
		}
		respond.JSON(c, http.StatusOK, "application/json", result)
	}
}

// discarded is the answer to a discard. In a dry run it says what would be done.
type discarded struct {
	DryRun    bool `json:"dry_run"`
	Discarded int  `json:"discarded"`
	NotFound  int  `json:"not_found"` // of the ids
}

func (dead *Handler) apiDiscard(c *gin.Context) {
	if r, ok := dead.dlqBody(c, parseDLQRequest); ok {
		result, err := dead.discard(c, r)
		if err != nil {
			dead.dlqProblem(c, "discard", fmt.Sprintf(" completely (%d were discarded)", result.Discarded), err)
			return
		}
		respond.JSON(c, http.StatusOK, "application/json", result)
	}
}

// purged is the answer to a purge. In a dry run it says what would be done.
type purged struct {
	DryRun bool   `json:"dry_run"`
	Before string `json:"before"`
	Purged int    `json:"purged"`
}

func (dead *Handler) apiPurge(c *gin.Context) {
	now := dead.Opt.Now()
	r, ok := dead.dlqBody(c, func(body []byte) (dlqRequest, error) { return parsePurge(body, now) })
	if !ok {
		return
	}
	before := r.before.UTC().Format("2006-01-02T15:04:05.999Z07:00")
	n, err := dead.purge(c, r)
	if err != nil {
		dead.dlqProblem(c, "purge", fmt.Sprintf(" completely (%d were purged)", n), err)
		return
	}
	respond.JSON(c, http.StatusOK, "application/json", purged{r.dryRun, before, n})
}

// replay carries out a replay and records it in the audit log.
func (dead *Handler) replay(c *gin.Context, r dlqRequest) (result dlq.ReplayResult, err error) {
	if r.ByIDs {
		result, err = dead.Opt.DLQ.ReplayIDs(c.Request.Context(), r.ids, r.dryRun)
	} else {
		result, err = dead.Opt.DLQ.Replay(c.Request.Context(), r.Query, r.dryRun)
	}
	dead.audit(c, "dlq.replay", r,
		fmt.Sprintf("%s replayed=%d failed=%d held_back=%d", r.which(), result.Replayed, result.Failed, result.HeldBack), err)
	return result, err
}

// discard carries out a discard and records it in the audit log.
func (dead *Handler) discard(c *gin.Context, r dlqRequest) (result discarded, err error) {
	result.DryRun = r.dryRun
	ctx := c.Request.Context()
	switch {
	case !r.ByIDs:
		result.Discarded, err = dead.Opt.DLQ.DiscardMatching(ctx, r.Query, r.dryRun)
	case r.dryRun:
		result.Discarded, err = dead.countIDs(ctx, r.ids)
	default:
		result.Discarded, err = dead.Opt.DLQ.Discard(ctx, r.ids)
	}
	if r.ByIDs && err == nil {
		result.NotFound = len(r.ids) - result.Discarded
	}
	dead.audit(c, "dlq.discard", r, fmt.Sprintf("%s discarded=%d", r.which(), result.Discarded), err)
	return result, err
}

func (dead *Handler) countIDs(ctx context.Context, ids []string) (n int, err error) {
	for _, id := range ids {
		switch _, err := dead.Opt.DLQ.Get(ctx, id); {
		case err == nil:
			n++
		case !errors.Is(err, dlq.ErrNotFound):
			return n, err
		}
	}
	return n, nil
}

// dlqBody reads the body of a request that changes dead letters, or sends a problem.
func (dead *Handler) dlqBody(c *gin.Context, parse func([]byte) (dlqRequest, error)) (r dlqRequest, ok bool) {
	if !dead.hasDLQ(c) {
		return r, false
	}
	body, ok := dead.JSONBody(c)
	if !ok {
		return r, false
	}
	var err error
	if r, err = parse(body); err != nil {
		respond.Problem(c, http.StatusBadRequest, "body: "+err.Error(), nil)
		return r, false
	}
	return r, true
}
