package slo

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Account is what bad events are charged to in a ledger.
type Account string

// The accounts. Corrections are beside the budget. What no other account explains is unexplained.
const (
	AccountCorrection  Account = "correction"
	AccountMaintenance Account = "maintenance" // planned for other SLOs of the service
	AccountDependency  Account = "dependency"  // a cause that the SLO names failed
	AccountDeployment  Account = "deployment"
	AccountIncident    Account = "incident"
	AccountUnexplained Account = "unexplained"
)

// LedgerOrder is the default precedence of the accounts that can be chosen, the first the highest.
var LedgerOrder = []Account{AccountMaintenance, AccountDependency, AccountDeployment, AccountIncident}

// CheckLedgerOrder says what is wrong with an order of accounts.
func CheckLedgerOrder(order []Account) error {
	for i, a := range order {
		switch {
		case !slices.Contains(LedgerOrder, a):
			return fmt.Errorf("unknown account %q (want %s)", a, accountList(LedgerOrder))
		case slices.Contains(order[:i], a):
			return fmt.Errorf("duplicate account %q", a)
		}
	}
	return nil
}

func accountList(all []Account) string {
	names := make([]string, len(all))
	for i, a := range all {
		names[i] = string(a)
	}
	return strings.Join(names, ", ")
}

// Explanation is a time whose bad events an account is charged with. Those of one account and name are one line.
type Explanation struct {
	Account    Account
	Name, Text string
	Span
}

// LedgerLine is what one cause is charged with.
type LedgerLine struct {
	Account Account
	Name    string   // "" of AccountUnexplained
	Text    string   // more about it; may be ""
	Same    []string // other causes of the account that explain the same time, so that nothing tells them apart
	Span             // from its first time to the end of its last one
	Times   int      // how many times it has
	Parts   uint64   // in the unit of the ledger

	spans []Span
}

// LedgerPlan divides a time among accounts so that each moment is charged to one line.
type LedgerPlan struct {
	Span
	Pieces []Span // of the time, in order, without a gap or an overlap
	Lines  []LedgerLine
	Unread int   // explanations beyond MaxExplanations
	line   []int // by piece
}

// MaxExplanations is how many explanations a plan has at most. Of more, those of the lower accounts, and of one account
// the oldest, are left out.
const MaxExplanations = 2000

// NewLedgerPlan divides a time. The edges of explanations are rounded outward to CorrectionStep and, where slices are
// judged, to whole slices: those are charged as one. So what is charged stays the same as counts age. Where several
// explain a moment, the account that comes first in the order is charged, and within an account what began first. An
// account that the order lacks is not charged, except for corrections, which come first always.
func NewLedgerPlan(sp Span, order []Account, slice time.Duration, all []Explanation) *LedgerPlan {
	rank := map[Account]int{AccountCorrection: 0}
	for i, a := range order {
		rank[a] = i + 1
	}
	known := make([]Explanation, 0, len(all))
	for _, e := range all {
		if _, ok := rank[e.Account]; !ok || e.Duration() == 0 {
			continue
		}
		e.Span = e.RoundOut(CorrectionStep)
		if slice > 0 {
			e.Span = e.RoundOut(slice)
		}
		if e.Span = e.Intersect(sp); e.Duration() > 0 {
			known = append(known, e)
		}
	}
	slices.SortStableFunc(known, func(a, b Explanation) int {
		return cmp.Or(cmp.Compare(rank[a.Account], rank[b.Account]), b.From.Compare(a.From))
	})
	p := &LedgerPlan{Span: sp, Unread: max(0, len(known)-MaxExplanations)}
	known = known[:len(known)-p.Unread]
	p.Lines = append(ledgerLines(known, rank),
		LedgerLine{Account: AccountUnexplained, Span: sp, Times: 1, spans: []Span{sp}})

	type piece struct {
		Span
		line int
	}
	var pieces []piece
	free := []Span{sp}
	if sp.Duration() == 0 {
		free = nil
	}
	for i := range p.Lines {
		var mine []Span
		mine, free = Divide(free, p.Lines[i].spans)
		for _, s := range mine {
			pieces = append(pieces, piece{s, i})
		}
	}
	slices.SortFunc(pieces, func(a, b piece) int { return a.From.Compare(b.From) })
	for _, x := range pieces {
		if n := len(p.Pieces); n > 0 && p.line[n-1] == x.line && p.Pieces[n-1].To.Equal(x.From) {
			p.Pieces[n-1].To = x.To
			continue
		}
		p.Pieces, p.line = append(p.Pieces, x.Span), append(p.line, x.line)
	}
	return p
}

// ledgerLines makes one line of the explanations of each account and name, in the order in which they are charged.
func ledgerLines(all []Explanation, rank map[Account]int) []LedgerLine {
	type key struct {
		account Account
		name    string
	}
	at := map[key]int{}
	var out []LedgerLine
	for _, e := range all {
		k := key{e.Account, e.Name}
		i, ok := at[k]
		if !ok {
			i, at[k] = len(out), len(out)
			out = append(out, LedgerLine{Account: e.Account, Name: e.Name, Text: e.Text})
		}
		out[i].spans = append(out[i].spans, e.Span)
	}
	for i := range out {
		x := &out[i]
		x.spans = MergeSpans(x.spans)
		x.Times, x.From, x.To = len(x.spans), x.spans[0].From, x.spans[len(x.spans)-1].To
	}
	slices.SortStableFunc(out, func(a, b LedgerLine) int {
		return cmp.Or(cmp.Compare(rank[a.Account], rank[b.Account]), a.From.Compare(b.From), cmp.Compare(a.Name, b.Name))
	})
	same := map[string]int{}
	lines := out[:0]
	for _, x := range out {
		k := string(x.Account)
		for _, s := range x.spans {
			k += fmt.Sprintf(" %d-%d", s.From.UnixNano(), s.To.UnixNano())
		}
		if i, ok := same[k]; ok {
			lines[i].Same = append(lines[i].Same, x.Name)
			continue
		}
		same[k] = len(lines)
		lines = append(lines, x)
	}
	return lines
}

// Divide splits spans into what lies in others and what does not. Both are sorted and do not overlap.
func Divide(all, by []Span) (in, out []Span) {
	k := 0
	for _, s := range all {
		for k < len(by) && !by[k].To.After(s.From) {
			k++
		}
		at := s.From
		for i := k; i < len(by) && by[i].From.Before(s.To); i++ {
			x := by[i].Intersect(s)
			if at.Before(x.From) {
				out = append(out, Span{From: at, To: x.From})
			}
			in, at = append(in, x), x.To
		}
		if at.Before(s.To) {
			out = append(out, Span{From: at, To: s.To})
		}
	}
	return in, out
}

// Charge adds up what each line is charged with, given the parts that each piece lost, and returns the lines that are
// charged with something, in their order. Spent is their sum without corrections.
func (p *LedgerPlan) Charge(parts []uint64) (lines []LedgerLine, spent uint64) {
	all := slices.Clone(p.Lines)
	for i, n := range parts {
		all[p.line[i]].Parts += n
	}
	for _, x := range all {
		if x.Parts == 0 {
			continue
		}
		lines = append(lines, x)
		if x.Account != AccountCorrection {
			spent += x.Parts
		}
	}
	return lines, spent
}

// IsCorrection reports whether a piece is beside the budget.
func (p *LedgerPlan) IsCorrection(piece int) bool {
	return p.Lines[p.line[piece]].Account == AccountCorrection
}

// Unledgered says why the bad events of an indicator cannot be charged to moments of its window; "" if they can.
func (k IndicatorKind) Unledgered() string {
	switch k {
	case KindRatio:
		return "What the numerator is short of uses this budget. Missing events have no time, so nothing can be charged."
	case KindVolume:
		return "Missing events use this budget, and they have no time, so nothing can be charged."
	}
	return ""
}

// LedgerUnit is what a ledger is in, in the plural, and how many parts make one: whole events or slices, half events of
// an apdex, and billionths of a slice where the mean ratio of slices counts.
func (s *SLO) LedgerUnit(sliced bool) (name string, parts uint64) {
	switch {
	case s.ByRatio():
		return "slices", 1e9
	case sliced:
		return "slices", 1
	}
	return "events", s.Indicator.Kind.Unit()
}

// ByRatio reports whether the mean ratio of the slices is what counts.
func (s *SLO) ByRatio() bool {
	return s.Budgeting.Method == RatioTimeslices && s.Indicator.Kind != KindThroughput
}
