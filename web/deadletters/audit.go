package deadletters

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
)

// shownIDs is how many ids a line of the audit names.
const shownIDs = 20

// which describes on one line what a request selects, with foreign text quoted.
func (r *dlqRequest) which() string {
	switch {
	case r.ByIDs:
		s := fmt.Sprintf("ids=%d [%s", len(r.ids), strings.Join(r.ids[:min(len(r.ids), shownIDs)], " "))
		if len(r.ids) > shownIDs {
			s += " ..."
		}
		return s + "]"
	case r.All:
		return "all"
	}
	var parts []string
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+"="+strconv.QuoteToASCII(value))
		}
	}
	q := &r.Query
	add("origin", string(q.Origin))
	add("sink", q.Sink)
	add("service", q.Service)
	add("type", q.Type)
	add("severity", q.Severity)
	add("reason", q.Reason)
	add("class", q.Class)
	if !q.From.IsZero() {
		add("from", q.From.UTC().Format(time.RFC3339Nano))
	}
	if !q.To.IsZero() {
		add("to", q.To.UTC().Format(time.RFC3339Nano))
	}
	return "query " + strings.Join(parts, " ")
}

// audit records a change or a failed attempt. A dry run changes nothing and is not recorded.
func (dead *Handler) audit(c *gin.Context, action string, r dlqRequest, detail string, err error) {
	if r.dryRun {
		return
	}
	dead.Opt.Audit(c, action, detail, err)
}
