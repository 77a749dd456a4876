package forecast

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
)

// TestExhaustedWithinAQuarter holds the probability for a quarter to its word: services have an outage of an hour every
// ten days on average, and a budget of 30 days that a number of them within 30 days use up. What is told is compared
// with how often it comes true.
func TestExhaustedWithinAQuarter(t *testing.T) {
	const services, past, ahead = 60, 70 * hoursPerDay, 13 * hoursPerWeek
	start := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	rng := rand.New(rand.NewPCG(3, 4))
	window := slo.Window{Rolling: 30 * 24 * time.Hour}
	was := 2.0
	for _, outages := range []float64{1.5, 5.5, 9.5} { // in 30 days, three are usual
		budget := outages / (30 * hoursPerDay)
		told, happened := 0.0, 0.0
		for i := range services {
			all := make([]Hour, past+ahead)
			for h := range all {
				all[h] = Hour{Valid: 1000, Bad: 0.05, Observed: 1}
				if rng.IntN(10*hoursPerDay) == 0 {
					all[h].Bad = 1000
				}
			}
			var p Past
			p.Load(start, all[:past])
			chance, why := p.Exhausted(Question{Now: start.Add(past * time.Hour), Window: window, Budget: budget,
				Seed: uint64(i)}, ahead*time.Hour)
			require.Empty(t, why)
			told += chance / services
			bad := 0.0
			for h := past - 30*hoursPerDay; h < len(all); h++ {
				if bad += all[h].Bad; h >= past {
					if bad -= all[h-30*hoursPerDay].Bad; bad >= budget*30*hoursPerDay*1000 {
						happened += 1.0 / services
						break
					}
				}
			}
		}
		t.Logf("budget of %.1f outages: told %.2f, happened %.2f", outages, told, happened)
		require.InDelta(t, happened, told, 0.2, "%v", outages)
		require.Less(t, told, was, "a larger budget lasts longer")
		was = told
	}

	// The rest of a calendar window only, and nothing without a past.
	var p Past
	p.Load(start, make([]Hour, 100))
	_, why := p.Exhausted(Question{Now: start.Add(100 * time.Hour), Window: window, Budget: 0.1}, time.Hour)
	require.NotEmpty(t, why)
}
