package site

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
)

// Ledger is where a spent budget went, in words.
type Ledger struct {
	Unit  string // Bad events or Bad slices
	Rows  []LedgerRow
	Rest  *LedgerRow // what the rows beyond MaxLedgerRows have together
	Spent LedgerRow
	Notes []string
	Order string // of the accounts
}

// LedgerRow is what one cause is charged with.
type LedgerRow struct {
	Account, Name, Text, Href string
	When                      string
	Bad, Share                string
}

// MaxLedgerRows is how many causes a table has at most, without what is unexplained. The API has all of them.
const MaxLedgerRows = 12

// accountNames are the accounts in words.
var accountNames = map[slo.Account]string{
	slo.AccountCorrection: "Correction", slo.AccountMaintenance: "Maintenance", slo.AccountDependency: "Dependency",
	slo.AccountDeployment: "Deployment", slo.AccountIncident: "Incident", slo.AccountUnexplained: "Unexplained",
}

// NewLedger puts a ledger in words; nil if nothing was spent. The budget is that of the numbers beside it.
func (site *Site) NewLedger(l *history.Ledger, s *slo.SLO, beside slo.Budget) *Ledger {
	if l == nil || len(l.Lines) == 0 {
		return nil
	}
	out := &Ledger{Unit: "Bad " + l.Unit, Spent: LedgerRow{Bad: amount(l.Spent, l.Scale), Share: format.NoValue}}
	if l.Budget.HasData {
		out.Spent.Share = format.Percent(l.Budget.Consumed, 1)
	}
	more, rest, beyond := 0, uint64(0), uint64(0)
	for i := range l.Lines {
		x := &l.Lines[i]
		if len(out.Rows) >= MaxLedgerRows && x.Account != slo.AccountUnexplained {
			more++
			if x.Account == slo.AccountCorrection {
				beyond += x.Parts
			} else {
				rest += x.Parts
			}
			continue
		}
		row := NewLedgerRow(l, x)
		if x.Account == slo.AccountIncident {
			row.Href = site.Href(IncidentPath, url.Values{"id": {x.Name}})
		}
		out.Rows = append(out.Rows, row)
	}
	if more > 0 {
		out.Rest = &LedgerRow{Account: format.Count(more) + " more", Bad: amount(rest, l.Scale),
			Share: format.Percent(l.Of(rest), 1)}
		if beyond > 0 {
			out.Rest.Text = amount(beyond, l.Scale) + " beside the budget"
		}
	}
	if n := l.Since(s, beside); n > 0 {
		out.Notes = append(out.Notes, amount(n, l.Scale)+" of them were received after the report of this page.")
	}
	if l.Unread > 0 {
		out.Notes = append(out.Notes, format.Count(l.Unread)+" older causes are left out.")
	}
	out.Order = site.ledgerOrder()
	return out
}

func (site *Site) ledgerOrder() string {
	order := []string{"corrections, which are beside the budget"}
	for _, a := range site.Opt.Ledger.Order() {
		name := string(a)
		if a == slo.AccountDeployment {
			name += " (for " + format.Duration(site.Opt.Ledger.AfterDeployment()) + ")"
		}
		order = append(order, name)
	}
	return "Each bad event or slice is charged to the first that explains its time: " + strings.Join(order, ", ") + "."
}

// NewLedgerRow puts a line of a ledger in words.
func NewLedgerRow(l *history.Ledger, x *slo.LedgerLine) LedgerRow {
	row := LedgerRow{Account: accountNames[x.Account], Text: format.Safe(x.Text, format.MaxTitle),
		Name: format.Safe(x.Name, format.MaxTitle), Bad: amount(x.Parts, l.Scale), Share: "beside"}
	if len(x.Same) > 0 {
		row.Name = format.And(append([]string{row.Name}, format.Safe(strings.Join(x.Same, ", "), format.MaxTitle)))
	}
	if x.Account != slo.AccountUnexplained {
		row.When = format.Span(x.Span)
		if x.Times > 1 {
			row.When = format.Count(x.Times) + " times, " + row.When
		}
	}
	if x.Account != slo.AccountCorrection {
		row.Share = format.Percent(l.Of(x.Parts), 1)
	}
	return row
}

// amount is a number of parts in the unit that so many make.
func amount(parts, scale uint64) string {
	if parts%scale == 0 {
		return format.Count(parts / scale)
	}
	return strconv.FormatFloat(float64(parts)/float64(scale), 'f', 1, 64)
}
