package source

import (
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

// meter counts the seconds that something lasts, while it lasts: every second, and at its end. Several that last at the
// same time add up. It is safe for concurrent use.
type meter struct {
	now     func() time.Time
	seconds *metrics.FloatCounter

	mu      sync.Mutex
	running int
	counted time.Time   // up to when
	timer   *time.Timer // runs while something lasts
}

// meterEvery is how late the counter of a meter is at most.
const meterEvery = time.Second

// begin notes that something begins.
func (m *meter) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count()
	if m.running++; m.running > 1 {
		return
	}
	if m.timer == nil {
		m.timer = time.AfterFunc(meterEvery, m.tick)
	} else {
		m.timer.Reset(meterEvery)
	}
}

// end records the end of one operation.
func (m *meter) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count()
	if m.running--; m.running == 0 {
		m.timer.Stop()
	}
}

func (m *meter) tick() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running > 0 { // it may have ended since the timer fired
		m.count()
		m.timer.Reset(meterEvery)
	}
}

func (m *meter) count() {
	now := m.now()
	if m.running > 0 {
		m.seconds.Add(max(0, float64(m.running)*now.Sub(m.counted).Seconds()))
	}
	m.counted = now
}
