package web

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/sloengine/sloengine/alerts/backtest"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

// scope are the services that a reader may see.
type scope map[string]struct{}

// newScope makes a set of services.
func newScope(names []string) scope {
	s := scope{}
	for _, n := range names {
		s[n] = struct{}{}
	}
	return s
}

// key is a text that differs for different sets.
func (s scope) key() string {
	names := make([]string, 0, len(s))
	for n := range s {
		names = append(names, n)
	}
	slices.Sort(names)
	return strings.Join(names, "\n") // no name holds a line break
}

func (s scope) has(service string) bool { _, ok := s[service]; return ok }

func (s scope) hasSLO(id slo.ID) bool { return s.has(id.Service()) }

// restrict returns options of a site that shows nothing of other services, and of the engine only its state and what is
// degraded for the services.
func (s scope) restrict(o site.Options) site.Options {
	out := site.Options{ // what is not named here is not there for limited readers
		Numbers: site.Numbers{ // handlers ask all but the report for what they found in it
			Report: latest(o.Report, s.report), Source: o.Source, Counts: o.Counts, Traffic: o.Traffic,
			Kept: o.Kept, Onsets: o.Onsets, Events: o.Events, Ledger: o.Ledger,
		},
		Condition: site.Condition{
			Engine: func() status.Engine { return s.engine(o.Engine()) },
			Brief:  func() status.Engine { return s.engine(o.Brief()) },
			Findings: func() []status.Finding {
				if o.Findings == nil {
					return nil
				}
				return slices.DeleteFunc(o.Findings(), func(f status.Finding) bool { return !s.has(f.Service) })
			},
		},
		Alerting:  site.Alerting{AlertsKept: o.AlertsKept},
		Access:    site.Access{Scope: s.key(), Caller: o.Caller, Audit: o.Audit},
		Scrape:    site.Scrape{NoSeries: o.NoSeries, ScrapeTimeout: o.ScrapeTimeout},
		Published: o.Published, Address: o.Address, Bounds: o.Bounds, Now: o.Now, Version: o.Version, LogError: o.LogError,
	}
	if all := o.Alerts; all != nil {
		out.Alerts = latest(all, s.alerts)
	}
	if all := o.Try; all != nil {
		out.Try = func(q backtest.Request) backtest.Status {
			if slices.ContainsFunc(q.After.Services, func(x spec.Service) bool { return !s.has(x.Name) }) {
				return backtest.Status{Err: site.ErrOtherService}
			}
			q.Own, q.Key = true, "own\x00"+q.Key
			return all(q)
		}
	}
	if all := o.Traces; all != nil {
		out.Traces = &scopedTraces{all, s}
	}
	if all := o.Counters; all != nil {
		out.Counters = func(id slo.ID) []status.SourceCounters {
			if !s.hasSLO(id) {
				return nil
			}
			return all(id)
		}
	}
	if all := o.Incidents; all != nil {
		out.Incidents = &scopedIncidents{Incidents: all, in: s, view: latest(all.View, s.incidents)}
	}
	if all := o.Silences; all != nil {
		out.Silences = &scopedSilences{all, s}
	}
	if all := o.DLQ; all != nil {
		out.DLQ = newScopedDeadLetters(all, s)
	}
	if all := o.Spans; all != nil {
		out.Spans = func() []status.KeptAttributes {
			return slices.DeleteFunc(all(), func(k status.KeptAttributes) bool { return !s.has(k.Service) })
		}
	}
	if all := o.Generations; all != nil {
		out.Generations = func(ctx context.Context) ([]fold.Generation, error) {
			list, err := all(ctx)
			return slices.DeleteFunc(slices.Clone(list), func(g fold.Generation) bool { return !s.has(g.Service) }), err
		}
	}
	return out
}

// latest filters what a source returns, once for each value.
func latest[T any](source func() *T, filter func(*T) *T) func() *T {
	var mu sync.Mutex
	var of, out *T
	return func() *T {
		now := source()
		if now == nil {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if of != now {
			of, out = now, filter(now)
		}
		return out
	}
}

// only returns the items that are wanted.
func only[T any](list []T, wanted func(*T) bool) []T {
	var out []T
	for i := range list {
		if wanted(&list[i]) {
			out = append(out, list[i])
		}
	}
	return out
}

// report is a report without other services. An agreement with a component of another one is left out, and so are the
// watermark, which moves with everybody's events, and the time that the report took.
func (s scope) report(r *sla.Report) *sla.Report {
	out := &sla.Report{Version: r.Version, Time: r.Time}
	out.SLOs = only(r.SLOs, func(x *sla.SLOReport) bool { return s.hasSLO(x.SLO.ID) })
	out.SLAs = only(r.SLAs, func(x *sla.SLAReport) bool {
		return s.has(x.SLA.Service) && !slices.ContainsFunc(x.Components, func(c sla.ComponentReport) bool {
			return !s.hasSLO(c.SLO)
		})
	})
	out.Thresholds = only(r.Thresholds, func(x *sla.ThresholdReport) bool { return s.has(x.Threshold.Service) })
	out.Traffic = only(r.Traffic, func(x *sla.TrafficReport) bool { return s.has(x.Service) })
	out.Durations = only(r.Durations, func(x *sla.DurationReport) bool { return s.has(x.Service) })
	out.InFlight = only(r.InFlight, func(x *slo.InFlight) bool { return s.hasSLO(x.SLO) })
	if r.Outlooks != nil {
		all := *r.Outlooks
		all.Failed = "" // the text of an error
		out.Outlooks = &all
	}
	return out
}

// engine is the state of an engine without its parts, except for the SLOs and budgets of the services.
func (s scope) engine(e status.Engine) status.Engine {
	out := status.Engine{State: e.State, Progress: e.Progress, Started: e.Started}
	out.Fold.Full = only(e.Fold.Full, func(x *counting.FullStatus) bool { return s.hasSLO(slo.ID(x.SLO)) })
	out.Fold.Crowded = only(e.Fold.Crowded, func(x *counting.CrowdedStatus) bool { return s.hasSLO(slo.ID(x.SLO)) })
	out.Budgets = only(e.Budgets, func(x *status.BudgetStatus) bool { return s.has(x.Service) })
	if e.Rebuild != nil {
		r := *e.Rebuild
		has := func(id *string) bool { return s.hasSLO(slo.ID(*id)) }
		r.SLOs, r.Waiting = append([]string{}, only(r.SLOs, has)...), append([]string{}, only(r.Waiting, has)...)
		r.Held, r.Failing = append([]string{}, only(r.Held, has)...), ""
		if len(r.Waiting) > 0 {
			out.Rebuild = &r
		}
	}
	if e.Reason != "" {
		out.Reason = status.StateText(e.State)
	}
	return out
}

// alerts are the alerts on the services.
func (s scope) alerts(v *state.View) *state.View {
	wanted := func(a *state.Alert) bool {
		effect := slo.ID(a.Label(series.LabelEffect))
		return !a.Engine && s.has(a.Service) && (a.SLO == "" || s.hasSLO(a.SLO)) && (effect == "" || s.hasSLO(effect))
	}
	return &state.View{
		Time: v.Time, Active: only(v.Active, wanted), Resolved: only(v.Resolved, wanted),
		SentBy: v.SentBy,
		Held:   only(v.Held, func(h *state.Held) bool { return s.has(h.Service) && (h.SLO == "" || s.hasSLO(h.SLO)) }),
	}
}
