package app

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/ingest/otlp"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/spec"
)

// Known is what a spec has, for the settings that name it; nil if it could not be read.
func Known(sp *spec.Spec) *config.Known {
	if sp == nil {
		return nil
	}
	k := &config.Known{Typical: map[string]time.Duration{}, Groups: groups(sp), Traced: map[string]slo.ID{}}
	for _, s := range sp.SLOs {
		if w := s.Window.Longest(); w > k.LongestWindow && !s.Indicator.RulesOnly() {
			k.Longest, k.LongestWindow = s.ID, w
		}
		if s.Indicator.Kind == slo.KindCompletion && s.Indicator.Completion.Key == otlp.TraceID {
			k.Traced[s.ID.Service()] = s.ID
		}
		typical := s.Indicator.Threshold
		if s.Indicator.Kind == slo.KindApdex {
			typical = s.Indicator.Tolerating
		} else if s.Indicator.Kind != slo.KindLatency {
			continue
		}
		for _, m := range s.Indicator.Valid {
			if d, ok := k.Typical[m.Value]; m.Name == "type" && m.Op == slo.OpEqual && (!ok || typical < d) {
				k.Typical[m.Value] = typical
			}
		}
	}
	for _, s := range sp.Services {
		k.Services = append(k.Services, s.Name)
	}
	for _, a := range sp.Agreements {
		k.Services, k.Agreements = append(k.Services, a.Service), append(k.Agreements, string(slo.NewID(a.Service, a.Name)))
	}
	return k
}

// noteUnknown logs which reports name what no spec has.
func noteUnknown(c *config.Config, sp *spec.Spec, log *slog.Logger) {
	var names []string
	for _, u := range c.UnknownInReports(*Known(sp)) {
		names = append(names, u.Report+": "+u.Key+" "+u.Name)
	}
	if len(names) > 0 {
		log.Warn("reports name what no spec has, so they will be empty", "reports", names)
	}
}

// groups is how many groups the SLOs and event thresholds of each service may have.
func groups(sp *spec.Spec) map[string]int {
	sums := map[string]int{}
	for _, s := range sp.SLOs {
		if len(s.GroupBy) > 0 {
			sums[s.ID.Service()] += cmp.Or(s.MaxGroups, spec.DefaultMaxGroups)
		}
	}
	for _, l := range sp.Thresholds {
		if len(l.GroupBy) > 0 {
			sums[l.Service] += cmp.Or(l.MaxGroups, spec.DefaultMaxGroups)
		}
	}
	return sums
}
