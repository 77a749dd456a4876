package series

import (
	"sync"

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

	mu    sync.RWMutex
	known map[counter.Key]*origin
}

// origin is what is known of a series.
type origin struct {
	name             string
	routes           []routed
	cluster, replica string
	native           bool // an SLO counts native histograms of it
}

func newRoutes(units []Unit, plans []*plan) *routes {
	t := &routes{units: units, byName: map[string][]*plan{}, known: map[counter.Key]*origin{}}
	for _, p := range plans {
		total, part := p.total.name(), p.part.name()
		switch {
		case total == "" || part == "":
			t.others = append(t.others, p)
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
	if len(plans) == 0 {
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
	of = newOrigin(one, plans, h, ha)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.known) >= maxRoutes {
		clear(t.known)
	}
	t.known[key] = of
	return of
}

func newOrigin(one *wireSeries, plans []*plan, h *xxh3.Hasher, ha *HA) *origin {
	of := &origin{name: string(one.name())}
	labels := make(seriesLabels, 0, len(one.labels))
	for _, l := range one.labels {
		switch {
		case ha != nil && string(l.name) == ha.Replica:
			of.replica = string(l.value)
			continue
		case ha != nil && string(l.name) == ha.Cluster:
			of.cluster = string(l.value)
		}
		labels = append(labels, label{string(l.name), string(l.value)})
	}
	for _, p := range plans {
		total, part := p.total.matches(labels), p.part.matches(labels)
		if total {
			of.native = of.native || p.native != nil
			of.routes = append(of.routes, route(p, labels, h, of.cluster, p.inside && part, false))
		}
		if part && !p.inside {
			of.routes = append(of.routes, route(p, labels, h, of.cluster, false, true))
		}
	}
	if len(of.routes) == 0 {
		return nil
	}
	return of
}
