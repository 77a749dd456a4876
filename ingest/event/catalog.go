package event

import (
	"slices"
)

// StaticCatalog is a Catalog that knows a fixed set of names.
type StaticCatalog struct {
	services map[string]map[string]bool // the types; empty takes any
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

// Lookup implements Catalog.
func (c *StaticCatalog) Lookup(service, typ []byte) Known {
	types, ok := c.services[string(service)]
	switch {
	case !ok:
		return UnknownService
	case len(types) > 0 && !types[string(typ)]:
		return UnknownType
	}
	return KnownYes
}

// Suggest implements Suggester.
func (c *StaticCatalog) Suggest(service, typ []byte) string {
	if types, ok := c.services[string(service)]; ok {
		return nearest(string(typ), sortedKeys(types))
	}
	return nearest(string(service), sortedKeys(c.services))
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
