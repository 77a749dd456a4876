package state

import (
	"hash/fnv"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/slo"
)

// State is where an alert is in its life.
type State string

// The states. An inactive alert is not kept: it appears only as the end of a
// transition, of a pending alert whose condition passed.
const (
	Inactive State = "inactive"
	Pending  State = "pending"
	Firing   State = "firing"
	Resolved State = "resolved"
)

// Label is one name and value.
type Label struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Alert is one alert in one group, as of the last step. Values are copies; the
// slices are shared and must not be changed. Its JSON is that of snapshots: what follows from the labels is left out.
type Alert struct {
	Fingerprint string    `json:"-"`                   // stable for the same labels, 16 hexadecimal digits
	Labels      []Label   `json:"labels"`              // by name, alertname among them
	Name        string    `json:"-"`                   // the label alertname
	Severity    string    `json:"-"`                   // the label severity
	SLO         slo.ID    `json:"slo,omitempty"`       // "" if it is about no single one
	Agreement   string    `json:"agreement,omitempty"` // name of the agreement that chose it; "" if none
	Service     string    `json:"service,omitempty"`
	GroupBy     []string  `json:"group_by,omitempty"` // what the group is by, as the spec says it; empty without one
	Group       slo.Group `json:"group,omitempty"`    // values of the group, in that order
	Urgent      bool      `json:"urgent,omitempty"`   // it needs a person now
	Engine      bool      `json:"engine,omitempty"`   // it is about the engine itself

	State State `json:"state"`
	// Value is what was compared last while the condition held: an error ratio, a
	// share of the budget, a score or a number of events.
	Value float64 `json:"value"`

	ActiveSince time.Time `json:"active_since"` // start of the condition, as far as it is known to have held
	FirstBad    time.Time `json:"first_bad"`    // about when what it tells of began; never after ActiveSince
	FiredAt     time.Time `json:"fired_at,omitzero"`
	ResolvedAt  time.Time `json:"resolved_at,omitzero"`
	Removed     bool      `json:"removed,omitempty"` // resolved because the spec or the group is gone
	Kept        bool      `json:"-"`                 // firing on because too little is observed to tell whether it is over

	// Traces are links to the last failing traces, the newest first, of an alert that fires and needs a person now.
	Traces []string `json:"-"`

	// Why is what is different about the bad events, likewise. It has values that came with events.
	Why string `json:"-"`

	// Forecast is when a budget of which little is left will be empty.
	Forecast string `json:"-"`

	live *alerts.Live // nil for a resolved alert of an earlier process whose definition is gone
}

// Annotations are the texts of the generated rule with the labels and the value filled in, and the links to the alert's
// page and to failing traces where their addresses are known, sorted by name. There are none if the definition of the
// alert is not known any more.
func (a *Alert) Annotations() []alerts.Annotation {
	return a.Show(nil)
}

// Show is Annotations with the values that came with events as escape makes them. Links have them as they are.
func (a *Alert) Show(escape func(value string) string) []alerts.Annotation {
	if a.live == nil {
		return nil
	}
	labels := make(map[string]string, len(a.Labels))
	for _, l := range a.Labels {
		labels[l.Name] = l.Value
	}
	shown := labels
	if escape != nil {
		shown = maps.Clone(labels)
		for _, l := range a.Labels {
			if a.Foreign(l) {
				shown[l.Name] = escape(l.Value)
			}
		}
	}
	value := a.Value
	if a.Kept {
		value = a.live.KeptValue(value)
	}
	out := a.live.Texts.Show(labels, shown, value)
	if len(a.Traces) > 0 {
		out = annotate(out, AnnotationTraces, strings.Join(a.Traces, " "))
	}
	if a.Why != "" {
		why := a.Why
		if escape != nil {
			why = escape(why)
		}
		out = annotate(out, AnnotationWhy, why)
	}
	if a.Forecast != "" {
		out = annotate(out, alerts.AnnotationForecast, a.Forecast)
	}
	if a.live.PageURL == "" {
		return out
	}
	return annotate(out, annotationPage,
		strings.TrimRight(a.live.PageURL, "/")+PagePath+"?"+PageQuery(a.Fingerprint).Encode())
}

// annotate adds an annotation, unless the spec has one of the name.
func annotate(list []alerts.Annotation, name, value string) []alerts.Annotation {
	i, found := slices.BinarySearchFunc(list, name, func(x alerts.Annotation, name string) int {
		return strings.Compare(x.Name, name)
	})
	if found {
		return list
	}
	return slices.Insert(list, i, alerts.Annotation{Name: name, Value: value})
}

// Annotations that Prometheus cannot make: a rule knows neither the fingerprint nor single events.
const (
	annotationPage = "alert" // links to the page of the alert
	// AnnotationTraces links to failing traces, with spaces between the links.
	AnnotationTraces = "failing_traces"
	// AnnotationWhy says which value of an attribute makes events bad.
	AnnotationWhy = "why"
)

// PagePath is the path of the page of an alert, below the address of the status page.
const PagePath = "/alert"

// PageQuery is the query that selects an alert at PagePath.
func PageQuery(fingerprint string) url.Values { return url.Values{"id": {fingerprint}} }

// Foreign reports whether the value of a label came with events, so that its sender chose it.
func (a *Alert) Foreign(l Label) bool {
	if a.Engine {
		return l.Name != "alertname" && l.Name != "severity"
	}
	return slices.Contains(a.Group, l.Value)
}

// Label finds the value of a label; "" if it is missing.
func (a *Alert) Label(name string) string {
	if i, ok := slices.BinarySearchFunc(a.Labels, name, func(l Label, n string) int {
		return strings.Compare(l.Name, n)
	}); ok {
		return a.Labels[i].Value
	}
	return ""
}

// Detection is how long it took from the first bad event to firing; 0 if the
// alert has not fired.
func (a *Alert) Detection() time.Duration {
	if a.FiredAt.IsZero() {
		return 0
	}
	return a.FiredAt.Sub(a.FirstBad)
}

// Transition is a change of one alert's state.
type Transition struct {
	Alert Alert // after the change
	From  State
	To    State
	Time  time.Time // that of the report
}

// newLabels sorts the labels of an alert: its name, its own, and those of its
// group, of which its own win.
func newLabels(name string, own map[string]string, names, values []string) []Label {
	out := make([]Label, 0, 1+len(own)+len(names))
	out = append(out, Label{"alertname", name})
	for k, v := range own {
		if k != "alertname" && v != "" {
			out = append(out, Label{k, v})
		}
	}
	for i, n := range names {
		if _, taken := own[n]; taken || i >= len(values) || values[i] == "" {
			continue // an empty label is no label
		}
		out = append(out, Label{n, values[i]})
	}
	order.By(out, func(a, b *Label) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func fingerprint(labels []Label) string {
	h := fnv.New64a()
	for _, l := range labels {
		h.Write([]byte(l.Name))
		h.Write([]byte{0xff})
		h.Write([]byte(l.Value))
		h.Write([]byte{0xff})
	}
	s := strconv.FormatUint(h.Sum64(), 16)
	return strings.Repeat("0", 16-len(s)) + s
}
