package series

import (
	"slices"
	"sync"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/counter"
)

// maxRoutes bounds the series whose units are remembered.
const maxRoutes = 200_000

// routes say which series count where. They are replaced when the spec changes.
type routes struct {
	units  []Unit
	byName map[string][]*plan // by the name of a metric
	others []*plan            // with a selector that does not say one
	// Of a thousand jobs a series is of one: plans of a metric with a label that has one value are found by it.
	pinned map[pin][]*plan
	pins   map[string][]string // the labels of pinned, by the name of a metric

	mu    sync.RWMutex
	known map[counter.Key]*origin
}

type pin struct{ metric, label, value string }

// pinOf is the first label to which a selector gives a single value.
func pinOf(s *selector) (p pin, ok bool) {
	for _, m := range s.matchers {
		if m.Type == labels.MatchEqual && m.Name != nameLabel && m.Value != "" {
			return pin{s.name(), m.Name, m.Value}, true
		}
	}
	return p, false
}

// origin is what is known of a series.
type origin struct {
	name             string
	routes           []routed
	cluster, replica string
	native           bool // an SLO counts native histograms of it
}

func newRoutes(units []Unit, plans []*plan) *routes {
	t := &routes{units: units, byName: map[string][]*plan{}, known: map[counter.Key]*origin{},
		pinned: map[pin][]*plan{}, pins: map[string][]string{}}
	for _, p := range plans {
		total, part := p.total.name(), p.part.name()
		at, isPinned := pinOf(&p.total)
		switch {
		case total == "" || part == "":
			t.others = append(t.others, p)
			continue
		case p.inside && isPinned:
			if t.pinned[at] = append(t.pinned[at], p); !slices.Contains(t.pins[total], at.label) {
				t.pins[total] = append(t.pins[total], at.label)
			}
			continue
		case part != total:
			t.byName[part] = append(t.byName[part], p)
		}
		t.byName[total] = append(t.byName[total], p)
	}
	return t
}

// origin says where the samples of a series count; nil: nowhere.
func (t *routes) origin(one *wireSeries, h *xxh3.Hasher, ha *HA) *origin {
	plans := t.others
	if named := t.byName[string(one.name())]; len(named) > 0 {
		plans = append(named[:len(named):len(named)], t.others...)
	}
	pins := t.pins[string(one.name())]
	if len(plans) == 0 && len(pins) == 0 {
		return nil
	}
	h.Reset()
	for _, l := range one.labels {
		_, _ = h.Write(l.name)
		_, _ = h.WriteString("\xff")
		_, _ = h.Write(l.value)
		_, _ = h.WriteString("\xff")
	}
	key := h.Sum128()
	t.mu.RLock()
	of, had := t.known[key]
	t.mu.RUnlock()
	if had {
		return of
	}
	of = t.newOrigin(one, plans, pins, h, ha)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.known) >= maxRoutes {
		clear(t.known)
	}
	t.known[key] = of
	return of
}

func (t *routes) newOrigin(one *wireSeries, plans []*plan, pins []string, h *xxh3.Hasher, ha *HA) *origin {
	of := &origin{name: string(one.name())}
	all := make(seriesLabels, 0, len(one.labels))
	for _, l := range one.labels {
		switch {
		case ha != nil && string(l.name) == ha.Replica:
			of.replica = string(l.value)
			continue
		case ha != nil && string(l.name) == ha.Cluster:
			of.cluster = string(l.value)
		}
		all = append(all, label{string(l.name), string(l.value)})
	}
	for _, name := range pins {
		plans = append(plans[:len(plans):len(plans)], t.pinned[pin{of.name, name, all.get(name)}]...)
	}
	for _, p := range plans {
		total := p.total.matches(all)
		if p.inside && !total {
			continue
		}
		part := p.part.matches(all)
		if total {
			of.native = of.native || p.native != nil
			of.routes = append(of.routes, route(p, all, h, of.cluster, p.inside && part, false))
		}
		if part && !p.inside {
			of.routes = append(of.routes, route(p, all, h, of.cluster, false, true))
		}
	}
	if len(of.routes) == 0 {
		return nil
	}
	return of
}
