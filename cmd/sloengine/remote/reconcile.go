package remote

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/cmd/sloengine/promapi"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/api/v1"
	"github.com/sloengine/sloengine/web/status"
)

// reconciling are the flags of the command reconcile.
type reconciling struct {
	cli.Printer
	engine     Client
	prometheus cli.Engine
	recount    promapi.Recount
	from, to   string
	tolerance  float64 // percent
	metrics    string
}

func newReconcile(s cli.Streams) *cobra.Command {
	o := &reconciling{Printer: cli.Printer{Streams: s}}
	c := &cobra.Command{
		Use:   "reconcile --slo SERVICE/SLO",
		Short: "Explain why Prometheus says another number than the engine",
		Long: `reconcile counts a window of an SLO twice: as a running engine has it, and by the samples
of counters in a Prometheus. It splits the difference between the engine and increase()
into its causes, which add up to it with a rest that is called unexplained.

The counters of an SLO that a source reads from Prometheus are its own, and their
Prometheus is that of the source. For an SLO on events, name the counters of the same
requests: those of the service, or slo_events_total of the engine. The times are rounded
to 5 minutes. All values of group_by are added up, planned maintenance included.

  window edges    increase() extrapolates to the ends of the window
  scrape gaps     what a counter added in a gap across an end of the window
  first values    increase() leaves out the first value of a series
  counter resets  what a counter had added after its last sample before it fell
  not observed    times in which the engine counted nothing
  server          the server computes increase() otherwise than Prometheus
  cut             the source counts no more bad events than there are events

For an SLO on events, the engine knows of all its SLOs together how many events were
duplicates, rejected, over a rate limit, backfilled, late or left out by sampling. These
causes explain at most so much of the rest. If the Prometheus scrapes the engine, they
are those of the window.

The exit code is 0 if the rest is within the tolerance, and 3 if it is not.`,
		Example: `  sloengine reconcile --slo shop/availability --from 7d
  sloengine reconcile --slo shop/checkout --from 1d --prometheus http://127.0.0.1:9090 \
    --total 'http_requests_total{job="shop"}' --bad 'http_requests_total{job="shop",code=~"5.."}'`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	f := c.Flags()
	o.engine.AddFlags(f)
	o.prometheus.AddServer(f, "prometheus", "URL of the Prometheus (default: each of the source that counts the SLO)")
	f.StringVar(&o.recount.SLO, "slo", "", "SLO to compare, as service/slo")
	f.StringVar(&o.from, "from", "1d", "start of the window: a time, or an age")
	f.StringVar(&o.to, "to", "", "end of the window (default: now)")
	f.StringVar(&o.recount.Total, "total", "", "selector of the counters of all requests (default: that of the SLO)")
	f.StringVar(&o.recount.Bad, "bad", "", "selector of the counters of bad requests (default: that of the SLO)")
	f.StringVar(&o.recount.Good, "good", "", "selector of the counters of good requests, instead of --bad")
	f.StringVar(&o.metrics, "engine-metrics", "",
		`matchers of the metrics of this engine, where a Prometheus has several, such as 'job="sloengine"'`)
	f.Float64Var(&o.tolerance, "tolerance", 0.1, "percent of the count that may stay unexplained")
	f.IntVar(&o.recount.MaxSeries, "max-series", 100_000, "most series to read")
	f.IntVar(&o.recount.MaxSamples, "max-samples", 100_000_000, "most samples to read")
	o.AddOutput(f, "table", "json", "yaml")
	return c
}

// resolution is the finest that an engine keeps counts in for as long as a window.
const resolution = 5 * time.Minute

func (o *reconciling) run(ctx context.Context) error {
	r := &o.recount
	service, name, found := strings.Cut(r.SLO, "/")
	switch {
	case !found || service == "" || name == "":
		return cli.Usagef("invalid --slo %q (want service/slo)", r.SLO)
	case (r.Total == "") != (r.Bad+r.Good == "") || r.Bad != "" && r.Good != "":
		return cli.Usagef("name two selectors: --total, and --bad or --good")
	case !(o.tolerance >= 0 && o.tolerance <= 100):
		return cli.Usagef("invalid --tolerance (want 0 to 100 percent)")
	}
	r.Tolerance = o.tolerance / 100
	servers, err := o.window(ctx)
	if err != nil {
		return err
	}
	if err := o.count(ctx, service, name); err != nil {
		return err
	}
	for i := range servers {
		if err := servers[i].OwnCounters(ctx, r, o.metrics); err != nil {
			return err
		}
	}
	bar := cli.Progress(o.Err)
	r.Progress = func(at time.Time, samples int) {
		bar(float64(at.Sub(r.From))/float64(r.To.Sub(r.From)), fmt.Sprintf("%d samples", samples))
	}
	got, err := r.Reconcile(ctx, servers...)
	bar(1, "")
	if err != nil {
		return err
	}
	err = o.Print(got, func() error { _, err := io.WriteString(o.Out, got.Text()); return err })
	if err == nil && !got.Explained {
		err = cli.ErrFindings
	}
	return err
}

// window finds the times, and the counters and each Prometheus where they are those of a source.
func (o *reconciling) window(ctx context.Context) ([]promapi.Counters, error) {
	r := &o.recount
	now := time.Now()
	var err error
	if r.From, err = timeFlag(o.from, now); err != nil {
		return nil, cli.Usagef("invalid --from %w", err)
	}
	if r.To = now; o.to != "" {
		if r.To, err = timeFlag(o.to, now); err != nil {
			return nil, cli.Usagef("invalid --to %w", err)
		}
	}
	var engine status.Engine
	if err := o.engine.Read(ctx, "/api/v1/engine", nil, &engine); err != nil {
		return nil, err
	}
	token, err := o.prometheus.Token()
	if err != nil {
		return nil, err
	}
	var servers []promapi.Counters
	if o.prometheus.Named() {
		u, err := o.prometheus.URL()
		if err != nil {
			return nil, err
		}
		servers = []promapi.Counters{{Client: &promapi.Client{URL: u, Token: token}}}
	}
	all := engine.Arrived()
	r.Known = promapi.Known{Late: float64(all.Late), Duplicates: float64(all.Duplicates), Rejected: float64(all.Rejected),
		Limited: float64(all.Limited + all.DeadLettered), Sampled: float64(all.Sampled), Since: engine.Started}
	named := r.Total != ""
	for i := range engine.Sources {
		for _, c := range engine.Sources[i].Counters {
			if !slices.Contains(c.SLOs, r.SLO) {
				continue
			}
			if r.Source == "" {
				r.Known = promapi.Known{Since: c.Began}
			}
			r.Source, r.Scrape = engine.Sources[i].Name, cli.Seconds(c.ScrapeSeconds)
			r.Known.Cut += float64(c.Cut)
			if r.Known.Since.After(c.Began) {
				r.Known.Since = c.Began
			}
			if !named && r.Total == "" {
				r.Total, r.Bad, r.Good = c.Total, c.Bad, c.Good
			}
			if r.To.After(c.Until) {
				r.To = c.Until
			}
			if o.prometheus.Named() {
				continue
			}
			u, err := url.Parse(c.URL)
			if err != nil {
				return nil, err
			}
			one := promapi.Counters{Client: &promapi.Client{URL: u, Token: token}}
			if !named {
				one.Total, one.Part = c.Total, c.Bad+c.Good
			}
			servers = append(servers, one)
		}
	}
	for i := range servers {
		if servers[i].Total == "" {
			servers[i].Total, servers[i].Part = r.Total, r.Bad+r.Good
		}
	}
	switch r.From, r.To = r.From.UTC().Truncate(resolution), r.To.UTC().Truncate(resolution); {
	case r.Total == "":
		return nil,
			cli.Usagef("no source of the engine counts %s from counters: name those of the same requests with --total, "+
				"and --bad or --good", r.SLO)
	case len(servers) == 0:
		return nil, cli.Usagef("set --prometheus to the URL of the Prometheus that has these counters")
	case !r.From.Before(r.To):
		return nil, cli.Usagef("the window from %s to %s is empty", r.From.Format(time.RFC3339), r.To.Format(time.RFC3339))
	}
	return servers, nil
}

// maxSteps is how many steps the API has in a history.
const maxSteps = 1000

// count asks the engine for the counts of all groups.
func (o *reconciling) count(ctx context.Context, service, name string) error {
	r := &o.recount
	r.Step = max(resolution, (r.To.Sub(r.From)/maxSteps + resolution - 1).Truncate(resolution))
	r.Engine = make([]promapi.Pair, (r.To.Sub(r.From)+r.Step-1)/r.Step)
	groups := 0
	err := o.engine.Groups(ctx, url.Values{"service": {service}, "slo": {r.SLO}}, func(page v1.SLOList) error {
		for i := range page.Items {
			g := &page.Items[i]
			if g.ID != slo.ID(r.SLO) {
				continue
			}
			switch g.Kind {
			case slo.KindEvents, slo.KindLatency, slo.KindPrometheus, slo.KindCompletion:
			default:
				return fmt.Errorf("%s is a %s, whose counts are not those of requests", r.SLO, g.Kind)
			}
			if g.Slice > 0 {
				return fmt.Errorf("%s counts slices of time, not requests", r.SLO)
			}
			groups++
			if r.Source == "" {
				r.Known.Backfilled += float64(g.Backfilled.Valid)
			}
			q := url.Values{"from": {r.From.Format(time.RFC3339)}, "to": {r.To.Format(time.RFC3339)},
				"step": {fmt.Sprint(int(r.Step.Seconds()))}}
			for label, value := range g.Group {
				q.Set("group."+label, value)
			}
			var h v1.History
			path := "/api/v1/slos/" + url.PathEscape(service) + "/" + url.PathEscape(name) + "/history"
			if err := o.engine.Read(ctx, path, q, &h); err != nil {
				return err
			}
			for _, p := range h.Points {
				if i := int(p.Start.Sub(r.From) / r.Step); i >= 0 && i < len(r.Engine) {
					r.Engine[i].Valid += float64(p.Good + p.Bad)
					r.Engine[i].Bad += float64(p.Bad)
				}
			}
		}
		return nil
	})
	if err == nil && groups == 0 {
		err = fmt.Errorf("the engine has no SLO %s", r.SLO)
	}
	return err
}
