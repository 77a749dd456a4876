package alertmanager

import (
	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/rules"
)

// Routing is what a program needs that notifies as Alertmanager does with the configuration.
type Routing struct {
	Document []byte           // see Config
	Title    string           // template of a message's title
	Classes  map[string]Class // by the label severity; others are of no class
	Causes   []int            // the inhibition rules by declared causes, by their place in Document
	Findings []alerts.Finding // maintenance that does not mute
}

// NewRouting is Config together with what it is made of.
func NewRouting(in rules.Spec, o Options) (Routing, error) {
	document, findings, err := Config(in, o)
	if err != nil {
		return Routing{}, err
	}
	g := generator{in: in, opt: o}
	g.severities()
	r := Routing{Document: document, Findings: findings, Title: g.messages().title, Classes: map[string]Class{}}
	for i, rule := range g.inhibit() {
		if rule.cause {
			r.Causes = append(r.Causes, i)
		}
	}
	for class, severities := range g.class {
		for _, s := range severities {
			r.Classes[s] = class
		}
	}
	return r, nil
}
