package remote

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/slo"
)

// NewBlindSpots is the command blindspots.
func NewBlindSpots(s cli.Streams) *cobra.Command {
	var files cli.SpecFiles
	var engine Client
	var rate, zone string
	p := &cli.Printer{Streams: s}
	c := &cobra.Command{
		Use:   "blindspots [SERVICE/SLO ...] -f FILE|DIR|-",
		Short: "Print which outages no alert would page for, by the traffic of each hour of the week",
		Long: `blindspots prints how long an outage must last, and how large the error rate of an hour must be,
for a burn-rate alert to page, in each hour of the week and in each group. With few events, a
page waits for evidence, so a short outage at night may be invisible.

With --running, the traffic is that of a running engine: the median of the same hour of the last
five weeks. With --rate, it is the same at all times, for example before there is any.`,
		Example: `  sloengine blindspots -f specs/ --running http://127.0.0.1:8080
  sloengine blindspots -f specs/ shop/checkout --rate 5/h`,
		RunE: func(c *cobra.Command, ids []string) error {
			if engine.Named() == (rate != "") {
				return cli.Usagef("blindspots needs the traffic: either --running URL or --rate N/h")
			}
			loc, err := location(zone)
			if err != nil {
				return err
			}
			sp, err := files.Read(s)
			if err != nil {
				return err
			}
			slos := sp.SLOs
			if len(ids) > 0 {
				slos = slices.DeleteFunc(slices.Clone(slos), func(x *slo.SLO) bool { return !slices.Contains(ids, string(x.ID)) })
			}
			if len(slos) == 0 || len(ids) > 0 && len(slos) < len(ids) {
				return fmt.Errorf("SLO not found in the spec")
			}
			var groups []TrafficGroup
			if rate != "" {
				perHour, err := parseRate(rate)
				if err != nil {
					return err
				}
				groups = flatTraffic(slos, perHour)
			} else if groups, err = TrafficGroups(c.Context(), &engine, slos); err != nil {
				return err
			}
			items := make([]blindItem, len(groups))
			for i := range groups {
				items[i] = newBlindItem(&groups[i], time.Now(), loc)
			}
			return p.Print(map[string][]blindItem{"items": items}, func() error { return blindTable(s.Out, items) })
		},
	}
	f := c.Flags()
	files.Add(f)
	engine.AddOptional(f, "running", "URL of a running engine whose traffic is used")
	f.StringVar(&rate, "rate", "", "events per time of every group, such as 5/h (per s, m, h or d)")
	f.StringVar(&zone, "timezone", "", "time zone of the hours (default: that of the SLO's calendar window, else UTC)")
	p.AddOutput(f, "table", "json", "yaml")
	return c
}

func location(zone string) (*time.Location, error) {
	if zone == "" {
		return nil, nil
	}
	loc, err := time.LoadLocation(zone)
	if err != nil {
		return nil, cli.Usagef("invalid --timezone: %w", err)
	}
	return loc, nil
}

// parseRate reads events per hour.
func parseRate(text string) (float64, error) {
	number, unit, _ := strings.Cut(text, "/")
	n, err := strconv.ParseFloat(number, 64)
	perHour, ok := map[string]float64{"s": 3600, "m": 60, "h": 1, "d": 1. / 24}[unit]
	if err != nil || !ok || !(n > 0) || math.IsInf(n, 0) {
		return 0, cli.Usagef("invalid --rate %q (want a number per s, m, h or d, such as 5/h)", text)
	}
	return n * perHour, nil
}

type blindItem struct {
	ID     slo.ID            `json:"id"`
	Group  map[string]string `json:"group"`
	Zone   string            `json:"timezone"` // of the spans
	Reason string            `json:"reason"`   // why nothing is known; then the rest is empty
	Spans  []blindSpan       `json:"spans"`
	Hours  []blindHour       `json:"hours"` // from Monday 00:00 UTC on
}

// span is a part of the week with like hours. The outage and the error ratio are those of its worst hour.
type blindSpan struct {
	When   string     `json:"when"`
	Events [2]float64 `json:"events_per_hour"` // least and most
	Outage *float64   `json:"outage_seconds"`  // the shortest that pages; null: none within a day
	Ratio  *float64   `json:"error_ratio"`     // the smallest that pages within an hour; null: none
	Text   string     `json:"text"`
}

type blindHour struct {
	Events float64  `json:"events"`
	Outage *float64 `json:"outage_seconds"`
	Ratio  *float64 `json:"error_ratio"`
}

func orNull(x float64) *float64 {
	if x == 0 {
		return nil
	}
	return &x
}

func newBlindItem(g *TrafficGroup, now time.Time, loc *time.Location) blindItem {
	spans, zone := g.Spans(now, loc)
	out := blindItem{ID: g.SLO.ID, Group: g.Labels, Zone: zone, Reason: g.Why, Spans: []blindSpan{}, Hours: []blindHour{}}
	if out.Group == nil {
		out.Group = map[string]string{}
	}
	for i := range spans {
		x := &spans[i]
		out.Spans = append(out.Spans, blindSpan{x.When(), x.Events, orNull(x.Outage.Seconds()), orNull(x.Ratio), x.Hides()})
	}
	for _, h := range g.Hours {
		out.Hours = append(out.Hours, blindHour{h.Events, orNull(h.Outage.Seconds()), orNull(h.ErrorRatio)})
	}
	return out
}

func blindTable(w io.Writer, items []blindItem) error {
	for i, x := range items {
		if i > 0 {
			fmt.Fprintln(w)
		}
		name := cli.Printable(string(x.ID))
		if len(x.Group) > 0 {
			name += " (" + cli.GroupText(x.Group) + ")"
		}
		if x.Reason != "" {
			fmt.Fprintf(w, "%s\n  %s\n", name, cli.Printable(x.Reason))
			continue
		}
		fmt.Fprintf(w, "%s, hours in %s\n", name, x.Zone)
		for _, s := range x.Spans {
			fmt.Fprintf(w, "  %s: %s\n", s.When, s.Text)
		}
	}
	return nil
}
