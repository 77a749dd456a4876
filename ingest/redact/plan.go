package redact

import (
	"maps"
	"sync"
	"sync/atomic"
)

// maxCached bounds each of the two kinds of cache. Names beyond it are looked up
// every time.
const maxCached = 1024

// cache holds the results of look-ups by name. Reading takes no lock and allocates nothing; adding
// copies, which is why it is bounded.
type cache[T any] struct {
	known atomic.Pointer[map[string]T]
	mu    sync.Mutex
}

func (c *cache[T]) get(name []byte) (v T, ok bool) {
	if known := c.known.Load(); known != nil {
		v, ok = (*known)[string(name)]
	}
	return v, ok
}

func (c *cache[T]) put(name string, v T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	grown := map[string]T{}
	if known := c.known.Load(); known != nil {
		if len(*known) >= maxCached {
			return
		}
		grown = maps.Clone(*known)
	}
	grown[name] = v
	c.known.Store(&grown)
}

// plan are the rules for one type of event; nil if there are none.
type plan struct {
	rules []*compiled
	names cache[[]*compiled]
}

// of are the rules about an attribute.
func (p *plan) of(name []byte) []*compiled {
	if rules, ok := p.names.get(name); ok {
		return rules
	}
	text := string(name)
	var rules []*compiled
	for _, c := range p.rules {
		if matchAny(c.attributes, text) {
			rules = append(rules, c)
		}
	}
	p.names.put(text, rules)
	return rules
}

// plans finds the plan of a type. Types with the same rules share one.
type plans struct {
	rules []*compiled
	types cache[*plan]
	mu    sync.Mutex
	bySet map[string]*plan
}

func (p *plans) of(typ []byte) *plan {
	if found, ok := p.types.get(typ); ok {
		return found
	}
	text := string(typ)
	var rules []*compiled
	set := make([]byte, 0, len(p.rules))
	for i, c := range p.rules {
		if len(c.types) == 0 || matchAny(c.types, text) {
			rules = append(rules, c)
			set = append(set, byte(i))
		}
	}
	var found *plan
	if len(rules) > 0 {
		p.mu.Lock()
		if found = p.bySet[string(set)]; found == nil {
			found = &plan{rules: rules}
			if len(p.bySet) < maxCached {
				p.bySet[string(set)] = found
			}
		}
		p.mu.Unlock()
	}
	p.types.put(text, found)
	return found
}
