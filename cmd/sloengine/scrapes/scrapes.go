// Package scrapes compares the scrape interval that rules are made for with the samples that a running Prometheus has.
// It knows no specs and no settings: it reads the expressions of rules.
package scrapes

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/slo"
)

// lookback is how far back samples are counted.
const lookback = 10 * time.Minute

// maxAnswer bounds an answer of Prometheus, in bytes. One number is expected.
const maxAnswer = 1 << 20

// Finding is a series whose samples do not fit the rules that read it.
type Finding struct{ Message, Suggestion string }

// Prometheus is a server that answers /api/v1/query as Prometheus does. Its URL may have a user and a password.
type Prometheus struct {
	URL    *url.URL
	Client *http.Client
}

// Check finds the counters that rules read over ranges that hold fewer than two samples, of which rate() makes nothing,
// and those without samples, whose scrape interval is not known. Every is the scrape interval that the rules are made
// for.
func (p Prometheus) Check(ctx context.Context, groups []rules.Group, every time.Duration) ([]Finding, error) {
	read, order, err := counters(groups)
	if err != nil {
		return nil, err
	}
	var out []Finding
	for _, selector := range order {
		n, ok, err := p.samples(ctx, selector)
		switch {
		case err != nil:
			return nil, err
		case !ok:
			out = append(out, Finding{
				fmt.Sprintf("the scrape interval of %s is not known: Prometheus has no sample of the last %s", selector,
					slo.FormatDuration(lookback)),
				fmt.Sprintf(
					"check the selector and the scrape job; without samples SLONoData fires. The rules assume a scrape every %s",
					slo.FormatDuration(every)),
			})
			continue
		}
		found := time.Duration(float64(lookback) / n)
		if shortest := read[selector]; 2*found > shortest {
			out = append(out, Finding{
				fmt.Sprintf(
					"%s has a sample every %s, but rules read its rate over %s, in which two are needed: without them nothing is "+
						"recorded and no alert fires",
					selector, slo.FormatDuration(found.Round(time.Second)), slo.FormatDuration(shortest)),
				remedy(found),
			})
		}
	}
	return out, nil
}

func remedy(found time.Duration) string {
	for _, d := range []time.Duration{15 * time.Second, 20 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute} {
		if found <= d+d/10 { // scrapes fail now and then
			return "generate with --scrape-interval " + slo.FormatDuration(d)
		}
	}
	return "scrape it every 2m or more often, and generate with that --scrape-interval"
}

// counters are the selectors that rules read over a range and that no rule records, each with the shortest of its
// ranges.
func counters(groups []rules.Group) (shortest map[string]time.Duration, order []string, err error) {
	recorded := map[string]bool{}
	for _, g := range groups {
		for _, r := range g.Rules {
			recorded[r.Record] = true
		}
	}
	shortest = map[string]time.Duration{}
	p := parser.NewParser(parser.Options{})
	for _, g := range groups {
		for _, r := range g.Rules {
			expr, err := p.ParseExpr(r.Expr)
			if err != nil {
				return nil, nil, fmt.Errorf("parse rule %s: %w", r.Record+r.Alert, err)
			}
			parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
				m, ok := n.(*parser.MatrixSelector)
				if !ok {
					return nil
				}
				v, ok := m.VectorSelector.(*parser.VectorSelector)
				if !ok || recorded[v.Name] {
					return nil
				}
				plain := parser.VectorSelector{Name: v.Name, LabelMatchers: v.LabelMatchers}
				name := plain.String()
				if have, seen := shortest[name]; !seen {
					order = append(order, name)
					shortest[name] = m.Range
				} else {
					shortest[name] = min(have, m.Range)
				}
				return nil
			})
		}
	}
	return shortest, order, nil
}

// samples is the median number of samples of a series within lookback. ok is false if there is no series.
func (p Prometheus) samples(ctx context.Context, selector string) (n float64, ok bool, err error) {
	u := p.URL.JoinPath("api", "v1", "query")
	u.RawQuery = url.Values{
		"query": {"quantile(0.5, count_over_time(" + selector + "[" + slo.FormatDuration(lookback) + "]))"}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return 0, false, err
	}
	res, err := p.Client.Do(req)
	if err != nil {
		return 0, false, fmt.Errorf("query Prometheus: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return 0, false, fmt.Errorf("query Prometheus: %w", err)
	}
	var answer struct {
		Error string
		Data  struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil || res.StatusCode != http.StatusOK || answer.Error != "" {
		if answer.Error == "" {
			answer.Error = strings.TrimSpace(string(body[:min(len(body), 200)]))
		}
		return 0, false, fmt.Errorf("query Prometheus at %s: %s: %s", p.URL.Redacted(), res.Status, answer.Error)
	}
	if len(answer.Data.Result) == 0 {
		return 0, false, nil
	}
	text, _ := answer.Data.Result[0].Value[1].(string)
	n, err = strconv.ParseFloat(text, 64)
	if err != nil || n <= 0 {
		return 0, false, fmt.Errorf("query Prometheus at %s: unexpected value %q", p.URL.Redacted(), text)
	}
	return n, true, nil
}
