package send

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/sloengine/sloengine/client/post"
)

// Summary is what became of the input. Read = Sent + Unsent + those of Rejected
// that no request could carry; Sent = Accepted + Duplicates + Limited + Sampled +
// DeadLettered + the rest of Rejected.
type Summary struct {
	Read       int `json:"read"`       // lines or events, without blank lines
	Sent       int `json:"sent"`       // decided by the server
	Accepted   int `json:"accepted"`   // counted now
	Duplicates int `json:"duplicates"` // known to the server already
	Rejected   int `json:"rejected"`   // will never be taken as they are
	Unsent     int `json:"unsent"`     // read, but not decided

	Limited      int `json:"limited,omitempty"`
	Sampled      int `json:"sampled,omitempty"`
	DeadLettered int `json:"dead_lettered,omitempty"`

	Requests   int     `json:"requests"`
	Retries    int64   `json:"retries"`
	WireBytes  int64   `json:"wire_bytes"`
	Seconds    float64 `json:"seconds"`
	ShiftHours int64   `json:"shift_hours,omitempty"`

	// WithDuration is how many of the events that were read have a duration.
	WithDuration int `json:"with_duration"`

	RejectedBy      []RejectedCode `json:"rejected_by_code"` // the most frequent first
	Errors          []Rejection    `json:"errors"`
	ErrorsTruncated bool           `json:"errors_truncated"`
}

// Rejection is one line that was not taken.
type Rejection struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	ID     string `json:"id,omitempty"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

func (r Rejection) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", r.File, r.Line, r.Code, r.Detail)
}

// rejection is what leads to a Rejection.
type rejection struct {
	item             item
	ID, Code, Detail string
}

// result gathers what all senders and readers find. It is safe for concurrent use.
type result struct {
	listed  int
	rejects io.Writer // nil for none
	// hears of the first rejection of each code, since following has no end; nil: the summary is enough
	follow *slog.Logger

	mu      sync.Mutex
	summary Summary
	codes   map[string]*codeCount
}

func newResult(o *Options, rejects io.Writer) *result {
	r := &result{listed: o.MaxErrors, rejects: rejects, summary: Summary{Errors: []Rejection{}},
		codes: map[string]*codeCount{}}
	if o.Follow {
		r.follow = o.Logger
	}
	return r
}

func (r *result) count(change func(*Summary)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.summary)
}

// reject lists a rejection and saves its line; the counters are the caller's.
// It fails if the line cannot be saved.
func (r *result) reject(rej rejection) error {
	found := Rejection{File: rej.item.file, Line: rej.item.line, ID: rej.ID, Code: rej.Code, Detail: rej.Detail}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.countCode(found)
	if len(r.summary.Errors) < r.listed {
		r.summary.Errors = append(r.summary.Errors, found)
	} else {
		r.summary.ErrorsTruncated = true
	}
	if r.rejects == nil {
		return nil
	}
	data, err := json.Marshal(struct {
		Rejection
		Raw string `json:"raw"`
	}{found, rej.item.raw})
	if err != nil {
		return fmt.Errorf("write rejects: %w", err)
	}
	if _, err := r.rejects.Write(append(data, '\n')); err != nil {
		return fmt.Errorf("write rejects: %w", err)
	}
	return nil
}

// add counts what the server decided.
func (s *Summary) add(t *post.Tally) {
	s.Sent += t.Sum()
	s.Accepted += t.Accepted
	s.Duplicates += t.Duplicates
	s.Rejected += t.Rejected
	s.Limited += t.Limited
	s.Sampled += t.Sampled
	s.DeadLettered += t.DeadLettered
}

// final completes the figures once everything has ended.
func (r *result) final(took time.Duration, retries int64) Summary {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.summary
	s.Seconds = took.Seconds()
	s.Retries = retries
	s.RejectedBy = r.byCode()
	decided := s.Accepted + s.Duplicates + s.Limited + s.Sampled + s.DeadLettered + s.Rejected
	s.Unsent = max(s.Read-decided, 0)
	return *s
}

// write prints the summary in the given form.
func (s *Summary) write(w io.Writer, form string) error {
	if form == "json" {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		if err := enc.Encode(s); err != nil {
			return fmt.Errorf("write summary: %w", err)
		}
		return nil
	}
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, n int, note string) {
		if note != "" {
			note = "  " + note
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", name, strconv.Itoa(n), note)
	}
	row("read", s.Read, "")
	row("accepted", s.Accepted, "")
	row("duplicates", s.Duplicates, "already accepted earlier")
	for _, extra := range []struct {
		name string
		n    int
	}{{"limited", s.Limited}, {"sampled", s.Sampled}, {"dead-lettered", s.DeadLettered}} {
		if extra.n > 0 {
			row(extra.name, extra.n, "")
		}
	}
	row("rejected", s.Rejected, "")
	if s.Unsent > 0 {
		row("unsent", s.Unsent, "run the command again; no event is counted twice")
	}
	_ = table.Flush() // into memory
	fmt.Fprintf(&out, "%d requests, %d retries, %s in %s", s.Requests, s.Retries, bytesText(s.WireBytes),
		time.Duration(s.Seconds*float64(time.Second)).Round(time.Millisecond))
	if s.ShiftHours != 0 {
		fmt.Fprintf(&out, ", times shifted by %+d hours", s.ShiftHours)
	}
	out.WriteByte('\n')
	s.explain(&out)
	if len(s.Errors) > 0 {
		out.WriteByte('\n')
	}
	for _, e := range s.Errors {
		// Details quote the input, which may hold anything a terminal obeys.
		out.WriteString(strings.Map(printable, e.String()))
		out.WriteByte('\n')
	}
	if more := s.Rejected - len(s.Errors); more > 0 && s.ErrorsTruncated {
		fmt.Fprintf(&out, "and %d more\n", more)
	}
	if _, err := io.WriteString(w, out.String()); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	return nil
}

func printable(r rune) rune {
	if r < ' ' || r >= 0x7f && r < 0xa0 {
		return '.'
	}
	return r
}

func bytesText(n int64) string {
	switch {
	case n < 10_000:
		return fmt.Sprintf("%d B", n)
	case n < 10_000_000:
		return fmt.Sprintf("%d kB", n/1000)
	default:
		return fmt.Sprintf("%d MB", n/1_000_000)
	}
}
