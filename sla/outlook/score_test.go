package outlook

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/sla/forecast"
	"github.com/sloengine/sloengine/slo"
)

func (w *world) record() forecast.Record { return *w.keeper.records["shop/availability"] }

// TestScore follows a forecast of one hour: steady errors stay in the range, a sudden outage does not.
func TestScore(t *testing.T) {
	w := newWorld(t)
	w.start(Options{})
	w.step(0)
	require.Equal(t, forecast.Score{Made: 1}, w.record()[0])
	w.step(59 * time.Minute)
	require.Equal(t, uint64(0), w.record()[0].Checked)
	w.step(time.Minute)
	require.Equal(t, forecast.Score{Made: 2, Checked: 1, Inside: 1}, w.record()[0], "the next one is made at once")

	outage := w.now
	w.bad = func(_ slo.ID, _ int, at time.Time) float64 {
		if !at.Before(outage.Truncate(time.Hour)) {
			return 900
		}
		return 4
	}
	w.step(time.Hour)
	require.Equal(t, forecast.Score{Made: 3, Checked: 2, Inside: 1, Below: 1}, w.record()[0])
	require.Equal(t, forecast.Score{Made: 1}, w.record()[1])

	w.step(2 * time.Hour) // the engine was down
	require.Equal(t, forecast.Score{Made: 4, Checked: 2, Inside: 1, Below: 1, Missed: 1}, w.record()[0])
}

// TestScoreOfACalendarWindow checks what remained just before the window ended.
func TestScoreOfACalendarWindow(t *testing.T) {
	w := newWorld(t)
	w.slos[0].Window = slo.Window{Calendar: slo.Day, Location: time.UTC}
	w.now = begin.Add(50*day + 20*time.Hour)
	w.start(Options{})
	w.step(0)
	require.Equal(t, forecast.Score{Made: 1}, w.record()[4])
	w.step(4*time.Hour - 30*time.Second)
	w.step(40 * time.Second)
	require.Equal(t, forecast.Score{Made: 1, Checked: 1, Inside: 1}, w.record()[4])
	w.step(10 * time.Hour)
	require.Equal(t, forecast.Score{Made: 2, Checked: 1, Inside: 1}, w.record()[4])
	w.step(15 * time.Hour)
	require.Equal(t, forecast.Score{Made: 3, Checked: 1, Inside: 1, Missed: 1}, w.record()[4], "no report showed the end")
}

// TestScoreSurvivesRestarts starts again before and after a forecast is due.
func TestScoreSurvivesRestarts(t *testing.T) {
	w := newWorld(t)
	w.start(Options{})
	w.step(0)
	w.keeper.save()
	w.now = w.now.Add(59 * time.Minute)
	w.start(Options{})
	w.step(0)
	require.Equal(t, forecast.Score{Made: 1}, w.record()[0], "it is the same forecast")
	w.step(time.Minute)
	require.Equal(t, forecast.Score{Made: 2, Checked: 1, Inside: 1}, w.record()[0])
	w.keeper.save()

	w.now = w.now.Add(3 * time.Hour)
	w.start(Options{})
	w.step(0)
	require.Equal(t, forecast.Score{Made: 3, Checked: 1, Inside: 1, Missed: 1}, w.record()[0])
	w.keeper.save()

	w.slos[0] = objective(t, "shop/availability", "99.5")
	w.start(Options{})
	w.step(0)
	require.Equal(t, forecast.Score{Made: 4, Checked: 1, Inside: 1, Missed: 2}, w.record()[0], "of another objective")
	w.keeper.save()

	w.slos[0] = objective(t, "shop/other", "99.5")
	w.start(Options{})
	w.step(0)
	require.Nil(t, w.keeper.records["shop/availability"], "the spec does not have it any more")
}

func TestABrokenFileCostsTheScoreAlone(t *testing.T) {
	w := newWorld(t)
	name := filepath.Join(w.dir, "forecasts.json")
	require.NoError(t, os.WriteFile(name, []byte(`{"version":1,"records":[`), 0o600))
	w.start(Options{})
	w.step(0)
	require.FileExists(t, name+".broken")
	w.keeper.save()
	require.FileExists(t, name)

	require.NoError(t, os.WriteFile(name, []byte(`{"version":2}`), 0o600))
	_, err := New(Options{Counts: w.read, File: name})
	require.ErrorContains(t, err, "newer")
}
