package web

import (
	"fmt"

	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/status"
)

// The bounds of what the page lists. The API has the rest.
const (
	maxSeenRows       = 20
	maxSeenOperations = 5
)

// seenPart is the traffic that no spec counts.
type seenPart struct {
	Rows []seenRow
	More int    // services that are not shown
	URL  string // of this engine, for the command that writes their specs
}

type seenRow struct {
	Name               string
	Spans, Failed, P95 string
	Operations         string
	Advice             string // "" if Spec is there
	Spec               string
}

func newSeenPart(list []status.SeenService, url string) *seenPart {
	if len(list) == 0 {
		return nil
	}
	p := &seenPart{URL: url, More: max(0, len(list)-maxSeenRows)}
	for i := range list[:min(len(list), maxSeenRows)] {
		s := &list[i]
		row := seenRow{Name: format.Safe(s.Name, format.MaxName), Spans: format.Count(s.Spans),
			Failed: format.Percent(float64(s.Failures)/float64(s.Spans), 1), P95: format.Took(format.Seconds(s.P95Seconds)),
			Spec: s.Spec}
		for j := range s.Operations[:min(len(s.Operations), maxSeenOperations)] {
			if o := &s.Operations[j]; j > 0 {
				row.Operations += ", " + format.Safe(o.Name, format.MaxName)
			} else {
				row.Operations = format.Safe(o.Name, format.MaxName)
			}
		}
		if more := len(s.Operations) - maxSeenOperations; more > 0 {
			row.Operations += fmt.Sprintf(" and %d more", more)
		}
		row.Advice = advice(s)
		p.Rows = append(p.Rows, row)
	}
	return p
}

// advice says what would count the spans of a service for which no spec can be proposed.
func advice(s *status.SeenService) string {
	o := &s.Operations[0]
	switch rule := o.Rule(s.Name); {
	case s.Spec != "":
		return ""
	case rule != "":
		return "Internal spans count by a rule in engine.yaml: otlp: {spans: [" + rule + "]}"
	case s.Known:
		return fmt.Sprintf("The spec of this service has no type %s: add it to types, or remove types.", o.Type)
	}
	return "Set service.name in the SDK, for example by OTEL_SERVICE_NAME."
}
