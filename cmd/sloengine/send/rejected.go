package send

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sloengine/sloengine/internal/order"
)

const (
	// maxCodes bounds the codes that are told apart. The engine has about thirty.
	maxCodes = 50
	// maxRanges bounds the ranges of lines of a code.
	maxRanges = 100
	// shownRanges is how many of them the table shows.
	shownRanges = 5
	otherCodes  = "other"
)

// RejectedCode is how many events were rejected with a code, and where they are.
type RejectedCode struct {
	Code   string  `json:"code"`
	Count  int     `json:"count"`
	Lines  []Lines `json:"lines"`
	More   bool    `json:"more_lines,omitempty"` // there are more ranges than listed
	Detail string  `json:"detail"`               // of one of them
}

// Lines is a range of lines of a file, From and To included.
type Lines struct {
	File string `json:"file"`
	From int    `json:"from"`
	To   int    `json:"to"`
}

func (l Lines) String() string {
	if l.From == l.To {
		return fmt.Sprintf("%s:%d", l.File, l.From)
	}
	return fmt.Sprintf("%s:%d-%d", l.File, l.From, l.To)
}

// codeCount gathers a RejectedCode. Its lines are in order.
type codeCount struct{ RejectedCode }

// countCode counts a rejection by its code. r.mu is held.
func (r *result) countCode(found Rejection) {
	code := found.Code
	c := r.codes[code]
	if c == nil {
		if len(r.codes) >= maxCodes {
			code = otherCodes
		}
		if c = r.codes[code]; c == nil {
			c = &codeCount{RejectedCode{Code: code, Detail: found.Detail, Lines: []Lines{}}}
			r.codes[code] = c
			if r.follow != nil {
				r.follow.Warn("events rejected", "code", code, "at", fmt.Sprintf("%s:%d", found.File, found.Line),
					"detail", found.Detail)
			}
		}
	}
	c.Count++
	c.add(Lines{found.File, found.Line, found.Line})
}

// add puts a line into the range that it continues, or into one of its own. Batches end in any order.
func (c *codeCount) add(l Lines) {
	at, _ := slices.BinarySearchFunc(c.Lines, l, func(a, b Lines) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.From, b.From))
	})
	joins := func(i int) bool { return i >= 0 && i < len(c.Lines) && c.Lines[i].File == l.File }
	before := joins(at-1) && c.Lines[at-1].To+1 >= l.From
	after := joins(at) && c.Lines[at].From <= l.To+1
	switch {
	case before && after:
		c.Lines[at-1].To = c.Lines[at].To
		c.Lines = slices.Delete(c.Lines, at, at+1)
	case before:
		c.Lines[at-1].To = max(c.Lines[at-1].To, l.To)
	case after:
		c.Lines[at].From = l.From
	case len(c.Lines) < maxRanges:
		c.Lines = slices.Insert(c.Lines, at, l)
	default:
		c.More = true
	}
}

// byCode is what was rejected, the most frequent code first. r.mu is held.
func (r *result) byCode() []RejectedCode {
	all := make([]RejectedCode, 0, len(r.codes))
	for _, c := range r.codes {
		all = append(all, c.RejectedCode)
	}
	order.By(all, func(a, b *RejectedCode) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Code, b.Code))
	})
	return all
}

// explain prints each code once, with the lines that it is about.
func (s *Summary) explain(out *strings.Builder) {
	for i, c := range s.RejectedBy {
		if i == 0 {
			fmt.Fprintf(out, "\nrejected, and not sent again:\n")
		}
		var where strings.Builder
		for j, l := range c.Lines[:min(len(c.Lines), shownRanges)] {
			if j > 0 {
				where.WriteString(", ")
			}
			if text := l.String(); j > 0 && c.Lines[j-1].File == l.File {
				where.WriteString(text[len(l.File)+1:])
			} else {
				where.WriteString(text)
			}
		}
		if c.More || len(c.Lines) > shownRanges {
			where.WriteString(", ..")
		}
		out.WriteString(strings.Map(printable, fmt.Sprintf("  %s  %d at %s", c.Code, c.Count, where.String())))
		out.WriteByte('\n')
	}
}
