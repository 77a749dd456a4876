package alerts

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The recorded share of bad events of an hour is within 1 % of the truth if no scrape fails, and within 3 % (half of
// the time) and 10 % (99 % of it) if 5 % of them fail. Traffic rises and falls, bad events come in bursts, and the
// counters are reset.
func TestMinimalAccuracy(t *testing.T) {
	for _, c := range []struct {
		name                string
		failed, half, worst float64
	}{{"every scrape succeeds", 0, 0.01, 0.01}, {"5 % of the scrapes fail", 0.05, 0.03, 0.1}} {
		t.Run(c.name, func(t *testing.T) {
			const to, step, eval = 4 * time.Hour, 15 * time.Second, 30 * time.Second
			r := rand.New(rand.NewPCG(1, 24))
			bad, valid := []float64{0}, []float64{0} // until each scrape
			up := []bool{true}
			share := 0.01
			for at := step; at <= to; at += step {
				if r.IntN(40) == 0 {
					share = 0.002 + 0.1*r.Float64()
				}
				n := step.Seconds() * 100 * (1 + 0.8*math.Sin(at.Hours()))
				valid, bad = append(valid, valid[len(valid)-1]+n), append(bad, bad[len(bad)-1]+n*share)
				up = append(up, r.Float64() >= c.failed)
			}
			l := minimalLab(t, shop(t))
			const reset = 150 * time.Minute // the process starts again, right after a scrape
			counter := func(sums []float64) curve {
				return func(at time.Duration) (float64, bool) {
					i := int((at - time.Second) / step)
					v := sums[i]
					if at > reset+step {
						v -= sums[int(reset/step)]
					}
					return v, up[i]
				}
			}
			good := make([]float64, len(valid))
			for i := range valid {
				good[i] = valid[i] - bad[i]
			}
			l.load(`http_requests_total{product="a",code="200"}`, time.Second, to, step, counter(good))
			l.load(`http_requests_total{product="a",code="500"}`, time.Second, to, step, counter(bad))
			var off []float64
			for at := time.Duration(0); at < to; at += eval {
				for _, g := range l.groups {
					if at%g.Interval() == 0 {
						g.Eval(context.Background(), time.UnixMilli(at.Milliseconds()))
					}
				}
				if at < 90*time.Minute {
					continue
				}
				i, hour := int((at-time.Second)/step), int(time.Hour/step)
				truth := (bad[i] - bad[i-hour]) / (valid[i] - valid[i-hour])
				q, err := l.engine.NewInstantQuery(context.Background(), l.db, nil, "slo:sli_error:ratio_rate1h",
					time.UnixMilli(at.Milliseconds()))
				require.NoError(t, err)
				v, err := q.Exec(context.Background()).Vector()
				require.NoError(t, err)
				require.Len(t, v, 1)
				q.Close()
				off = append(off, math.Abs(v[0].F/truth-1))
			}
			slices.Sort(off)
			half, worst := off[len(off)/2], off[len(off)*99/100]
			t.Logf("off by %.2f %% half of the time, by %.2f %% at most 99 %% of it", 100*half, 100*worst)
			require.Less(t, half, c.half)
			require.Less(t, worst, c.worst)
		})
	}
}
