package remote

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/web/api"
	"github.com/sloengine/sloengine/web/api/v1"
	"github.com/sloengine/sloengine/web/status"
)

func agreementState(a *v1.SLA) string {
	switch {
	case !a.HasData:
		return "no data"
	case a.Breached:
		return "breached"
	}
	return "met"
}

// agreements reads all of them, breached ones first, then the lowest score.
func agreements(ctx context.Context, c *Client, q url.Values) ([]v1.SLA, error) {
	answer := v1.SLAList{Items: []v1.SLA{}}
	if err := c.Read(ctx, "/api/v1/slas", q, &answer); err != nil {
		return nil, err
	}
	score := func(a v1.SLA) float64 {
		switch {
		case a.Score == nil:
			return 101
		case a.Breached:
			return *a.Score - 101
		}
		return *a.Score
	}
	order.By(answer.Items, func(a, b *v1.SLA) int { return cmp.Compare(score(*a), score(*b)) })
	return answer.Items, nil
}

// stateColours are those of budgets, agreements and severities.
var stateColours = map[string]cli.Colour{
	"ok": cli.Green, "at risk": cli.Yellow, "firing": cli.Red, "exhausted": cli.Red, "no data": cli.Faint,
	"waiting for data": cli.Faint,
	"met":              cli.Green, "breached": cli.Red, "critical": cli.Red, "page": cli.Red, "warning": cli.Yellow,
	"ticket": cli.Yellow,
}

func (s *engineStatus) print(w io.Writer, screen cli.Screen) error {
	if f := s.Failing; f != nil {
		fmt.Fprintf(w, "%s\n\n", cli.Printable(f.Summary))
	}
	if s.none != "" {
		fmt.Fprintf(w, "%s\n\n", s.none)
	}
	printed := false
	for _, t := range []*cli.Table{alertTable(s.Alerts), sloTable(s.SLOs), agreementTable(s.Agreements),
		forecastTable(s.SLOs)} {
		if t.Len() > 0 && printed {
			fmt.Fprintln(w)
		}
		printed = printed || t.Len() > 0
		if err := t.Write(w, screen); err != nil {
			return err
		}
	}
	for _, l := range s.Ledgers {
		if err := printLedger(w, screen, l); err != nil {
			return err
		}
	}
	return nil
}

// state is how people call it.
func (r *statusRow) state() string {
	switch {
	case r.Paging:
		return "firing"
	case r.Waiting:
		return "waiting for data"
	}
	return cli.Words(string(r.State))
}

func sloTable(rows []*statusRow) *cli.Table {
	t := &cli.Table{Columns: []cli.Column{
		{Name: "STATE"}, {Name: "SLO", Shrink: true, Prefix: "/"}, {Name: "GROUP", Shrink: true},
		{Name: "OBJECTIVE", Drop: 2},
		{Name: "NOW", Drop: 1},
		{Name: "BUDGET LEFT"}, {Name: "BURN 1H"}, {Name: "PER S", Drop: 3}, {Name: "LAST 24H", Drop: 4},
	}}
	for _, r := range rows {
		burn := (*float64)(nil)
		for _, b := range r.Burns {
			if b.Window == "1h" {
				burn = b.Rate
			}
		}
		state := r.state()
		t.Add(stateColours[state], state, cli.Printable(string(r.ID)), cli.GroupText(r.Group),
			cli.Printable(r.Percent+"% / "+r.Window),
			cli.Percent(r.Budget.SLI, 3), cli.Percent(r.Budget.Remaining, 1), cli.Decimal(burn, 2), cli.Decimal(r.Rate, 1),
			sparkline(r.History))
	}
	return t
}

func agreementTable(all []v1.SLA) *cli.Table {
	t := &cli.Table{Columns: []cli.Column{
		{Name: "STATE"}, {Name: "AGREEMENT", Shrink: true}, {Name: "GROUP", Shrink: true}, {Name: "SCORE"},
		{Name: "POSSIBLE", Drop: 2}, {Name: "WORST COMPONENT", Shrink: true}, {Name: "WINDOW", Drop: 1},
	}}
	for i := range all {
		a := &all[i]
		possible, worst := "", ""
		if a.Missing > 0 {
			possible = cli.Decimal(a.Low, 1) + " to " + cli.Decimal(a.High, 1)
		}
		if a.Worst != nil {
			worst = cli.Printable(*a.Worst)
		}
		t.Add(stateColours[agreementState(a)], agreementState(a), cli.Printable(a.Service+"/"+a.SLA), cli.GroupText(a.Group),
			cli.Decimal(a.Score, 2), possible, worst, cli.Printable(a.Window))
	}
	return t
}

// forecastTable lists the budgets that are not empty and will be within a week at their recent pace.
func forecastTable(rows []*statusRow) *cli.Table {
	const week = 7 * 24 * 3600
	t := &cli.Table{Columns: []cli.Column{{Name: "RUNS OUT", Shrink: true}, {Name: "GROUP", Shrink: true},
		{Name: "FORECAST", Shrink: true}}}
	for _, r := range rows {
		if f := r.Forecast; f != nil && f.Pace != nil && f.Pace.Low != nil && *f.Pace.Low != 0 && *f.Pace.Low <= week {
			t.Add("", cli.Printable(string(r.ID)), cli.GroupText(r.Group), cli.Printable(f.Summary))
		}
	}
	return t
}

func alertTable(active []v1.Alert) *cli.Table {
	t := &cli.Table{Columns: []cli.Column{
		{Name: "SEVERITY"}, {Name: "ALERT", Shrink: true}, {Name: "STATE"}, {Name: "ABOUT", Shrink: true},
		{Name: "GROUP", Shrink: true}, {Name: "SINCE", Drop: 1},
	}}
	for _, a := range active {
		about, since := a.Service, "-"
		if a.ActiveSince != nil {
			since = cli.TimeCell(*a.ActiveSince)
		}
		switch {
		case a.SLO != nil:
			about = string(*a.SLO)
		case a.Agreement != nil:
			about += "/" + *a.Agreement
		}
		t.Add(stateColours[a.Severity], cli.Printable(a.Severity), cli.Printable(a.Name), cli.Printable(a.State),
			cli.Printable(about), cli.GroupText(a.Group), since)
	}
	return t
}

// printRejects prints what was rejected, and from whom.
func printRejects(ctx context.Context, o *engineCommand) error {
	var got api.RejectList
	if err := o.engine.Read(ctx, api.RejectsPath, nil, &got); err != nil {
		return err
	}
	return o.Print(got, func() error {
		if len(got.Items)+len(got.Types) == 0 {
			_, err := fmt.Fprintln(o.Err, "nothing was rejected")
			return err
		}
		screen := cli.ScreenOf(o.Out)
		if err := rejectTable(got.Items).Write(o.Out, screen); err != nil || len(got.Types) == 0 {
			return err
		}
		fmt.Fprintln(o.Out)
		return unknownTable(got.Types).Write(o.Out, screen)
	})
}

// unknownTable lists the types of events that no spec counts.
func unknownTable(list []status.UnknownType) *cli.Table {
	t := &cli.Table{Columns: []cli.Column{{Name: "CODE"}, {Name: "SERVICE", Shrink: true}, {Name: "TYPE", Shrink: true},
		{Name: "EVENTS"}, {Name: "SINCE"}, {Name: "LAST", Drop: 1}}}
	for i := range list {
		x := &list[i]
		t.Add("", string(x.Code), cli.Printable(x.Service), cli.Printable(x.Type), strconv.FormatUint(x.Events, 10),
			cli.TimeCell(x.First), cli.TimeCell(x.Last))
	}
	return t
}

func rejectTable(codes []status.RejectedCode) *cli.Table {
	t := &cli.Table{Columns: []cli.Column{
		{Name: "CODE"}, {Name: "FROM", Shrink: true}, {Name: "SERVICE", Shrink: true}, {Name: "COUNT"},
		{Name: "LAST", Drop: 1}, {Name: "WHY", Shrink: true}, {Name: "SAMPLE", Shrink: true, Drop: 2},
	}}
	for _, c := range codes {
		for _, s := range c.Senders {
			who := "token " + s.Token
			if s.Token == "" {
				who = s.Address
			}
			t.Add("", cli.Printable(c.Code), cli.Printable(who), cli.Printable(s.Service), strconv.FormatUint(s.Count, 10),
				cli.TimeCell(s.Last), cli.Printable(s.Detail), cli.Printable(s.Sample))
		}
		if c.Others > 0 {
			t.Add("", cli.Printable(c.Code), "others", "", strconv.FormatUint(c.Others, 10), "", "", "")
		}
	}
	return t
}
