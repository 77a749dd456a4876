package ui

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/web/format"
)

// sloSource is how an SLO is written, and what is written of it for Prometheus.
type sloSource struct {
	Spec      string
	Recording string
	Alerts    string
	Problem   string // the rules could not be made
}

// SourceCache keeps what was written of the SLOs that were looked at last.
type SourceCache struct {
	mu sync.Mutex
	m  map[*slo.SLO]sourceEntry
}

type sourceEntry struct {
	day    time.Time // tables of times begin with it
	source *sloSource
}

const maxSources = 200

func (c *SourceCache) Get(s *slo.SLO, pageURL string, now time.Time) *sloSource {
	day := now.UTC().Truncate(24 * time.Hour)
	c.mu.Lock()
	e, ok := c.m[s]
	c.mu.Unlock()
	if ok && e.day.Equal(day) {
		return e.source
	}
	e = sourceEntry{day, NewSource(s, pageURL, day)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || len(c.m) >= maxSources {
		c.m = map[*slo.SLO]sourceEntry{}
	}
	c.m[s] = e
	return e.source
}

// NewSource writes one SLO in the own format, and its rules, as the commands
// convert and generate do.
func NewSource(s *slo.SLO, pageURL string, day time.Time) *sloSource {
	of := spec.Service{Name: s.ID.Service(), Dimensions: spec.DefaultDimensions}
	out := &sloSource{Spec: ShowLines(spec.Encode(&spec.Spec{SLOs: []*slo.SLO{s}, Services: []spec.Service{of}}))}
	in := rules.Spec{SLOs: []*slo.SLO{s}}
	o := rules.Options{From: s.Window.Start(day).Add(-24 * time.Hour), Until: day.AddDate(0, 1, 0), PageURL: pageURL}
	recording, err := rules.Recording(in, o)
	if err != nil {
		out.Problem = format.Safe(fmt.Sprintf("The rules could not be generated: %v.", err), format.MaxText)
		return out
	}
	out.Recording = ShowLines(rules.File("", recording))
	out.Alerts = ShowLines(rules.File("", alerts.Rules(in, alerts.Options{Options: o, NoEngine: true})))
	return out
}

// promQuery is one thing that Prometheus can be asked.
type promQuery struct{ Name, Expr string }

// PromQueries are the queries that answer what the page shows, over the recorded
// series of one group.
func PromQueries(r *sla.SLOReport) []promQuery {
	s := r.SLO
	var o rules.Options
	var where []string
	for i, n := range rules.GroupLabels(s) {
		if i < len(r.Group) {
			where = append(where, n+"="+strconv.Quote(r.Group[i]))
		}
	}
	o = o.Where(where...)
	out := []promQuery{
		{"Budget left over the window, where 1 is the whole budget", o.PeriodRemaining(s)},
		{"Bad share over the window", o.PeriodErrorRatio(s)},
		{"Burn rate over 1h", o.BurnRate(s, time.Hour)},
		{"Burn rate over 6h", o.BurnRate(s, 6*time.Hour)},
		{"Bad per second", o.BadRate(s)},
		{"Valid per second", o.ValidRate(s)},
		{"Alerts of this SLO", o.Series(s, "ALERTS")},
	}
	for i := range out {
		out[i].Expr = format.Safe(out[i].Expr, shownLine)
	}
	return out
}

// Bounds of a text to copy, in bytes: specs and rules are shorter by far.
const (
	shownLine  = 20_000
	ShownBlock = 80_000
)

// ShowLines is show for a text of many lines.
func ShowLines(text []byte) string {
	var b strings.Builder
	for line := range strings.SplitSeq(strings.TrimSuffix(string(text), "\n"), "\n") {
		line = format.Safe(line, shownLine)
		if b.Len()+len(line) > ShownBlock {
			b.WriteString("# Truncated. sloengine generate writes the complete file.\n")
			break
		}
		b.WriteString(line)
		b.WriteByte('\n')
	}
	return b.String()
}
