package remote

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/api"
	"github.com/sloengine/sloengine/web/api/v1"
)

// maxLedgers is how many groups of an SLO show where their budget went: the worst.
const maxLedgers = 10

// sloFlag reads the flag --slo.
func sloFlag(text string) (slo.ID, error) {
	service, name, ok := strings.Cut(text, "/")
	if !ok || service == "" || name == "" {
		return "", cli.Usagef("invalid --slo (want SERVICE/SLO, such as shop/checkout)")
	}
	return slo.ID(text), nil
}

// readOneStatus reads the groups of one SLO in a state, and where their budgets went.
func readOneStatus(ctx context.Context, c *Client, id slo.ID, state string) (*engineStatus, error) {
	all := &engineStatus{Agreements: []v1.SLA{}, Alerts: []v1.Alert{}}
	rows, _, err := statusRows(ctx, c, url.Values{"service": {id.Service()}}, state)
	if err != nil {
		return nil, err
	}
	all.SLOs = slices.DeleteFunc(rows, func(r *statusRow) bool { return r.ID != id })
	if len(all.SLOs) == 0 {
		if state == "" {
			return nil, fmt.Errorf("there is no SLO %s in the running spec", id)
		}
		all.none = "No group of " + string(id) + " is in the state " + state + "."
	}
	for _, r := range all.SLOs[:min(len(all.SLOs), maxLedgers)] {
		var l v1.LedgerAnswer
		if err := c.Read(ctx, api.LedgerPath(id), groupParams(r.Group), &l); err != nil {
			return nil, err
		}
		all.Ledgers = append(all.Ledgers, &l)
	}
	return all, nil
}

// printLedger prints where the budget of a group went.
func printLedger(w io.Writer, screen cli.Screen, l *v1.LedgerAnswer) error {
	about := strings.TrimSpace(cli.Printable(string(l.ID)) + " " + cli.GroupText(l.Group))
	if l.Ledger == nil {
		_, err := fmt.Fprintf(w, "\n%s: %s\n", about, cli.Printable(l.Why))
		return err
	}
	fmt.Fprintf(w, "\n%s spent %s of its budget on %s bad %s:\n", about, cli.Percent(l.Ledger.Consumed, 1),
		ledgerAmount(l.Ledger.Spent), cli.Printable(l.Ledger.Unit))
	t := &cli.Table{Columns: []cli.Column{{Name: "ACCOUNT"}, {Name: "CAUSE", Shrink: true}, {Name: "FROM", Drop: 2},
		{Name: "TO", Drop: 2}, {Name: "TIMES", Drop: 1}, {Name: "BAD"}, {Name: "OF THE BUDGET"}}}
	for i := range l.Ledger.Lines {
		x := &l.Ledger.Lines[i]
		from, to, times, share := "", "", "", "beside"
		if x.Account != slo.AccountUnexplained {
			from, to, times = x.From.Format(time.RFC3339), x.To.Format(time.RFC3339), strconv.Itoa(x.Times)
		}
		if x.Consumed != nil {
			share = cli.Percent(x.Consumed, 1)
		}
		cause := strings.Join(append([]string{x.Name}, x.Same...), ", ")
		t.Add("", cli.Printable(string(x.Account)), cli.Printable(strings.TrimSpace(cause+" "+x.Text)), from, to, times,
			ledgerAmount(x.Bad), share)
	}
	if err := t.Write(w, screen); err != nil {
		return err
	}
	if l.Ledger.Since > 0 {
		fmt.Fprintf(w, "%s of them were received after the report above.\n", ledgerAmount(l.Ledger.Since))
	}
	names := make([]string, len(l.Accounts))
	for i, a := range l.Accounts {
		names[i] = cli.Printable(string(a))
	}
	_, err := fmt.Fprintf(w, "charged in the order: %s\n", strings.Join(names, ", "))
	return err
}

func ledgerAmount(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
