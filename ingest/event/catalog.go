package event

import (
	"maps"
	"slices"

	"github.com/sloengine/sloengine/slo/suggest"
)

// StaticCatalog is a Catalog that knows a fixed set of names.
type StaticCatalog struct {
	services map[string]map[string]bool // the types; empty takes any
	admits   map[string]bool            // services of which events of other types are stored
}

// NewCatalog makes a catalogue of services and their types. A service without
// types takes every type.
func NewCatalog(services map[string][]string) *StaticCatalog {
	c := &StaticCatalog{services: make(map[string]map[string]bool, len(services))}
	for name, types := range services {
		known := make(map[string]bool, len(types))
		for _, typ := range types {
			known[typ] = true
		}
		c.services[name] = known
	}
	return c
}

// Admit makes the events of unknown types of a service known as Uncounted.
func (c *StaticCatalog) Admit(service string) {
	if c.admits == nil {
		c.admits = map[string]bool{}
	}
	c.admits[service] = true
}

// Lookup implements Catalog.
func (c *StaticCatalog) Lookup(service, typ []byte) Known {
	types, ok := c.services[string(service)]
	switch {
	case !ok:
		return UnknownService
	case len(types) > 0 && !types[string(typ)]:
		if c.admits[string(service)] {
			return Uncounted
		}
		return UnknownType
	}
	return KnownYes
}

// Suggest implements Suggester.
func (c *StaticCatalog) Suggest(service, typ []byte) string {
	if types, ok := c.services[string(service)]; ok {
		return suggest.Closest(string(typ), slices.Sorted(maps.Keys(types)))
	}
	return suggest.Closest(string(service), slices.Sorted(maps.Keys(c.services)))
}
