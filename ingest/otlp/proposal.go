package otlp

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// proposedObjectives are those that a spec may begin with, the highest first.
var proposedObjectives = []float64{99.99, 99.95, 99.9, 99.5, 99, 98, 95, 90}

// proposedThresholds are those of latency.
var proposedThresholds = []string{"5ms", "10ms", "25ms", "50ms", "100ms", "250ms", "500ms", "1s", "2500ms", "5s", "10s",
	"30s", "1m", "5m", "1h"}

// maxGroupedRoutes is up to how many routes a proposed spec groups by them.
const maxGroupedRoutes = 100

// propose is SeenService.Spec.
func (s *SeenService) propose() string {
	types := s.types()
	if s.Known || s.Name == NoService || len(types) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Proposed from %d spans of the last hour, which would meet it. Set what users need instead.\n",
		s.Spans)
	fmt.Fprintf(&b, "version: sloengine/v1\nservice: %q\nslos:\n", s.Name)
	for _, typ := range types {
		prefix := ""
		if len(types) > 1 {
			prefix = typ + "-"
		}
		all, routes := s.sums(typ)
		share, p95 := float64(all.failures)/float64(all.spans), all.quantile(0.95)
		fmt.Fprintf(&b, "  - name: %savailability\n    objective: %s # %.3g%% of the spans failed\n    window: 30d\n", prefix,
			strconv.FormatFloat(ObjectiveFor(share), 'f', -1, 64), share*100)
		if routes > 0 && routes <= maxGroupedRoutes {
			b.WriteString("    group_by: [http_route]\n")
		}
		fmt.Fprintf(&b, "    indicator: {events: {valid: '{type=%q}', bad: '{outcome=\"failure\"}'}}\n", typ)
		fmt.Fprintf(&b, "  - name: %slatency\n    objective: 95\n    window: 30d\n", prefix)
		fmt.Fprintf(&b,
			"    indicator: {latency: {valid: '{type=%q,outcome=\"success\"}', threshold: %s}} # 95%% took at most %s\n",
			typ, thresholdFor(p95), p95.Round(time.Millisecond))
	}
	return b.String()
}

// Rule is the line of engine.yaml that would count an internal span; "" for other operations.
func (o *SeenOperation) Rule(service string) string {
	if o.Type != kinds[kindInternal] || o.Name == OtherOperations {
		return ""
	}
	name := o.Name
	if before, _, found := strings.Cut(name, "*"); found { // it would stand for any characters
		name = before + "*"
	}
	return fmt.Sprintf("{service: %q, kind: internal, name: %q, type: job}", service, name)
}

// types are those of spans that would count.
func (s *SeenService) types() (out []string) {
	for i := range s.Operations {
		if t := s.Operations[i].Type; t != kinds[kindInternal] && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	slices.Sort(out)
	return out
}

func (s *SeenService) sums(typ string) (all sums, routes int) {
	for i := range s.Operations {
		if o := &s.Operations[i]; o.Type == typ {
			all.add(&o.all)
			if o.routed {
				routes++
			}
		}
	}
	return all, routes
}

// ObjectiveFor is the highest usual objective, in percent, whose budget is at least twice the share that fails; 90 if
// none is.
func ObjectiveFor(failing float64) float64 {
	for _, o := range proposedObjectives {
		if 1-o/100 >= 2*failing {
			return o
		}
	}
	return proposedObjectives[len(proposedObjectives)-1]
}

// thresholdFor is the lowest threshold that 95% of the spans meet.
func thresholdFor(p95 time.Duration) string {
	for _, text := range proposedThresholds {
		if t, err := time.ParseDuration(text); err == nil && t >= p95 {
			return text
		}
	}
	return proposedThresholds[len(proposedThresholds)-1]
}
