package incidents

import (
	"bytes"
	"encoding/csv"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/respond"
)

// CSVColumns are the columns of the export. Times are RFC 3339 in UTC, what is not known is empty.
var CSVColumns = []string{
	"id", "service", "severity", "state", "title", "automated", "onset", "onset_by", "detected",
	"acknowledged", "resolved",
	"detection_seconds", "response_seconds", "duration_seconds", "acknowledged_by", "team", "alerts", "budget_spent",
	"public", "post_mortem", "cost", "currency", "status", "owner",
}

// csv sends the selected incidents after RFC 4180: UTF-8, lines end in CR LF, the first one names the columns.
func (h *Handler) csv(c *gin.Context) {
	all, ok := h.pick(c)
	if !ok {
		return
	}
	var buf bytes.Buffer
	w := csv.NewWriter(&buf)
	w.UseCRLF = true
	err := w.Write(CSVColumns)
	for i := 0; i < len(all) && err == nil; i++ {
		err = w.Write(h.csvLine(all[i]))
	}
	w.Flush()
	if err != nil {
		h.Opt.LogError("write incidents as CSV", err)
		respond.Problem(c, http.StatusInternalServerError, "The incidents could not be written as CSV.", nil)
		return
	}
	c.Header("Content-Disposition", `attachment; filename="incidents.csv"`)
	respond.Send(c, http.StatusOK, "text/csv; charset=utf-8", buf.Bytes())
}

func (h *Handler) csvLine(inc *incident.Incident) []string {
	x := h.item(inc)
	seconds := func(s float64) string { return strconv.FormatFloat(s, 'f', -1, 64) }
	stamp := func(at time.Time) string { return at.UTC().Format(time.RFC3339) }
	ack, by, response, resolved, spent := "", "", "", "", ""
	if inc.Ack != nil {
		ack, by = stamp(inc.Ack.Time), inc.Ack.By
	}
	if x.ResponseSeconds != nil {
		response = seconds(*x.ResponseSeconds)
	}
	if inc.Resolved != nil {
		resolved = stamp(inc.Resolved.Time)
	}
	if most, ok := largest(x.Spent); ok {
		spent = seconds(most)
	}
	cost, currency := "", ""
	if x.Costs != nil && len(x.Costs.Sums) == 1 { // several currencies are in the JSON document
		sum := &x.Costs.Sums[0]
		cost, currency = sum.Amount.In(sum.Currency), sum.Currency
	}
	return []string{
		inc.ID, format.CSV(inc.Service), string(inc.Severity), string(inc.State), format.CSV(inc.Title),
		strconv.FormatBool(inc.Automated),
		stamp(inc.Onset), inc.OnsetBy, stamp(inc.Detected), ack, resolved, seconds(x.DetectionSeconds), response,
		seconds(x.DurationSeconds),
		format.CSV(by), format.CSV(inc.ResponseTeam()), strconv.Itoa(x.AlertCount), spent, strconv.FormatBool(inc.Public),
		format.CSV(inc.PostMortem), cost, currency, string(x.Status), format.CSV(x.ResponseOwner),
	}
}
