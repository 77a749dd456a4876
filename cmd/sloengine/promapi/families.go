package promapi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// family is a usual family of counters of requests.
type family struct {
	name      string   // of its SLOs, where a service has several families
	total     string   // counter of the requests
	by        string   // label that names the service
	codes     []string // labels that may hold the result
	bad       string   // regular expression of the results that are failures
	histogram string   // of the durations, without _bucket
	unit      string   // of the durations
	only      string   // matcher of all selectors, "" for all series
	timed     string   // likewise, of the histogram alone
}

// serverErrors also stands for a class such as 5xx.
const serverErrors = "5.."

// families are those that are looked for. probe_success is a gauge. envoy_cluster_upstream_rq_total has no result, and
// envoy_cluster_upstream_rq_xx counts the same requests with theirs.
var families = []family{
	{name: "http", total: "http_requests_total", by: "job", codes: []string{"code", "status", "status_code"},
		bad: serverErrors, histogram: "http_request_duration_seconds", unit: "s"},
	{name: "micrometer", total: "http_server_requests_seconds_count", by: "job", codes: []string{"status"},
		bad: serverErrors, histogram: "http_server_requests_seconds", unit: "s"},
	{name: "otel", total: "http_server_request_duration_seconds_count", by: "job",
		codes: []string{"http_response_status_code"}, bad: serverErrors, histogram: "http_server_request_duration_seconds",
		unit: "s"},
	// The codes that are failures of a server in the conventions of OpenTelemetry.
	{name: "grpc", total: "grpc_server_handled_total", by: "job", codes: []string{"grpc_code"},
		bad:       "Unknown|DeadlineExceeded|Unimplemented|Internal|Unavailable|DataLoss",
		histogram: "grpc_server_handling_seconds", unit: "s"},
	// The proxy of the caller counts each request, too.
	{name: "istio", total: "istio_requests_total", by: "destination_service", codes: []string{"response_code"},
		bad: serverErrors, histogram: "istio_request_duration_milliseconds", unit: "ms", only: `reporter="destination"`},
	{name: "nginx", total: "nginx_ingress_controller_requests", by: "ingress", codes: []string{"status"},
		bad: serverErrors, histogram: "nginx_ingress_controller_request_duration_seconds", unit: "s"},
	{name: "traefik", total: "traefik_service_requests_total", by: "service", codes: []string{"code"},
		bad: serverErrors, histogram: "traefik_service_request_duration_seconds", unit: "s"},
	{name: "envoy", total: "envoy_cluster_upstream_rq_xx", by: "envoy_cluster_name",
		codes: []string{"envoy_response_code_class"}, bad: "5", histogram: "envoy_cluster_upstream_rq_time", unit: "ms"},
	{name: "apiserver", total: "apiserver_request_total", by: "job", codes: []string{"code"}, bad: serverErrors,
		histogram: "apiserver_request_duration_seconds", unit: "s", timed: `verb!~"WATCH|CONNECT"`},
}

// selector is that of a metric with matchers, some of which may be empty.
func selector(metric string, matchers ...string) string {
	matchers = slices.DeleteFunc(matchers, func(m string) bool { return m == "" })
	return metric + "{" + strings.Join(matchers, ",") + "}"
}

// equal is a matcher for one value, which may hold anything.
func equal(label, value string) string { return label + "=" + strconv.Quote(value) }

// periods are what is looked at: a shorter one if the server refuses the one before as too much.
var periods = []string{"7d", "1d", "1h"}

// increases are what the counters of a selector added, by labels.
func (c *Client) increases(ctx context.Context, of string, by ...string) (s []Sample, period string, err error) {
	for _, period = range periods {
		s, err = c.Query(ctx, fmt.Sprintf("sum by (%s) (increase(%s[%s]))", strings.Join(by, ", "), of, period))
		refused, ok := errors.AsType[*StatusError](err)
		if !(ok && (refused.Status == http.StatusUnprocessableEntity || refused.Status == http.StatusServiceUnavailable)) {
			break
		}
	}
	for i, x := range s {
		if !(x.Value > 0) || math.IsInf(x.Value, 0) {
			s[i].Value = 0
		}
	}
	return s, period, err
}

// requests are those of one service in a family.
type requests struct {
	service string
	period  string
	count   float64
	code    string  // the label with the result, "" without one
	failed  float64 // share
}

// requests looks for the family. It returns the services that have it.
func (f *family) requests(ctx context.Context, c *Client) ([]requests, error) {
	samples, period, err := c.increases(ctx, selector(f.total, f.only), append([]string{f.by}, f.codes...)...)
	if err != nil {
		return nil, err
	}
	bad := regexp.MustCompile("^(?:" + f.bad + ")$")
	var out []requests
	at := map[string]int{}
	failed := map[[2]string]float64{} // by service and label
	for _, s := range samples {
		name := s.Labels[f.by]
		i, known := at[name]
		if !known {
			i = len(out)
			at[name], out = i, append(out, requests{service: name, period: period})
		}
		r := &out[i]
		r.count += s.Value
		for _, label := range f.codes {
			code := s.Labels[label]
			if code != "" && (r.code == "" || slices.Index(f.codes, label) < slices.Index(f.codes, r.code)) {
				r.code = label
			}
			if bad.MatchString(code) {
				failed[[2]string{name, label}] += s.Value
			}
		}
	}
	for i := range out {
		if r := &out[i]; r.count > 0 {
			r.failed = failed[[2]string{r.service, r.code}] / r.count
		}
	}
	return out, nil
}

// threshold is a bound of a histogram that enough requests meet.
type threshold struct {
	period  string
	bound   float64
	matcher string // of the bucket
	met     float64
}

// latencyObjective is what a threshold is chosen for, in percent.
const latencyObjective = 95

// thresholds are the lowest bounds that latencyObjective of the requests meet, by service.
func (f *family) thresholds(ctx context.Context, c *Client) (map[string]threshold, error) {
	samples, period, err := c.increases(ctx, selector(f.histogram+"_bucket", f.only, f.timed), f.by, "le")
	if err != nil {
		return nil, err
	}
	type bucket struct {
		count float64
		les   []string // Prometheus 3 writes 1.0 for 1, so that a bound may have had two names
	}
	buckets := map[string]map[float64]*bucket{}
	for _, s := range samples {
		bound, err := strconv.ParseFloat(s.Labels["le"], 64)
		if err != nil {
			continue // no bucket
		}
		of := buckets[s.Labels[f.by]]
		if of == nil {
			of = map[float64]*bucket{}
			buckets[s.Labels[f.by]] = of
		}
		if of[bound] == nil {
			of[bound] = &bucket{}
		}
		of[bound].count += s.Value
		of[bound].les = append(of[bound].les, s.Labels["le"])
	}
	out := map[string]threshold{}
	for service, of := range buckets {
		all := of[math.Inf(1)]
		if all == nil || all.count == 0 {
			continue
		}
		for bound, b := range of {
			met := min(b.count/all.count, 1)
			if lowest, found := out[service]; math.IsInf(bound, 0) || met*100 < latencyObjective ||
				found && lowest.bound < bound {
				continue
			}
			t := threshold{period: period, bound: bound, matcher: equal("le", b.les[0]), met: met}
			if slices.Sort(b.les); len(b.les) > 1 {
				for i, le := range b.les {
					b.les[i] = regexp.QuoteMeta(le)
				}
				t.matcher = "le=~" + strconv.Quote(strings.Join(b.les, "|"))
			}
			out[service] = t
		}
	}
	return out, nil
}
