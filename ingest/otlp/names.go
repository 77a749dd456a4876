package otlp

import (
	"strings"

	"github.com/sloengine/sloengine/ingest/event"
)

// renamed are attributes of earlier semantic conventions whose values mean the same under a later name
// (opentelemetry.io/docs/specs/semconv, migration guides of HTTP, messaging, RPC and code).
var renamed = map[string]string{
	"code.function":                         "code.function.name",
	"db.name":                               "db.namespace",
	"db.operation":                          "db.operation.name",
	"db.system":                             "db.system.name",
	"deployment.environment":                "deployment.environment.name",
	"http.flavor":                           "network.protocol.version",
	"http.method":                           "http.request.method",
	"http.scheme":                           "url.scheme",
	"http.status_code":                      "http.response.status_code",
	"http.user_agent":                       "user_agent.original",
	"messaging.client_id":                   "messaging.client.id",
	"messaging.consumer_group":              "messaging.consumer.group.name",
	"messaging.destination":                 "messaging.destination.name",
	"messaging.eventhubs.consumer.group":    "messaging.consumer.group.name",
	"messaging.kafka.consumer.group":        "messaging.consumer.group.name",
	"messaging.kafka.destination.partition": "messaging.destination.partition.id",
	"messaging.kafka.message.offset":        "messaging.kafka.offset",
	"messaging.operation":                   "messaging.operation.type",
	"messaging.servicebus.destination.subscription_name": "messaging.destination.subscription.name",
	"net.host.name":        "server.address",
	"net.host.port":        "server.port",
	"net.protocol.name":    "network.protocol.name",
	"net.protocol.version": "network.protocol.version",
	"rpc.grpc.status_code": "rpc.response.status_code",
	"rpc.system":           "rpc.system.name",
}

// The attributes that a span gets besides its own.
const (
	Operation = "operation" // the name of the span
	TraceID   = event.TraceID
)

// AttributeName is the name under which an attribute of OpenTelemetry is counted, grouped and matched: the one of the
// latest conventions, where every character but letters, digits and underscores has become an underscore. A name that
// the engine needs for itself, such as "type", has "attr_" before it.
func AttributeName(key string) string {
	if now, ok := renamed[key]; ok {
		key = now
	}
	name := plainName(key)
	if !event.ValidAttribute(name) || name == Operation || name == TraceID {
		name = "attr_" + name
	}
	if !event.ValidAttribute(name) {
		return "" // too long
	}
	return name
}

// plainName has underscores in place of all but letters and digits.
func plainName(key string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, key)
}

// ServiceName is the name of the service in specs: every run of characters but letters, digits, dots, dashes and
// underscores has become a dash. "Checkout Service" is "Checkout-Service". It is "" if nothing is left.
func ServiceName(name string) string {
	if event.ValidName(name) {
		return name
	}
	var b strings.Builder
	for _, r := range name {
		if r < 0x80 && event.ValidName(string(r)) {
			b.WriteRune(r)
		} else if n := b.Len(); n > 0 && b.String()[n-1] != '-' {
			b.WriteByte('-')
		}
	}
	return strings.TrimRight(b.String(), "-")
}
