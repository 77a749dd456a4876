package collector

import (
	"time"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/traces"
)

// exemplar is an event that a series counts, and the trace that it belongs to.
type exemplar struct {
	id    string // of the trace
	value float64
	at    time.Time
}

// labelTraceID is the label of an exemplar. Grafana finds the data source of traces by it.
const labelTraceID = "trace_id"

// exemplars are the newest failing traces by the series that count their events. A nil one has none.
type exemplars struct {
	slos, traffic map[string]*traces.Trace
	durations     map[string][]*traces.Trace
}

// newExemplars sorts traces by series; nil if there are none.
func newExemplars(all []traces.Of) *exemplars {
	if len(all) == 0 {
		return nil
	}
	e := &exemplars{slos: map[string]*traces.Trace{}, traffic: map[string]*traces.Trace{},
		durations: map[string][]*traces.Trace{}}
	put := func(m map[string]*traces.Trace, t *traces.Trace, key string) {
		if have := m[key]; have == nil || t.Time.After(have.Time) {
			m[key] = t
		}
	}
	for i := range all {
		t := &all[i].Trace
		put(e.slos, t, sloKey(all[i].SLO, t.Group))
		put(e.traffic, t, seriesKey(t.Dimensions, t.Service, t.Type, t.Outcome, t.Severity))
		if t.Duration >= 0 {
			key := seriesKey(t.Dimensions, t.Service, t.Type, t.Outcome)
			e.durations[key] = append(e.durations[key], t)
		}
	}
	return e
}

func sloKey(id slo.ID, group slo.Group) string { return string(id) + "\xff" + group.Key() }

func seriesKey(dimensions []string, labels ...string) string {
	return slo.Group(labels).Key() + "\xff" + slo.Group(dimensions).Key()
}

// bad is that of the bad events of a group.
func (e *exemplars) bad(id slo.ID, group slo.Group) *exemplar {
	if e == nil {
		return nil
	}
	return counted(e.slos[sloKey(id, group)])
}

// of is that of a counter of events.
func (e *exemplars) of(dimensions []string, labels ...string) *exemplar {
	if e == nil {
		return nil
	}
	return counted(e.traffic[seriesKey(dimensions, labels...)])
}

func counted(t *traces.Trace) *exemplar {
	if t == nil {
		return nil
	}
	return &exemplar{t.ID.String(), 1, t.Time}
}

// observed are those of the buckets of a histogram, one more for what is slower than all bounds; nil if there are none.
func (e *exemplars) observed(bounds []time.Duration, dimensions []string, labels ...string) []*exemplar {
	if e == nil {
		return nil
	}
	list := e.durations[seriesKey(dimensions, labels...)]
	if len(list) == 0 {
		return nil
	}
	out := make([]*exemplar, len(bounds)+1)
	for _, t := range list {
		i := 0
		for i < len(bounds) && t.Duration > bounds[i] {
			i++
		}
		if out[i] == nil || t.Time.After(out[i].at) {
			out[i] = &exemplar{t.ID.String(), t.Duration.Seconds(), t.Time}
		}
	}
	return out
}

// dto is the exemplar in client_model.
func (e *exemplar) dto() *dto.Exemplar {
	if e == nil {
		return nil
	}
	name := labelTraceID
	return &dto.Exemplar{Label: []*dto.LabelPair{{Name: &name, Value: &e.id}}, Value: &e.value,
		Timestamp: timestamppb.New(e.at)}
}
