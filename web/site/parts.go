package site

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
)

type Figure struct {
	Name, Value, Title, Note string
	Mark                     *chart.Mark // instead of a value
	Bad, Partial             bool
}

type Fact struct {
	Name, Value, Note string
	Code              bool
	At                format.Stamp
}

// Hidden are parameters for hidden fields of a form, in a fixed order. What
// can't be shown as it is is left out: it would not come back as it went.
func Hidden(q url.Values) [][2]string {
	var out [][2]string
	for _, k := range slices.Sorted(maps.Keys(q)) {
		if v := q.Get(k); format.Safe(k, format.MaxText) == k && format.Safe(v, format.MaxText) == v {
			out = append(out, [2]string{k, v})
		}
	}
	return out
}

// Choice is one <select> of the filter.
type Choice struct {
	Name    string // of the parameter
	Label   string // for people
	Any     string // the option that picks all
	Options []Option
}

type Option struct {
	Value, Word string
	On          bool
}

// shownLabels is how many labels the filter offers; more can be had by address.
const shownLabels = 200

func SelectOptions(values map[string]bool, picked string) []Option {
	var out []Option
	for v := range values {
		// What can't be shown as it is can't be chosen; specs do not allow any.
		if format.Safe(v, format.MaxTitle) == v && v != "" {
			out = append(out, Option{v, v, v == picked})
		}
	}
	order.By(out, func(a, b *Option) int { return strings.Compare(a.Value, b.Value) })
	return out[:min(len(out), shownLabels)]
}
