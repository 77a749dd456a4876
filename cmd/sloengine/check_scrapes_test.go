package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/cmd/sloengine/promapi"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/slo/spec"
)

var scrapedGroups = []rules.Group{{Rules: []rules.Rule{
	{Record: "slo:valid_events", Expr: `sum(rate(http_requests_total{job="a"}[45s])) * 30`},
	{Record: "slo:bad_events", Expr: `sum(rate(http_errors_total{job="a"}[45s])) * 30 or slo:valid_events * 0`},
	{Alert: "Old",
		Expr: `sum_over_time(slo:valid_events[1h]) > 0 and increase(http_errors_total{job="a"}[30m] offset 1d) > 0`},
}}}

// Two samples in 45s need a scrape every 22.5s; a missed one in ten minutes changes nothing.
func TestScrapes(t *testing.T) {
	for samples, want := range map[string]string{
		"40": "", "39": "", "27": "",
		"26": "generate with --scrape-interval 30s", "20": "generate with --scrape-interval 30s",
		"10": "generate with --scrape-interval 1m", "5": "generate with --scrape-interval 2m",
		"2": "scrape it every 2m or more often",
	} {
		found, err := scraped(t, func(query string) string {
			require.Regexp(t, `^quantile\(0.5, count_over_time\(http_(requests|errors)_total\{job="a"\}\[10m\]\)\)$`, query)
			return fmt.Sprintf(
				`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,%q]}]}}`, samples)
		}).Check(t.Context(), scrapedGroups, 15*time.Second)
		require.NoError(t, err)
		if want == "" {
			require.Empty(t, found, samples)
			continue
		}
		require.Len(t, found, 2, "one for each counter, none for recorded series")
		require.Contains(t, found[0].Message, `http_requests_total{job="a"} has a sample every`)
		require.Contains(t, found[0].Message, "over 45s")
		require.Contains(t, found[0].Suggestion, want)
	}
}

func TestScrapesWithoutSamples(t *testing.T) {
	found, err := scraped(t, func(query string) string {
		if strings.Contains(query, "errors") {
			return `{"status":"success","data":{"resultType":"vector","result":[]}}`
		}
		return `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"40"]}]}}`
	}).Check(t.Context(), scrapedGroups, 15*time.Second)
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t,
		`the scrape interval of http_errors_total{job="a"} is not known: Prometheus has no sample of the last 10m`,
		found[0].Message)
}

// A threshold that is no bound of its histogram is refused, with the nearest ones.
func TestThresholdsThatAreNoBounds(t *testing.T) {
	found, err := scraped(t, func(query string) string {
		if query == `group by (le) ({job="a",__name__="took_bucket"})` {
			return `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"le":"+Inf"},"value":[1,"1"]},` +
				`{"metric":{"le":"0.1"},"value":[1,"1"]},{"metric":{"le":"0.5"},"value":[1,"1"]}]}}`
		}
		return `{"status":"success","data":{"resultType":"vector","result":[]}}`
	}).Check(t.Context(), []rules.Group{{Rules: []rules.Rule{
		{Record: "slo:good_events", Expr: `sum(rate(took_bucket{job="a",le="0.4"}[45s]))`}}}}, 15*time.Second)
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, spec.Error, found[0].Severity)
	require.Equal(t,
		`took_bucket{job="a",le="0.4"}: the histogram has no bound le="0.4": the nearest are le="0.5" and le="0.1"`,
		found[0].Message)
}

// Its own words say what is wrong, and a password in the address is not shown.
func TestScrapeErrors(t *testing.T) {
	for answer, want := range map[string]string{
		`{"status":"error","error":"query timed out"}`: "200 OK: query timed out",
		`<html>proxy</html>`:                           "<html>proxy</html>",
		`{"status":"success","data":{"resultType":"vector","result":[{"value":[1,"NaN?"]}]}}`: `unexpected value "NaN?"`,
		`{"status":"success","data":{"resultType":"vector","result":[{"value":[1,"NaN"]}]}}`:  `has NaN samples`,
	} {
		p := scraped(t, func(string) string { return answer })
		p.URL.User = url.UserPassword("me", "secret")
		_, err := p.Check(t.Context(), scrapedGroups, 15*time.Second)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "secret")
	}
}

func scraped(t *testing.T, answer func(query string) string) scrapeCheck {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/prometheus/api/v1/query" {
			_, _ = fmt.Fprint(w, answer(r.URL.Query().Get("query")))
		}
	}))
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL + "/prometheus")
	require.NoError(t, err)
	return scrapeCheck{&promapi.Client{URL: u}}
}

func TestScrapesFollowNoRedirect(t *testing.T) {
	asked := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer other.Close()
	s := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusFound))
	defer s.Close()
	u, err := url.Parse(s.URL)
	require.NoError(t, err)
	_, err = scrapeCheck{&promapi.Client{URL: u}}.Check(t.Context(), scrapedGroups, 15*time.Second)
	require.ErrorContains(t, err, "302 Found: redirected to")
	require.False(t, asked)
}
