package rules

import (
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// usual are the durations that most rules hold; never changed.
var usual = func() map[time.Duration]string {
	m := map[time.Duration]string{}
	for i := time.Duration(1); i <= 12; i++ {
		for _, unit := range []time.Duration{base, time.Hour, day} {
			m[i*unit] = slo.FormatDuration(i * unit)
		}
	}
	for _, d := range []time.Duration{30 * time.Second, time.Minute, 28 * day, 30 * day, base + 15*time.Second,
		base + 30*time.Second, base + time.Minute} {
		m[d] = slo.FormatDuration(d)
	}
	return m
}()

func dur(d time.Duration) string {
	if s, ok := usual[d]; ok {
		return s
	}
	return slo.FormatDuration(d)
}

func num(x float64) string { return slo.FormatRatio(x) }

func seconds(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }

// on is the matching clause over labels; over none of them everything matches.
func on(labels []string) string { return "on (" + strings.Join(labels, ", ") + ")" }

// sumBy adds up what is told apart by other labels than these.
func sumBy(labels []string, expr string) string {
	if len(labels) == 0 {
		return "sum(" + expr + ")"
	}
	return "sum by (" + strings.Join(labels, ", ") + ") (" + expr + ")"
}

// join writes terms with an operator between them, each on a line of its own if
// there are many.
func join(terms []string, operator string) string {
	if len(terms) > 2 {
		return strings.Join(terms, "\n"+operator+" ")
	}
	return strings.Join(terms, " "+operator+" ")
}
