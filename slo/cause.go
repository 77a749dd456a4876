package slo

import "slices"

// Cause is an SLO whose fault the SLO that declares it suffers from. While the cause pages, the declaring SLO does not.
type Cause struct {
	SLO ID
	// Group fixes values of the cause's groups, by the name in its GroupBy.
	Group map[string]string
	// Affects are the values of the declaring SLO's groups that suffer, by the name in its GroupBy; without values all of
	// them do. What neither Group nor Affects names must be equal in both.
	Affects map[string][]string
}

// Links reports whether a fault of the cause in one group reaches the SLO that declares it in another. by and suffering
// are what the two SLOs are grouped by, at and in the values of the groups. An empty group stands for the whole SLO: it
// has no value that could be the right one, so it is linked only where no value is asked for.
func (c *Cause) Links(by []string, at Group, suffering []string, in Group) bool {
	cause, effect := values(by, at), values(suffering, in)
	for name, want := range c.Group {
		if got, ok := cause[name]; !ok || got != want {
			return false
		}
	}
	for name, want := range c.Affects {
		if got, ok := effect[name]; len(want) > 0 && (!ok || !slices.Contains(want, got)) {
			return false
		}
	}
	for _, name := range suffering {
		_, fixed := c.Group[name]
		_, listed := c.Affects[name]
		if !fixed && !listed && slices.Contains(by, name) && cause[name] != effect[name] {
			return false
		}
	}
	return true
}

// values are those of a group, by the names that the SLO is grouped by; nil without a group.
func values(by []string, g Group) map[string]string {
	if len(by) != len(g) {
		return nil
	}
	out := make(map[string]string, len(by))
	for i, name := range by {
		out[name] = g[i]
	}
	return out
}

// About reports whether an SLO is about the parts of a process that carry a label: it groups by the label, matches on
// it, or counts events of a type of that name.
func (s *SLO) About(label string) bool {
	if slices.Contains(s.GroupBy, label) {
		return true
	}
	return slices.ContainsFunc(s.Indicator.Counted(), func(m Matcher) bool {
		return m.Name == label || m.Name == "type" && m.Op == OpEqual && m.Value == label
	})
}
