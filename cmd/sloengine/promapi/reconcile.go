package promapi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/ingest/source/series"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/reliability/remote"
)

// Reconciled is a window counted by an engine and by the counters of a Prometheus.
type Reconciled struct {
	SLO   string    `json:"slo"`
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	Total string    `json:"total"`
	Bad   string    `json:"bad,omitempty"`
	Good  string    `json:"good,omitempty"`

	Engine     Pair `json:"engine"`
	Raw        Pair `json:"raw"`      // differences between the samples of the window
	Increase   Pair `json:"increase"` // as the server computes it
	Difference Pair `json:"difference"`
	// Causes and Unexplained add up to Difference.
	Causes      []Cause `json:"causes"`
	Unexplained Pair    `json:"unexplained"`
	Explained   bool    `json:"explained"` // what is unexplained is within the tolerance

	Series        int      `json:"series"`
	Samples       int      `json:"samples"`
	ScrapeSeconds float64  `json:"scrape_seconds"`
	Servers       []Server `json:"servers,omitempty"` // of several, whose sum is compared
	Notes         []string `json:"notes"`
}

// Server is what one of several servers counted.
type Server struct {
	URL      string `json:"url"` // without a password
	Series   int    `json:"series"`
	Increase Pair   `json:"increase"`
}

// Pair is events, of which the engine says that they are valid and bad.
type Pair struct {
	Valid float64 `json:"valid"`
	Bad   float64 `json:"bad"`
}

func (p Pair) minus(q Pair) Pair { return Pair{p.Valid - q.Valid, p.Bad - q.Bad} }

// Cause is a part of a difference.
type Cause struct {
	Cause string `json:"cause"`
	Pair
	AtMost bool   `json:"at_most"` // it may be less: the engine knows a number for all its SLOs together
	Why    string `json:"why"`
}

// Recount says what an engine counted, and which counters are to be compared with it.
type Recount struct {
	SLO              string
	Total, Bad, Good string // selectors; one of Bad and Good
	From, To         time.Time
	Step             time.Duration
	Engine           []Pair        // by step
	Source           string        // that counts the SLO; "": the engine got the events themselves
	Scrape           time.Duration // of the source
	Known            Known

	MaxSeries, MaxSamples int
	Tolerance             float64 // share of the count that may stay unexplained
	Progress              func(at time.Time, samples int)
}

// Known is what an engine says of all its events.
type Known struct {
	Late, Duplicates, Rejected, Limited, Sampled, Backfilled, Cut float64

	Since time.Time // the process began, and counts these since then; zero: they are of the window
}

// ownMetrics are the counters of an engine that are Known, by selector.
func (k *Known) ownMetrics(source, matchers string) map[string]*float64 {
	with := func(names, more string) string {
		return "{" + strings.Join(slices.DeleteFunc([]string{`__name__=~"` + names + `"`, more, matchers},
			func(s string) bool { return s == "" }), ",") + "}"
	}
	if source != "" {
		return map[string]*float64{with(metric.SourceCut.Name, "source="+strconv.Quote(source)): &k.Cut}
	}
	in := metric.IngestEvents.Name + "|" + metric.SourceEvents.Name
	return map[string]*float64{
		with(metric.FoldLateEvents.Name, ""):                &k.Late,
		with(in, `result="duplicate"`):                      &k.Duplicates,
		with(in, `result=~"rejected|expired"`):              &k.Rejected,
		with(in, `result=~"limited|dead_lettered|dropped"`): &k.Limited,
		with(metric.RateLimitSampled.Name, `kept="false"`):  &k.Sampled,
	}
}

// OwnCounters replaces what an engine knows of all its events by what its own metrics said in the window, if the
// Prometheus scrapes it. Matchers tell it from other engines.
func (c *Client) OwnCounters(ctx context.Context, r *Recount, matchers string) error {
	known, found := Known{Backfilled: r.Known.Backfilled}, false
	for selector, to := range known.ownMetrics(r.Source, matchers) {
		got, err := series.Compare(ctx, &series.Comparison{URL: c.URL.String(), Client: c.client(), Total: selector,
			Part: selector, From: r.From, To: r.To, Step: r.To.Sub(r.From), MaxSeries: r.MaxSeries, MaxSamples: r.MaxSamples})
		if err != nil {
			return fmt.Errorf("read the metrics of the engine: %w", err)
		}
		*to, found = got.Total.Counted, found || got.Series > 0
	}
	if found {
		r.Known = known
	}
	return nil
}

// client adds the token to each request.
func (c *Client) client() *http.Client {
	out := remote.Client()
	if c.Token != "" {
		out.Transport = bearer(c.Token)
	}
	out.Timeout = timeout
	return out
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// Counters are those of one server.
type Counters struct {
	*Client
	Total, Part string // selectors; the part as Recount has it
}

// Reconcile compares with the sum of the servers, and says where the difference comes from.
func (r *Recount) Reconcile(ctx context.Context, servers ...Counters) (*Reconciled, error) {
	var sum *series.Compared
	var asked [2]float64
	var list []Server
	for i := range servers {
		got, increase, err := r.counted(ctx, &servers[i])
		if err != nil {
			return nil, err
		}
		if sum == nil {
			sum = got
		} else {
			sum.Add(got)
		}
		one := Server{URL: servers[i].URL.Redacted(), Series: got.Total.Series}
		if one.Increase = r.pair(increase[0], increase[1]); math.IsNaN(increase[0] + increase[1]) {
			one.Increase = r.pair(got.Total.Versions[0].Value, got.Part.Versions[0].Value)
		}
		list = append(list, one)
		asked[0], asked[1] = asked[0]+increase[0], asked[1]+increase[1]
	}
	if sum == nil || sum.Total.Series == 0 {
		return nil, fmt.Errorf("no series of %s has a sample from %s to %s in the Prometheus at %s", remote.Text(r.Total),
			timeText(r.From), timeText(r.To), names(list))
	}
	out := r.split(sum, asked)
	if len(list) > 1 {
		out.Servers = list
	}
	return out, nil
}

func names(list []Server) string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = list[i].URL
	}
	return strings.Join(out, ", ")
}

// counted is what the samples of a server say, and what its increase() does; NaN: it refuses that.
func (r *Recount) counted(ctx context.Context, c *Counters) (got *series.Compared, asked [2]float64, err error) {
	got, err = series.Compare(ctx, &series.Comparison{URL: c.URL.String(), Client: c.client(), Total: c.Total,
		Part: c.Part, From: r.From, To: r.To, Step: r.Step, Scrape: r.Scrape, Events: r.Source == "",
		MaxSeries: r.MaxSeries, MaxSamples: r.MaxSamples, Progress: r.Progress})
	if err != nil {
		return nil, asked, fmt.Errorf("read samples of Prometheus at %s: %w", c.URL.Redacted(), err)
	}
	for i, selector := range []string{c.Total, c.Part} {
		asked[i], err = c.increase(ctx, selector, r.From, r.To)
		var refused *StatusError
		if errors.As(err, &refused) && refused.Status == http.StatusUnprocessableEntity { // more samples than it allows
			asked[i], err = math.NaN(), nil
		}
		if err != nil {
			return nil, asked, err
		}
	}
	return got, asked, nil
}

// increase is what the server says.
func (c *Client) increase(ctx context.Context, selector string, from, to time.Time) (n float64, err error) {
	got, err := c.Query(ctx, fmt.Sprintf("sum(increase(%s[%dms] @ %d))", selector, to.Sub(from).Milliseconds(), to.Unix()))
	if err == nil && len(got) > 0 {
		n = got[0].Value
	}
	return n, err
}

// pair makes valid and bad events of what was counted of all and of a part.
func (r *Recount) pair(total, part float64) Pair {
	if r.Good != "" {
		return Pair{total, total - part}
	}
	return Pair{total, part}
}

func timeText(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// number prints a count, which has fractions only where it was extrapolated or estimated.
func number(n float64) string {
	if math.Abs(n-math.Round(n)) < 1e-6 {
		return strconv.FormatFloat(math.Round(n)+0, 'f', 0, 64)
	}
	return strconv.FormatFloat(n, 'f', 1, 64)
}

func signed(n float64, atMost bool) string {
	text := number(n)
	if n > 0 && text != "0" {
		text = "+" + text
	}
	if atMost {
		text += "?"
	}
	return text
}

func plural(n int, what string) string {
	if n == 1 || what == "series" {
		return fmt.Sprintf("%d %s", n, what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Text is the comparison for people.
func (r *Reconciled) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s from %s to %s, by %s of %s\n\n", remote.Text(r.SLO), timeText(r.From), timeText(r.To),
		plural(r.Samples, "sample"), plural(r.Series, "series"))
	row := func(name, valid, bad string) { fmt.Fprintf(&b, "%-24s %14s %12s\n", name, valid, bad) }
	row("", "VALID", "BAD")
	row("engine", number(r.Engine.Valid), number(r.Engine.Bad))
	row("increase()", number(r.Increase.Valid), number(r.Increase.Bad))
	for i := range r.Servers {
		one := &r.Servers[i]
		row("  "+remote.Text(one.URL), number(one.Increase.Valid), number(one.Increase.Bad))
	}
	row("difference", signed(r.Difference.Valid, false), signed(r.Difference.Bad, false))
	b.WriteByte('\n')
	for i := range r.Causes {
		c := &r.Causes[i]
		row("  "+c.Cause, signed(c.Valid, c.AtMost), signed(c.Bad, c.AtMost))
	}
	row("  unexplained", signed(r.Unexplained.Valid, false), signed(r.Unexplained.Bad, false))
	b.WriteString("\nWhy:\n")
	for i := range r.Causes {
		c := &r.Causes[i]
		fmt.Fprintf(&b, "  %s: %s.\n", c.Cause, c.Why)
	}
	if slices.ContainsFunc(r.Causes, func(c Cause) bool { return c.AtMost }) {
		b.WriteString("  A number with ? is at most so large: the engine counts the cause for all SLOs together.\n")
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "  %s\n", n)
	}
	return b.String()
}
