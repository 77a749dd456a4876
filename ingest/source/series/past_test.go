package series

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// madePast has samples of pods that come, go, begin again, and are not scraped for a while, and of routes that begin
// later, between two minutes.
func madePast(r *rig, random *rand.Rand, from, to int) {
	for pod := range 12 {
		begins, ends := from, to
		if pod > 2 {
			begins = from + random.IntN(to-from)
			ends = begins + random.IntN(to-begins+1)
		}
		gap := begins + random.IntN(ends-begins+1)
		shift := random.IntN(60)
		restart := 200 + random.IntN(600)
		for route := range 3 {
			later, sums := begins+random.IntN(ends-begins+1)*route/2, [2]float64{}
			if later == begins {
				sums = [2]float64{1e6, 1e3}
			}
			for minute := later; minute < ends; minute++ {
				if (minute-begins)%restart == restart-1 {
					sums = [2]float64{}
				}
				sums[0] += float64(random.IntN(20))
				sums[1] += float64(random.IntN(3))
				if minute > gap && minute < gap+30 {
					continue
				}
				for i, code := range []string{"200", "500"} {
					r.prometheus.add(fmt.Sprintf(`requests_total{job="web",instance="%d",route="%d",code=%q}`, pod, route, code),
						at(60*minute+shift), sums[i])
				}
			}
		}
	}
}

// What is counted does not depend on whether the present or the past is read first, how often the past is, and where
// the reading is interrupted.
func TestThePastIsCountedOnce(t *testing.T) {
	const first, begins, now = -5 * 24 * 60, -31 * 60, 0 // minutes
	settings := quick
	settings.Scrape = time.Minute
	seeds := uint64(3)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 7))
		history := func(minutes int) Settings {
			s := settings
			s.History = time.Duration(minutes) * time.Minute
			return s
		}
		run := func(r *rig, s Settings, minute int, kills int) {
			r.source = r.open()
			r.source.o.Settings = s
			for range kills {
				left := 1 + random.IntN(40)
				r.prometheus.answer = func(w http.ResponseWriter) bool {
					if left--; left > 0 {
						return false
					}
					w.WriteHeader(http.StatusServiceUnavailable)
					return true
				}
				r.round(t, 60*minute+4)
				r.source = r.open()
				r.source.o.Settings = s
			}
			r.prometheus.answer = nil
			r.round(t, 60*minute+4)
		}
		live := func(r *rig) {
			for minute := begins; minute < now; minute += 37 {
				run(r, settings, minute, 0)
			}
			run(r, settings, now, 0)
		}
		importFirst := newRig(t, settings, errors500)
		madePast(importFirst, random, first, now)
		run(importFirst, history(begins-first), begins, 3)
		live(importFirst)
		require.NotEmpty(t, importFirst.store.sums)

		liveFirst := newRig(t, settings, errors500)
		liveFirst.prometheus = importFirst.prometheus
		liveFirst.source.o.URL = importFirst.source.o.URL
		liveFirst.open = openAt(liveFirst, importFirst)
		run(liveFirst, settings, begins, 0)
		live(liveFirst)
		require.NotEqual(t, importFirst.store.sums, liveFirst.store.sums)
		half := now - begins + (begins-first)/2
		run(liveFirst, history(half), now, 4) // a part of the past
		run(liveFirst, history(now-first), now, 6)
		require.Equal(t, importFirst.store.sums, liveFirst.store.sums, "seed %d", seed)
		series, _ := liveFirst.store.counters.Size()
		wanted, _ := importFirst.store.counters.Size()
		require.Equal(t, wanted, series, "the samples of the past are forgotten")
		run(liveFirst, history(now-first), now, 1)
		require.Equal(t, importFirst.store.sums, liveFirst.store.sums, "twice")
	}
}

func openAt(r, of *rig) func() *Source {
	return func() *Source {
		o := r.source.o
		o.URL = of.source.o.URL
		return New(o)
	}
}
