package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// Kind says what happened to something.
type Kind string

// The kinds of change.
const (
	Added   Kind = "added"
	Removed Kind = "removed"
	Changed Kind = "changed"
)

// Change is one thing that is different.
type Change struct {
	Kind    Kind   `json:"kind"`
	What    string `json:"what"`              // slo, sla, threshold, alert, record or group
	ID      string `json:"id"`                // of what, such as shop/checkout
	Field   string `json:"field,omitempty"`   // such as objective; empty for the whole
	Old     string `json:"old,omitempty"`     // as a person would write it
	New     string `json:"new,omitempty"`     //
	Meaning string `json:"meaning,omitempty"` // what it leads to
}

// String is one line such as
//
//	~ slo shop/checkout objective: 99.9% -> 99.95%; budget per 30d 43m12s -> 21m36s
func (c Change) String() string {
	var b strings.Builder
	b.WriteString(map[Kind]string{Added: "+ ", Removed: "- ", Changed: "~ "}[c.Kind])
	b.WriteString(c.What + " " + c.ID)
	if c.Field != "" {
		b.WriteString(" " + c.Field)
	}
	switch {
	case c.Kind == Changed && (c.Old != "" || c.New != ""):
		fmt.Fprintf(&b, ": %s -> %s", none(c.Old), none(c.New))
	case c.New != "":
		b.WriteString(": " + c.New)
	case c.Old != "":
		b.WriteString(": " + c.Old)
	}
	if c.Meaning != "" {
		b.WriteString("; " + c.Meaning)
	}
	return b.String()
}

func none(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// ChangesText lists changes, one per line.
func ChangesText(cs []Change) string {
	var b strings.Builder
	for _, c := range cs {
		b.WriteString(c.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// moved says how the moment at which something fires differs; "" if it does not
// by as much as a twentieth or a second.
func moved(old, new Detection) string {
	switch {
	case !old.Fires && !new.Fires:
		return ""
	case !old.Fires:
		return "fires after " + Human(new.After) + ", before it never did"
	case !new.Fires:
		return "never fires any more, before it did after " + Human(old.After)
	}
	d := new.After - old.After
	if abs := max(d, -d); abs < time.Second || abs < old.After/20 {
		return ""
	}
	if d < 0 {
		return "fires about " + Human(-d) + " earlier"
	}
	return "fires about " + Human(d) + " later"
}

// meaning says what a change of a tier's thresholds or windows leads to, for
// outages in which the given share of events fails.
func meaning(old, new Policy, shares ...float64) string {
	var out []string
	for _, e := range shares {
		o := Outage{ErrorRatio: e}
		if m := moved(old.Detect(1, o), new.Detect(1, o)); m != "" {
			out = append(out, fmt.Sprintf("with %s %% failing it %s", slo.FormatRatio(round(100*e)), m))
		}
	}
	return strings.Join(out, "; ")
}
