package alerts

import (
	"fmt"
	"maps"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/prometheus/common/helpers/templates"
)

// Texts are the annotations of an alert as templates. Prometheus fills in those of the generated rules. Render does the
// same for a live alert. Texts do not change and are safe for concurrent use.
type Texts struct{ list []text }

type text struct {
	name   string
	parts  []part             // of a text in which only labels are filled in, which is ten times faster than a template
	filled *template.Template // nil: parts
}

// part is a piece of text, then the value of a label.
type part struct {
	before, label string // label "": none
	query         bool   // the value is escaped for a URL
}

// Annotation is one text about an alert.
type Annotation struct{ Name, Value string }

// variables are what Prometheus puts before a template.
var variables = []struct{ name, field string }{{"$labels", ".Labels"}, {"$value", ".Value"}}

// newTexts parses annotations. One that cannot be parsed is left out: it uses a function that only a Prometheus server
// has, such as query.
func newTexts(annotations map[string]string) *Texts {
	var t Texts
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		source := annotations[name]
		if parts, ok := splitLabels(source); ok {
			t.list = append(t.list, text{name: name, parts: parts})
			continue
		}
		for _, v := range variables {
			if strings.Contains(source, v.name) {
				source = "{{ " + v.name + " := " + v.field + " }}" + source
			}
		}
		parsed, err := template.New(name).Option("missingkey=zero").Funcs(textFuncs).Parse(source)
		if err == nil {
			t.list = append(t.list, text{name: name, filled: parsed})
		}
	}
	return &t
}

var labelAction = regexp.MustCompile(`\{\{ \$labels\.(\w+)( \| urlquery)? \}\}`)

// splitLabels divides a text at its labels. ok is false if there is more to fill in than labels.
func splitLabels(source string) (parts []part, ok bool) {
	at := 0
	for _, m := range labelAction.FindAllStringSubmatchIndex(source, -1) {
		parts = append(parts, part{source[at:m[0]], source[m[2]:m[3]], m[4] >= 0})
		at = m[1]
	}
	parts = append(parts, part{before: source[at:]})
	return parts, !slices.ContainsFunc(parts, func(p part) bool { return strings.Contains(p.before, "{{") })
}

// Render fills in labels and value. The annotations are sorted by name. One that cannot be filled in is left out.
func (t *Texts) Render(labels map[string]string, value float64) []Annotation {
	return t.Show(labels, labels, value)
}

// Show is Render with values that are escaped for the place where the texts are shown. Links get them as they are.
func (t *Texts) Show(labels, shown map[string]string, value float64) []Annotation {
	if t == nil {
		return nil
	}
	out := make([]Annotation, 0, len(t.list))
	for i := range t.list {
		if filled, ok := t.list[i].fill(labels, shown, value); ok {
			out = append(out, Annotation{t.list[i].name, filled})
		}
	}
	return out
}

// One is one of the texts of Render; "" if there is none of this name.
func (t *Texts) One(name string, labels map[string]string, value float64) string {
	if t != nil {
		if i, found := slices.BinarySearchFunc(t.list, name, func(x text, name string) int {
			return strings.Compare(x.name, name)
		}); found {
			filled, _ := t.list[i].fill(labels, labels, value)
			return filled
		}
	}
	return ""
}

// fill makes a text. ok is false if it cannot be filled in.
func (x *text) fill(labels, shown map[string]string, value float64) (filled string, ok bool) {
	var b strings.Builder
	for _, p := range x.parts {
		b.WriteString(p.before)
		if p.query {
			b.WriteString(url.QueryEscape(labels[p.label]))
		} else {
			b.WriteString(shown[p.label])
		}
	}
	if x.filled != nil && x.filled.Execute(&b, &struct {
		Labels map[string]string
		Value  float64
	}{shown, value}) != nil {
		return "", false
	}
	return b.String(), true
}

// textFuncs are the functions of Prometheus' templates that the generated annotations use, and those that annotations
// of a spec may use without a server.
var textFuncs = template.FuncMap{
	"humanize":           humanize,
	"humanize1024":       humanize1024,
	"humanizeDuration":   templates.HumanizeDuration,
	"humanizePercentage": humanizePercentage,
	"humanizeTimestamp":  templates.HumanizeTimestamp,
	"toUpper":            strings.ToUpper,
	"toLower":            strings.ToLower,
	"match":              regexp.MatchString,
	"reReplaceAll": func(pattern, with, in string) (string, error) {
		re, err := regexp.Compile(pattern)
		if err != nil {
			return "", err
		}
		return re.ReplaceAllString(in, with), nil
	},
}

func humanizePercentage(x any) (string, error) {
	v, err := templates.ConvertToFloat(x)
	return fmt.Sprintf("%.4g%%", v*100), err
}

func humanize(x any) (string, error) {
	v, err := templates.ConvertToFloat(x)
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Sprintf("%.4g", v), err
	}
	if math.Abs(v) >= 1 {
		return scaled(v, 1000, "k", "M", "G", "T", "P", "E", "Z", "Y"), err
	}
	prefix := ""
	for _, p := range []string{"m", "u", "n", "p", "f", "a", "z", "y"} {
		if math.Abs(v) >= 1 {
			break
		}
		prefix, v = p, v*1000
	}
	return fmt.Sprintf("%.4g%s", v, prefix), err
}

func humanize1024(x any) (string, error) {
	v, err := templates.ConvertToFloat(x)
	if math.Abs(v) <= 1 || math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Sprintf("%.4g", v), err
	}
	return scaled(v, 1024, "ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi"), err
}

func scaled(v, step float64, prefixes ...string) string {
	prefix := ""
	for _, p := range prefixes {
		if math.Abs(v) < step {
			break
		}
		prefix, v = p, v/step
	}
	return fmt.Sprintf("%.4g%s", v, prefix)
}
