package fleet

import (
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/metric"
)

// fleetMetrics are the sloengine_fleet_* metrics.
type fleetMetrics struct{ set *metrics.Set }

func (m *fleetMetrics) up(name string) *metrics.Gauge { return metric.FleetEngineUp.Gauge(m.set, name) }

func (m *fleetMetrics) fetched(name string, took time.Duration, bytes int) {
	metric.FleetFetchSeconds.Histogram(m.set, name).Update(took.Seconds())
	metric.FleetFetchedBytes.Counter(m.set, name).Add(bytes)
}

// state notes how the last fetch of an engine went.
func (m *fleetMetrics) state(name string, s State) {
	if s == OK {
		m.up(name).Set(1)
		return
	}
	m.up(name).Set(0)
	metric.FleetFailures.Counter(m.set, name, string(s)).Inc()
}
