package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/spec"
)

// engineFlags say how many engines share the events, and what decides which of them gets an event.
type engineFlags struct {
	engines int
	key     []string
}

func (f *engineFlags) add(fs *pflag.FlagSet) {
	fs.IntVar(&f.engines, "engines", 1, "number of engines that each receive a part of the events")
	fs.StringSliceVar(&f.key, "key", nil,
		"attributes that decide which engine receives an event, such as those of a Kafka key (default: none, as with the "+
			"key service and id)")
}

func (f *engineFlags) check() error {
	if f.engines < 1 {
		return cli.Usagef("invalid --engines (want 1 or more)")
	}
	if len(f.key) > 0 && f.engines == 1 {
		return cli.Usagef("--key without --engines has no effect: set --engines to the number of engines")
	}
	return nil
}

// problems are the SLOs whose rules would be wrong with several engines: a threshold of a slice of time applies to the
// events of all engines together, and each engine judges those that it received.
func (f *engineFlags) problems(sp *spec.Spec) (out spec.Problems) {
	if f.engines == 1 {
		return nil
	}
	for _, s := range sp.SLOs {
		why := f.splits(s)
		if why == "" {
			continue
		}
		p := spec.Problem{
			Severity: spec.Error, Message: fmt.Sprintf("slo %s: with %d engines its rules would be wrong: %s",
				s.ID.Name(), f.engines, why),
			Suggestion: "let the key of the events be attributes of group_by and name them in --key, count occurrences " +
				"instead, or evaluate it with sloengine view",
		}
		if src, ok := sp.Source(spec.KindSLO, s.ID.Service(), s.ID.Name()); ok {
			p.Position = src.Position
		}
		out = append(out, p)
	}
	return out
}

// splits says why the events of a group of an SLO that judges slices may be on several engines; "" if they are not, or
// if it judges events.
func (f *engineFlags) splits(s *slo.SLO) string {
	throughput := s.Indicator.Kind == slo.KindThroughput || s.Indicator.Kind == slo.KindVolume
	if s.Indicator.Kind == slo.KindPrometheus ||
		!throughput && s.Budgeting.Method != slo.Timeslices && s.Budgeting.Method != slo.RatioTimeslices {
		return ""
	}
	const parts = "each engine judges slices of time by its own part of the events"
	if len(f.key) == 0 {
		return parts
	}
	for _, name := range f.key {
		same := name == "service" || slices.Contains(s.GroupBy, name) ||
			slices.ContainsFunc(s.Indicator.Valid, func(m slo.Matcher) bool { return m.Name == name && m.Op == slo.OpEqual })
		if !same {
			return fmt.Sprintf("%s, and events of one group may differ in %s", parts, name)
		}
	}
	switch {
	case throughput && len(s.GroupBy) == 0:
		return "without group_by, an engine that receives no events counts every slice as bad"
	case throughput && len(s.Expect) > 0:
		return "an engine that receives no events of an expected group counts every slice as bad"
	}
	return ""
}

// refuse is the error of generate.
func (f *engineFlags) refuse(sp *spec.Spec) error {
	problems := f.problems(sp)
	if len(problems) == 0 {
		return nil
	}
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = p.String()
	}
	return errors.New(strings.Join(lines, "\n"))
}
