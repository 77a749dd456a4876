package remote

import (
	"context"
	"net/url"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sloengine/sloengine/alerts/blindspot"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/api/v1"
)

// TrafficGroup is an SLO in one of its groups.
type TrafficGroup struct {
	SLO    *slo.SLO
	Labels map[string]string
	Hours  []blindspot.Hour
	Why    string // there are no hours
}

// Spans are the hours in a zone, which is by default that of the SLO, as it is at a time.
func (g *TrafficGroup) Spans(now time.Time, loc *time.Location) (spans []blindspot.Span, zone string) {
	if loc == nil {
		loc = history.ZoneOf(g.SLO)
	}
	zone, ahead := now.In(loc).Zone()
	if g.Why != "" {
		return nil, zone
	}
	return blindspot.Spans(g.Hours, time.Duration(ahead)*time.Second), zone
}

// flatTraffic is every SLO at steady traffic.
func flatTraffic(slos []*slo.SLO, perHour float64) []TrafficGroup {
	out := make([]TrafficGroup, len(slos))
	for i, s := range slos {
		out[i] = TrafficGroup{SLO: s}
		out[i].Hours, out[i].Why = blindspot.Find(s, blindspot.Flat(perHour))
	}
	return out
}

// TrafficGroups is every SLO in each group that a running engine knows, at its usual traffic.
func TrafficGroups(ctx context.Context, engine *Client, slos []*slo.SLO) ([]TrafficGroup, error) {
	rows, err := groupsOf(ctx, engine)
	if err != nil {
		return nil, err
	}
	var out []TrafficGroup
	for _, s := range slos {
		if s.Indicator.Kind == slo.KindPrometheus {
			const why = "an engine does not know the traffic of series in Prometheus: use --rate"
			out = append(out, TrafficGroup{SLO: s, Why: why})
			continue
		}
		if len(rows[s.ID]) == 0 {
			out = append(out, TrafficGroup{SLO: s, Why: "the running engine has no group of this SLO"})
		}
		for _, labels := range rows[s.ID] {
			out = append(out, TrafficGroup{SLO: s, Labels: labels})
		}
	}
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(runtime.NumCPU())
	for i := range out {
		if g := &out[i]; g.Why == "" {
			work.Go(func() error { return g.ask(ctx, engine) })
		}
	}
	return out, work.Wait()
}

// groupsOf lists the groups that can alert.
func groupsOf(ctx context.Context, engine *Client) (map[slo.ID][]map[string]string, error) {
	out := map[slo.ID][]map[string]string{}
	return out, engine.Groups(ctx, url.Values{}, func(part v1.SLOList) error {
		for i := range part.Items {
			if x := &part.Items[i]; !x.Informative {
				out[x.ID] = append(out[x.ID], x.Group)
			}
		}
		return nil
	})
}

// ask asks for the traffic of a group, and finds its blind spots.
func (g *TrafficGroup) ask(ctx context.Context, engine *Client) error {
	var one v1.SLOAnswer
	if err := engine.Read(ctx, "/api/v1/slos/"+string(g.SLO.ID), groupParams(g.Labels), &one); err != nil {
		return err
	}
	if one.UsualWeek == nil {
		g.Why = "its usual traffic is not known: the engine must have observed it for a day, and make forecasts of it"
		return nil
	}
	g.Hours, g.Why = blindspot.Find(g.SLO, (*blindspot.Week)(one.UsualWeek))
	return nil
}
