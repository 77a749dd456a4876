package otlp

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/sloengine/sloengine/ingest/event"
)

// Settings say what becomes of OpenTelemetry signals.
type Settings struct {
	// GRPC is the address where OTLP/gRPC is served; "": it is not.
	GRPC string `yaml:"grpc"`
	// Keep are the attributes that events keep besides those that the spec names, in the form of the conventions. One
	// "*" stands for any characters.
	Keep []string `yaml:"keep"`
	// Services gives services another name: that of service.name, or "namespace/name".
	Services map[string]string `yaml:"services"`
	// Sampling is the share of spans that a service sends, where its spans do not say it themselves.
	Sampling map[string]float64 `yaml:"sampling"`
	// Spans are rules for spans that count otherwise than by default. The first that matches decides.
	Spans []SpanRule `yaml:"spans"`
	// Logs are rules for log records, none of which counts by default. The first that matches decides.
	Logs []LogRule `yaml:"logs"`
	// Metrics are rules for metrics, none of which counts by default. The first that matches decides.
	Metrics []MetricRule `yaml:"metrics"`
}

// SpanRule says how matching spans count.
type SpanRule struct {
	Service string `yaml:"service"` // as specs name it; "" is every service
	Name    string `yaml:"name"`    // of the span; one "*" stands for any characters
	// "" is any
	Kind  string            `yaml:"kind" one:"internal server client producer consumer"`
	Match map[string]string `yaml:"attributes"` // of the span or its resource; one "*" stands for any characters
	Type  string            `yaml:"type"`       // of the event; "" does not count the span
}

// LogRule says which log records count. One of the severity ERROR or above is a failure.
type LogRule struct {
	Service  string            `yaml:"service"`     // as specs name it; "" is every service
	Event    string            `yaml:"event_name"`  // of the record, or its attribute event.name; "" is any
	Body     string            `yaml:"body"`        // one "*" stands for any characters; "" is any
	Match    map[string]string `yaml:"attributes"`  // of the record or its resource
	Type     string            `yaml:"type"`        // of the event
	Duration string            `yaml:"duration_ms"` // the attribute that has it; "": there is none
}

// MetricRule says which points of counters and histograms count.
type MetricRule struct {
	Service string            `yaml:"service"`    // as specs name it; "" is every service
	Metric  string            `yaml:"metric"`     // its name; one "*" stands for any characters
	Match   map[string]string `yaml:"attributes"` // of the point or its resource
	Type    string            `yaml:"type"`       // of the events
	// Failure is the attributes of failures. Without it, these are those of a status of HTTP from 500 on, or of gRPC that
	// is a fault of the server.
	Failure map[string]string `yaml:"failure"`
}

// DefaultKeep are the attributes that are kept by default: what a fault is attributed to, with few values each.
var DefaultKeep = []string{
	"service.version", "deployment.environment.name", "error.type", "http.route", "http.request.method",
	"http.response.status_code", "rpc.service", "rpc.method", "messaging.destination.name", "k8s.*.name",
}

// The bounds of what a span brings.
const (
	maxKept       = 24  // attributes of an event
	maxValueBytes = 256 // of their values: the rest is cut
	maxRules      = 100
)

// kinds are the kinds of spans by their number in the protocol.
var kinds = [...]string{"", "internal", "server", "client", "producer", "consumer"}

// The numbers of span kinds.
const (
	kindInternal = 1
	kindServer   = 2
	kindConsumer = 5
)

// Check calls problem for whatever is wrong, with the place below the settings.
func (s *Settings) Check(problem report) {
	if _, port, err := net.SplitHostPort(s.GRPC); s.GRPC != "" && (err != nil || port == "") {
		problem("grpc", "want host and port, such as 127.0.0.1:4317", fmt.Sprintf("%q is not an address", s.GRPC))
	}
	seen := map[string]string{}
	for i, key := range s.Keep {
		place := fmt.Sprintf("keep[%d]", i)
		name := AttributeName(strings.Replace(key, "*", "x", 1))
		switch {
		case key == "" || strings.Count(key, "*") > 1 || name == "":
			problem(place, `want a name such as "http.route" or "k8s.*.name"`, fmt.Sprintf("%q is not the name of an attribute",
				key))
		case seen[name] != "" && seen[name] != key:
			problem(place, "remove one", fmt.Sprintf("%q and %q are both the attribute %s", seen[name], key, name))
		}
		seen[name] = key
	}
	for _, from := range slices.Sorted(maps.Keys(s.Services)) {
		if !event.ValidName(s.Services[from]) {
			problem("services", "want letters, digits, dots, dashes and underscores",
				fmt.Sprintf("%q is not the name of a service", s.Services[from]))
		}
	}
	for _, service := range slices.Sorted(maps.Keys(s.Sampling)) {
		if r := s.Sampling[service]; !(r > 0 && r <= 1) {
			problem("sampling", "want a share above 0, at most 1, such as 0.1", fmt.Sprintf("the share %v of %s", r, service))
		}
	}
	for i, r := range s.Spans {
		place := fmt.Sprintf("spans[%d]", i)
		onePattern(problem, place+".name", r.Name)
		attributePatterns(problem, place, r.Match)
		if r.Type != "" {
			typeName(problem, place, r.Type)
		}
		if r.Service == "" && r.Name == "" && r.Kind == "" && len(r.Match) == 0 {
			problem(place, "add service, name, kind or attributes", "the rule matches every span")
		}
	}
	for i, r := range s.Logs {
		place := fmt.Sprintf("logs[%d]", i)
		onePattern(problem, place+".body", r.Body)
		attributePatterns(problem, place, r.Match)
		typeName(problem, place, r.Type)
		if r.Event == "" && r.Body == "" && len(r.Match) == 0 {
			problem(place, "add event_name, body or attributes", "the rule matches every log record")
		}
	}
	for i, r := range s.Metrics {
		place := fmt.Sprintf("metrics[%d]", i)
		onePattern(problem, place+".metric", r.Metric)
		attributePatterns(problem, place, r.Match)
		attributePatterns(problem, place, r.Failure)
		typeName(problem, place, r.Type)
		if r.Metric == "" {
			problem(place+".metric", "want a name such as http.server.request.duration", "the rule names no metric")
		}
	}
	for i, n := range [...]int{len(s.Spans), len(s.Logs), len(s.Metrics)} {
		if n > maxRules {
			problem([...]string{"spans", "logs", "metrics"}[i], "merge some", fmt.Sprintf("at most %d rules", maxRules))
		}
	}
}

type report = func(place, remedy, text string)

func onePattern(problem report, place, text string) {
	if strings.Count(text, "*") > 1 {
		problem(place, "use one *", fmt.Sprintf("%q has more than one *", text))
	}
}

func attributePatterns(problem report, place string, match map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(match)) {
		onePattern(problem, place+".attributes", match[key])
	}
}

func typeName(problem report, place, name string) {
	if !event.ValidName(name) {
		problem(place+".type", "want letters, digits, dots, dashes and underscores", fmt.Sprintf("%q is not a type", name))
	}
}

// pattern is a text where one "*" stands for any characters.
type pattern struct {
	before, after string
	open          bool
}

// anyText matches every text.
var anyText = newPattern("*")

func newPattern(text string) pattern {
	before, after, open := strings.Cut(text, "*")
	return pattern{before, after, open}
}

func (p *pattern) match(text string) bool {
	if !p.open {
		return text == p.before
	}
	return len(text) >= len(p.before)+len(p.after) && strings.HasPrefix(text, p.before) && strings.HasSuffix(text, p.after)
}
