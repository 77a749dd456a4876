package event

import (
	"bytes"

	"github.com/sloengine/sloengine/slo/suggest"
)

// nameByte marks the bytes of names.
var nameByte = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			c == '.' || c == '_' || c == '-'
	}
	return t
}()

func isName[T string | []byte](text T) bool {
	for i := range len(text) {
		if !nameByte[text[i]] {
			return false
		}
	}
	return len(text) > 0
}

// ValidName reports whether text may name a service, a type or a severity: one
// or more letters, digits, dots, dashes and underscores.
func ValidName(text string) bool { return isName(text) }

func isAttrName(name []byte) bool {
	return isName(name) && !isDigit(name[0]) && name[0] != '.' && name[0] != '-'
}

// ValidAttributeName reports whether an attribute may have the name: as
// ValidName, but beginning with a letter or underscore, and not reserved.
func ValidAttributeName(name string) bool {
	b := []byte(name)
	return isAttrName(b) && !isReserved(b)
}

// isReserved reports whether the exported series need the label for themselves.
func isReserved(name []byte) bool {
	if bytes.HasPrefix(name, []byte("slo_")) || bytes.HasPrefix(name, []byte("sla_")) {
		return true
	}
	switch string(name) {
	case "slo", "sla", "service", "type", "outcome", "severity", "id", "time", "result", "le", "window":
		return true
	}
	return false
}

// aliases are other programs' words for our fields.
var aliases = map[string]string{
	"timestamp": "time", "ts": "time", "@timestamp": "time", "date": "time", "datetime": "time",
	"event_id": "id", "uuid": "id", "name": "type", "event": "type", "event_type": "type", "kind": "type",
	"app": "service", "application": "service", "service_name": "service",
	"status": "outcome", "result": "outcome", "success": "outcome", "level": "severity",
	"latency": "duration", "elapsed": "duration", "latency_ms": "duration_ms", "elapsed_ms": "duration_ms",
	"labels": "attributes", "tags": "attributes", "attrs": "attributes", "fields": "attributes",
	"properties": "attributes",
	"weight":     "count",
}

var fieldNames = []string{"id", "time", "service", "type", "outcome", "severity", "duration_ms", "duration", "count",
	"attributes", "durations"}

// unknownField notes a field that does not exist, with the nearest that does.
func (d *Decoder) unknownField(key []byte) {
	if d.problem != "" || d.quiet {
		d.fail(CodeUnknownField, "")
		return
	}
	near := ""
	if len(key) <= quoteBytes {
		lower := string(bytes.ToLower(key))
		if near = aliases[lower]; near == "" {
			near = suggest.Closest(lower, fieldNames)
		}
	}
	if near == "" {
		d.fail(CodeUnknownField, "Unknown field %s. Put it into attributes.", quote(key))
		return
	}
	d.fail(CodeUnknownField, "Unknown field %s. Did you mean %q?", quote(key), near)
}

func outcomeHint(text []byte) string {
	switch string(bytes.ToLower(text[:min(len(text), 16)])) {
	case "ok", "good", "succeeded", "successful", "true", "pass", "passed", "success":
		return `"success"`
	case "error", "err", "bad", "failed", "fail", "false", "ko", "failure", "timeout":
		return `"failure"`
	}
	return `"success" or "failure"`
}
