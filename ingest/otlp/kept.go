package otlp

import (
	"slices"
	"strings"
	"time"
)

// Kept is which attributes the spans of a service keep, and since when at the latest.
type Kept struct {
	Service    string    `json:"service"`
	Attributes []string  `json:"attributes"` // that the spec names
	NamedSince time.Time `json:"named_since"`
	Keep       []string  `json:"keep"` // of the settings
	KeepSince  time.Time `json:"keep_since"`
}

// Since is when at the latest the spans began to keep an attribute; false if they do not.
func (k *Kept) Since(name string) (time.Time, bool) {
	own := name == Operation || name == TraceID // of the span, and no attributes of it
	if !own && slices.ContainsFunc(k.Keep, func(key string) bool { return keeps(key, name) }) {
		return k.KeepSince, true
	}
	return k.NamedSince, slices.Contains(k.Attributes, name)
}

// keeps reports whether a key of Settings.Keep keeps an attribute, by the name that events have.
func keeps(key, name string) bool {
	if !strings.Contains(key, "*") {
		return AttributeName(key) == name
	}
	p := newPattern(key)
	p.before, p.after = plainName(p.before), plainName(p.after)
	return p.match(name)
}

// SpanFed lists the services of which spans counted in the last hour.
func (f *Findings) SpanFed() (services []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.o.Now()
	for x, at := range f.fed {
		if now.Sub(at[signalSpans]) < findingLife {
			services = append(services, x.Service)
		}
	}
	slices.Sort(services)
	return slices.Compact(services)
}
