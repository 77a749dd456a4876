package ratelimit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/reliability/pattern"
)

func (k *compiler) contexts(p *Policy) {
	if n := len(k.c.Contexts); n > MaxContexts {
		k.fail(at("contexts", MaxContexts), "%d context rules exceed the maximum of %d", n, MaxContexts)
		return
	}
	names := map[string]bool{}
	for i := range k.c.Contexts {
		c, path := &k.c.Contexts[i], at("contexts", i)
		k.name(path+".name", "the name", c.Name)
		if names[c.Name] {
			k.fail(path+".name", "duplicate context %q", c.Name)
		}
		names[c.Name] = true
		k.values(path, &c.Values)
		x := contextRule{extract: c.Extractor}
		if len(c.From) == 0 && c.Extractor == nil {
			k.fail(path+".from", "missing source for the value of %q", c.Name)
		}
		if len(c.From) > MaxSources {
			k.fail(path+".from", "%d sources exceed the maximum of %d", len(c.From), MaxSources)
		}
		for j, s := range c.From {
			k.source(fmt.Sprintf("%s.from[%d]", path, j), s, c.From[:j])
			x.from = append(x.from, source{s, p.slots})
			if s.Kind != FromAttribute {
				p.slots++
			}
		}
		x.rule = p.add(k.resolve(path, Context, c.Name, level{"context " + c.Name, &c.Values}))
		x.limit = &p.rules[x.rule].limit
		x.keys = p.rules[x.rule].keys
		p.contexts = append(p.contexts, x)
	}
}

func (k *compiler) source(path string, s Source, before []Source) {
	switch s.Kind {
	case FromAttribute, FromHeader:
		k.name(path, "the name of the attribute or header", s.Name)
		if s.Kind == FromAttribute {
			k.valid(path, "the attribute", s.Name, k.c.ValidAttribute)
		}
	case FromClientIP, FromToken:
		if s.Name != "" {
			k.fail(path, "client_ip and token take no name, got %q", s.Name)
		}
		if s.Kind == FromToken && !k.c.Authentication {
			k.fail(path, "token requires authentication")
		}
	default:
		k.fail(path, "unknown source kind %d", s.Kind)
	}
	if slices.Contains(before, s) {
		k.fail(path, "duplicate source")
	}
}

func (k *compiler) bypass(p *Policy) {
	if n := len(k.c.Bypass); n > MaxBypass {
		k.fail(at("bypass", MaxBypass), "%d bypass rules exceed the maximum of %d", n, MaxBypass)
		return
	}
	for i, b := range k.c.Bypass {
		path := at("bypass", i)
		if !k.c.Authentication {
			k.fail(path, "a bypass rule requires authentication (otherwise any sender could claim to be exempt)")
		}
		if len(b.Types)+len(b.Severities)+len(b.Attributes)+len(b.Tokens) == 0 && b.Check == nil {
			k.fail(path, "a bypass rule needs at least one condition")
		}
		var types []pattern.Pattern
		for j, s := range b.Types {
			types = append(types, k.pattern(fmt.Sprintf("%s.types[%d]", path, j), s))
		}
		for j, s := range b.Severities {
			k.name(fmt.Sprintf("%s.severities[%d]", path, j), "the severity", s)
			k.valid(fmt.Sprintf("%s.severities[%d]", path, j), "the severity", s, k.c.ValidName)
		}
		for j, s := range b.Tokens {
			k.name(fmt.Sprintf("%s.tokens[%d]", path, j), "the token's name", s)
		}
		x := bypass{
			types: types, severities: slices.Clone(b.Severities),
			tokens: slices.Clone(b.Tokens), check: b.Check,
		}
		for name, values := range b.Attributes {
			k.name(path+".attributes", "the attribute", name)
			k.valid(path+".attributes."+name, "the attribute", name, k.c.ValidAttribute)
			if len(values) == 0 {
				k.fail(path+".attributes."+name, "the attribute has no values")
			}
			x.attributes = append(x.attributes, attribute{name, slices.Clone(values)})
		}
		order.By(x.attributes, func(a, b *attribute) int { return strings.Compare(a.name, b.name) })
		p.bypass = append(p.bypass, x)
	}
}
