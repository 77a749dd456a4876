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
}

// SpanRule says how matching spans count.
type SpanRule struct {
	Service string `yaml:"service"` // as specs name it; "" is every service
	Name    string `yaml:"name"`    // of the span; one "*" stands for any characters
	// "" is any
	Kind  string            `yaml:"kind" one:"internal server client producer consumer"`
	Match map[string]string `yaml:"attributes"` // of the span or its resource
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
func (s *Settings) Check(problem func(place, remedy, text string)) {
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
	if len(s.Spans) > maxRules {
		problem("spans", "merge some", fmt.Sprintf("at most %d rules", maxRules))
	}
	for i, r := range s.Spans {
		place := fmt.Sprintf("spans[%d]", i)
		if strings.Count(r.Name, "*") > 1 {
			problem(place+".name", "use one *", fmt.Sprintf("%q has more than one *", r.Name))
		}
		if r.Type != "" && !event.ValidName(r.Type) {
			problem(place+".type", "want letters, digits, dots, dashes and underscores",
				fmt.Sprintf("%q is not a type", r.Type))
		}
		if r.Service == "" && r.Name == "" && r.Kind == "" && len(r.Match) == 0 {
			problem(place, "add service, name, kind or attributes", "the rule matches every span")
		}
	}
	if len(s.Logs) > maxRules {
		problem("logs", "merge some", fmt.Sprintf("at most %d rules", maxRules))
	}
	for i, r := range s.Logs {
		place := fmt.Sprintf("logs[%d]", i)
		if strings.Count(r.Body, "*") > 1 {
			problem(place+".body", "use one *", fmt.Sprintf("%q has more than one *", r.Body))
		}
		if !event.ValidName(r.Type) {
			problem(place+".type", "want letters, digits, dots, dashes and underscores", fmt.Sprintf("%q is not a type", r.Type))
		}
		if r.Event == "" && r.Body == "" && len(r.Match) == 0 {
			problem(place, "add event_name, body or attributes", "the rule matches every log record")
		}
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
