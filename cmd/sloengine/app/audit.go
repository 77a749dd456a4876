package app

import (
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strconv"

	"github.com/VictoriaMetrics/metrics"
	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/ingest"
	"github.com/sloengine/sloengine/reliability/audit"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

// AuditDir is the folder of the audit log in the data directory.
const AuditDir = "audit"

// AuditPath lists the audit log.
const AuditPath = "/api/v1/audit"

// auditTrail records what people changed, or tried to: in the engine's log and in the audit log.
type auditTrail struct {
	auth *ingest.Auth
	log  *slog.Logger
	file *audit.Log // nil: there is no data directory
}

func openAuditTrail(dir string, auth *ingest.Auth, set *metrics.Set, log *slog.Logger) (*auditTrail, error) {
	file, err := audit.Open(audit.Options{Dir: filepath.Join(dir, AuditDir), Set: set, Logger: log})
	return &auditTrail{auth, log, file}, err
}

// note records an action of a caller. What the caller is told afterwards is durable, unless the disk refuses it.
func (t *auditTrail) note(c *gin.Context, action, detail string, err error) {
	t.record(action, detail, t.auth.Caller(c.Request), c.Request.RemoteAddr, err)
}

func (t *auditTrail) record(action, detail, token, remote string, err error) {
	result := audit.OK
	if err != nil {
		result = audit.Failed
		if detail != "" {
			detail += " "
		}
		detail += "error=" + strconv.QuoteToASCII(err.Error())
	}
	if t.file != nil {
		// The action was done, and may have been what frees the disk. The log of the engine has it, and readiness says that
		// the audit log does not.
		_ = t.file.Record(audit.Entry{Action: action, Detail: detail, Result: result, Token: token, Remote: remote})
	}
	t.log.Info("audit", "action", action, "detail", detail, "result", result, "token", token, "remote", remote)
}

// AuditList is a page of the audit log, the newest entry first.
type AuditList struct {
	Items []audit.Entry `json:"items"`
	Next  string        `json:"next_cursor,omitempty"` // absent on the last page
}

// Bounds of the parameter limit.
const (
	auditPage    = 100
	maxAuditPage = 1000
)

func (t *auditTrail) serve(c *gin.Context) {
	c.Header("Cache-Control", "no-store")
	q, err := auditQuery(c)
	if err != nil {
		respond.Problem(c, http.StatusBadRequest, err.Error(), nil)
		return
	}
	list, more, err := t.file.Read(q)
	if err != nil {
		t.log.Error("audit log cannot be read", "err", err)
		c.Header("Retry-After", "5")
		respond.Problem(
			c, http.StatusServiceUnavailable, "The audit log could not be read. The engine's log has the cause.", nil)
		return
	}
	out := AuditList{Items: append([]audit.Entry{}, list...)}
	if more {
		out.Next = strconv.FormatUint(list[len(list)-1].Seq, 10)
	}
	respond.JSON(c, http.StatusOK, "application/json", out)
}

func auditQuery(c *gin.Context) (q audit.Query, err error) {
	q = audit.Query{Action: c.Query("action"), Token: c.Query("token"), Limit: auditPage}
	if s := c.Query("limit"); s != "" {
		if q.Limit, err = strconv.Atoi(s); err != nil || q.Limit < 1 || q.Limit > maxAuditPage {
			return q, fmt.Errorf("limit: want 1 to %d", maxAuditPage)
		}
	}
	if s := c.Query("from"); s != "" {
		if q.From, err = site.ParseTime(s); err != nil {
			return q, fmt.Errorf("from: %w", err)
		}
	}
	if s := c.Query("cursor"); s != "" {
		if q.Before, err = strconv.ParseUint(s, 10, 64); err != nil || q.Before == 0 {
			return q, fmt.Errorf("cursor: want next_cursor of an earlier answer")
		}
	}
	return q, nil
}
