package config

import (
	"github.com/sloengine/sloengine/ingest/servicebudget"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// budgetRule bounds what one service may send, and how many groups its specs may ask for.
type budgetRule struct {
	servicebudget.Rule `yaml:",inline"`
	Groups             int `yaml:"groups" min:"0"` // sum of max_groups of its SLOs and event thresholds; 0: no bound
}

func (c *Config) checkBudgets(f *yamldoc.Decoder) {
	seen := map[string]bool{}
	for i := range c.Budgets {
		r, path := &c.Budgets[i], item("budgets", i)
		if seen[r.Service] {
			f.Errorf(child(path, "service"), "", "%q has a budget already", r.Service)
		}
		seen[r.Service] = true
		if broken := f.Broken(child(path, "bytes")) || f.Broken(child(path, "queue")) ||
			f.Broken(child(path, "groups")); !broken && r.Bytes == 0 && r.Queue == 0 && r.Groups == 0 {
			f.Errorf(path, "set bytes, queue or groups", "the budget bounds nothing")
		}
	}
}

// ServiceBudgets are the rules that requests are held to.
func (c *Config) ServiceBudgets() (out []servicebudget.Rule) {
	for i := range c.Budgets {
		out = append(out, c.Budgets[i].Rule)
	}
	return out
}

// maxGroups is the rule that bounds the groups of a service, and how many it allows; 0: no bound.
func (c *Config) maxGroups(service string) (rule, most int) {
	for i := range c.Budgets {
		switch c.Budgets[i].Service {
		case service:
			return i, c.Budgets[i].Groups
		case servicebudget.Any:
			rule, most = i, c.Budgets[i].Groups
		}
	}
	return rule, most
}
