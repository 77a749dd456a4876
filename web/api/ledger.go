package api

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/api/v1"
	"github.com/sloengine/sloengine/web/respond"
)

// LedgerPath is where the ledger of an SLO is.
func LedgerPath(id slo.ID) string {
	return "/api/v1/slos/" + url.PathEscape(id.Service()) + "/" + url.PathEscape(id.Name()) + "/ledger"
}

func (api *Handler) apiLedger(c *gin.Context) {
	v := api.View()
	c.Header("Cache-Control", "no-store")
	r := api.one(c, v)
	if r == nil {
		return
	}
	if api.Opt.Counts == nil {
		respond.Problem(c, http.StatusNotImplemented, "This engine has no history.", nil)
		return
	}
	from := api.ReportSource()
	out := v1.LedgerAnswer{Report: newReportJSON(v), ID: r.SLO.ID, Group: groupJSON(r.SLO.GroupBy, r.Group),
		Accounts: slices.Concat([]slo.Account{slo.AccountCorrection}, from.LedgerOptions.Order(),
			[]slo.Account{slo.AccountUnexplained}),
		Deployment: from.LedgerOptions.AfterDeployment().Seconds()}
	l, err := from.Ledger(c.Request.Context(), v.Rep, r)
	if err != nil {
		api.Opt.LogError("read history of "+string(r.SLO.ID), err)
		respond.Problem(c, http.StatusServiceUnavailable, "The history could not be read now.", nil)
		return
	}
	if out.Ledger = newLedger(l, r.SLO, r.Budget); l == nil {
		if out.Why = r.SLO.Indicator.Kind.Unledgered(); out.Why == "" {
			out.Why = "Nothing was counted yet."
		}
	}
	respond.JSON(c, http.StatusOK, "application/json", out)
}

// newLedger is nil without a ledger. The budget is that of the report.
func newLedger(l *history.Ledger, s *slo.SLO, report slo.Budget) *v1.Ledger {
	if l == nil {
		return nil
	}
	out := &v1.Ledger{From: l.From.UTC(), To: l.To.UTC(), Unit: l.Unit, Spent: l.Amount(l.Spent),
		Consumed: number(l.Budget.Consumed, l.Budget.HasData), Since: l.Amount(l.Since(s, report)), LeftOut: l.Unread,
		Lines: []v1.LedgerLine{}}
	for i := range l.Lines {
		x := &l.Lines[i]
		out.Lines = append(out.Lines, v1.LedgerLine{Account: x.Account, Name: x.Name, Text: x.Text, Same: x.Same,
			From: x.From.UTC(), To: x.To.UTC(), Times: x.Times, Bad: l.Amount(x.Parts),
			Consumed: number(l.Of(x.Parts), x.Account != slo.AccountCorrection)})
	}
	return out
}
