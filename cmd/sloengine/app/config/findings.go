package config

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sloengine/sloengine/ingest/otlp"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/suggest"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// sinkReserve is what a call to a sink leaves of an event's ttl.
const sinkReserve = 20 * time.Millisecond

// Known is what the spec has, for settings that name it.
type Known struct {
	Services   []string
	Agreements []string // service/name
	// Typical is the shortest latency threshold of each event type that has one.
	Typical map[string]time.Duration
	// Groups is how many groups the SLOs and event thresholds of each service may have.
	Groups map[string]int
	// Traced is an SLO of each service that follows work by trace.
	Traced map[string]slo.ID
	// Longest is the SLO with the longest window.
	Longest       slo.ID
	LongestWindow time.Duration
}

// Check reads engine.yaml as a start does. The problems are errors, which keep an engine from starting, and warnings
// about what is allowed and cannot work as it was probably meant. Without known, nothing is held against a spec.
func Check(name string, known *Known, data DataDir) (yamldoc.Problems, error) {
	if name == "" {
		return nil, nil
	}
	text, err := fsys.ReadFile(name, yamldoc.MaxFileBytes)
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	c, out, err := parseConfig(name, text)
	if err != nil || out.HasErrors() {
		return out, err
	}
	out = append(out, c.StartProblems(known, data)...)
	if known != nil {
		if r := c.RetainFor(known.LongestWindow); r > 0 && r < known.LongestWindow {
			out = append(out, c.problem(yamldoc.SeverityWarning, "log.retain",
				"raise it to "+slo.FormatDuration(known.LongestWindow+retainBeyond),
				"the history reaches back %s of the %s that %s needs, so the rest of its window cannot be rebuilt",
				slo.FormatDuration(r), slo.FormatDuration(known.LongestWindow), known.Longest))
		}
		for _, u := range c.UnknownInReports(*known) {
			hint := "remove the report, or add it to the spec"
			if u.Closest != "" {
				hint = "did you mean " + strconv.Quote(u.Closest) + "?"
			}
			out = append(out, c.problem(yamldoc.SeverityWarning, item("reports", u.index)+"."+u.Key, hint,
				"no spec has the %s %q, so the report will be empty", u.Key, u.Name))
		}
	}
	return out, nil
}

// problem is one with the value of a path, after the path.
func (c *Config) problem(severity yamldoc.Severity, path, hint, format string, args ...any) yamldoc.Problem {
	return yamldoc.Problem{Position: c.places.At(path).At(), Severity: severity,
		Message: path + ": " + fmt.Sprintf(format, args...), Suggestion: hint}
}

func (c *Config) find(warn func(path, hint, format string, args ...any)) {
	c.adviseTypes(warn)
	for i := range c.Sinks {
		s := &c.Sinks[i]
		if worst := s.worstCase(); s.TTL > 0 && worst > s.TTL {
			warn(item("sinks", i)+".ttl", "raise it, or lower timeout, retry.max_retries or retry.cap",
				"all attempts to deliver a batch may take %s, longer than the ttl: events become dead letters before their last "+
					"retry", slo.FormatDuration(worst))
		}
	}
	for i := range max(len(c.Sinks), 1) {
		limit, name := &c.Retry, "retries"
		if i < len(c.Sinks) {
			limit, name = &c.Sinks[i].Retry, "the retries of sink "+c.Sinks[i].Name
		}
		if most := float64(limit.RateLimit.PerInterval) / limit.RateLimit.Interval.Seconds(); c.Alerts.RetriesPerSec >= most {
			warn("alerts.retries", "lower it", "the alert can never fire: %s are limited to %g a second", name, most)
			break
		}
	}
}

// adviseTypes finds rules that give log records or metrics a type that another signal has, too.
func (c *Config) adviseTypes(warn func(path, hint, format string, args ...any)) {
	type rule struct{ signal, path, service, typ string }
	var all []rule
	for i, r := range c.OTLP.Spans {
		all = append(all, rule{"spans", item("otlp.spans", i), r.Service, r.Type})
	}
	for i, r := range c.OTLP.Logs {
		all = append(all, rule{"log records", item("otlp.logs", i), r.Service, r.Type})
	}
	for i, r := range c.OTLP.Metrics {
		all = append(all, rule{"metrics", item("otlp.metrics", i), r.Service, r.Type})
	}
	for i, r := range all[len(c.OTLP.Spans):] {
		signal, by := "spans", "by default"
		j := slices.IndexFunc(all[:len(c.OTLP.Spans)+i], func(o rule) bool {
			return o.signal != r.signal && o.typ == r.typ && (o.service == r.service || o.service == "" || r.service == "")
		})
		if j >= 0 {
			signal, by = all[j].signal, all[j].path
		} else if !otlp.IsSpanType(r.typ) {
			continue
		}
		warn(r.path+".type", "give it another type",
			"%s have the type %q, too (%s): an operation that is in both counts twice",
			signal, r.typ, by)
	}
}

// UnknownInReport is a service or an agreement that a report names and no spec has.
type UnknownInReport struct {
	index   int
	Report  string
	Key     string // service or agreement
	Name    string
	Closest string // what was probably meant; "" if nothing is close
}

// UnknownInReports lists what reports name and no spec has.
func (c *Config) UnknownInReports(known Known) (out []UnknownInReport) {
	for i := range c.Reports {
		r := &c.Reports[i]
		for _, x := range []struct {
			key, name string
			known     []string
		}{{"service", r.Service, known.Services}, {"agreement", string(r.Agreement), known.Agreements}} {
			if x.name != "" && !slices.Contains(x.known, x.name) {
				out = append(out, UnknownInReport{i, r.Name, x.key, x.name, suggest.Closest(x.name, x.known)})
			}
		}
	}
	return out
}

// worstCase is how long all attempts to deliver a batch may take with the largest jitter. It is 0 if only the ttl
// ends them.
func (s *Sink) worstCase() time.Duration {
	r := &s.Retry
	timeout, most := s.Timeout, r.Cap
	elapsed, unlimited := r.MaxElapsed, r.MaxRetries < 0
	if unlimited && elapsed == 0 {
		return 0
	}
	growth, above := time.Duration(2), 1.0
	delay := r.Base
	switch r.Jitter {
	case "decorrelated": // up to three times the delay before
		growth, delay = 3, 3*delay
	case "plusminus":
		above += r.Spread
	}
	total := timeout
	for range min(int(r.MaxRetries), 10_000) {
		delay = min(delay, most)
		total += min(time.Duration(above*float64(delay)), most) + timeout
		delay *= growth
	}
	if unlimited || elapsed > 0 && total > elapsed+timeout {
		total = elapsed + timeout
	}
	return s.Batch.Wait + total + sinkReserve
}
