package dashboards

import "strings"

// picked selects the engines that the reader picked.
const picked = `job=~"$job",instance=~"$instance"`

// interval is the only window over which raw counters are read: Grafana makes it
// long enough for four scrapes and short enough for the picture.
const interval = `[$__rate_interval]`

// gauge selects a metric of the picked engines; more matchers may follow.
func gauge(name string, matchers ...string) string {
	return name + "{" + strings.Join(append([]string{picked}, matchers...), ",") + "}"
}

// rate is the growth per second of a counter of the picked engines.
func rate(name string, matchers ...string) string {
	return "rate(" + gauge(name, matchers...) + interval + ")"
}

// sumRate adds the growth up, one line for each value of by; "" is one line.
func sumRate(by, name string, matchers ...string) string {
	if by == "" {
		return "sum(" + rate(name, matchers...) + ")"
	}
	return "sum by (" + by + ") (" + rate(name, matchers...) + ")"
}

// quantile is that of a duration histogram of the picked engines.
func quantile(q, name string, matchers ...string) string {
	return "histogram_quantile(" + q + ", " + sumRate("le", name+"_bucket", matchers...) + ")"
}

// quantileBy gives one line for each value of by that was observed.
func quantileBy(q, by, name string, matchers ...string) string {
	return "histogram_quantile(" + q + ", " + sumRate("le, "+by, name+"_bucket", matchers...) + ") >= 0"
}

// mean is the mean of a histogram's or summary's observations.
func mean(name string) string {
	return sumRate("instance", name+"_sum") + " / (" + sumRate("instance", name+"_count") + " > 0)"
}
