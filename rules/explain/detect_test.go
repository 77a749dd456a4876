package explain

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The rules of the Google SRE workbook, chapter 5, for 99.9 % over 30 days.
func TestDetectionTable(t *testing.T) {
	const never = -1
	const (
		m = time.Minute
		h = time.Hour
	)
	one := func(w time.Duration, factor float64, f time.Duration) Condition {
		return Condition{Windows: []Window{{w, factor}}, For: f}
	}
	two := func(long, short time.Duration, factor float64) Condition {
		return Condition{Windows: []Window{{long, factor}, {short, factor}}}
	}
	sec := func(x float64) time.Duration { return time.Duration(x * float64(time.Second)) }
	min := func(x float64) time.Duration { return sec(x * 60) }
	hrs := func(x float64) time.Duration { return min(x * 60) }
	outages := []Outage{{1, 4 * h}, {0.15, 10 * m}, {0.1, h}, {0.01, 12 * h}, {0.002, 72 * h}}
	type cell struct{ detect, reset time.Duration }
	no := cell{never, never}
	for _, c := range []struct {
		name   string
		policy Policy
		want   [5]cell
	}{
		{"10m at 1x", Policy{one(10*m, 1, 0)},
			[5]cell{{sec(0.6), min(10)}, {sec(4), min(9.9)}, {sec(6), min(9.9)}, {sec(60), min(9)}, {min(5), min(5)}}},
		{"36h at 1x", Policy{one(36*h, 1, 0)},
			[5]cell{{min(2.2), hrs(36)}, no, {min(21.6), hrs(35.6)}, {hrs(3.6), hrs(32.4)}, {hrs(18), hrs(18)}}},
		{"1m at 1x for 1h", Policy{one(m, 1, h)},
			[5]cell{{min(60), min(1)}, no, {min(60), min(1)}, {min(60), sec(54)}, {min(60), sec(30)}}},
		{"1h at 36x", Policy{one(h, 36, 0)}, [5]cell{{min(2.2), min(58)}, no, {min(21.6), min(38)}, no, no}},
		{"page 1h 14.4 or 6h 6", Policy{one(h, 14.4, 0), one(6*h, 6, 0)},
			[5]cell{{sec(52), hrs(6)}, {min(5.8), min(54)}, {min(8.6), hrs(5.6)}, {hrs(3.6), hrs(2.4)}, no}},
		{"page, multiwindow", Policy{two(h, 5*m, 14.4), two(6*h, 30*m, 6)},
			[5]cell{{sec(52), min(29.8)}, {min(5.8), min(4.5)}, {min(8.6), min(28)}, {hrs(3.6), min(12)}, no}},
		{"ticket, multiwindow", Policy{two(24*h, 2*h, 3), two(72*h, 6*h, 1)},
			[5]cell{{min(4.3), hrs(6)}, no, {min(43), hrs(5.9)}, {hrs(7.2), hrs(5.4)}, {hrs(36), hrs(3)}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i, o := range outages {
				d := c.policy.Detect(0.001, o)
				if c.want[i] == no {
					require.False(t, d.Fires, "%v", o)
					continue
				}
				require.True(t, d.Fires, "%v", o)
				require.InEpsilon(t, c.want[i].detect.Seconds(), d.After.Seconds(), 0.05, "%v", o)
				require.InEpsilon(t, c.want[i].reset.Seconds(), d.Reset.Seconds(), 0.05, "%v", o)
			}
		})
	}
}

func TestDetectionEdges(t *testing.T) {
	page := Policy{{Windows: []Window{{time.Hour, 14.4}, {5 * time.Minute, 14.4}}}}
	require.False(t, page.Detect(0.001, Outage{ErrorRatio: 0.0144}).Fires, "at the threshold, not above")
	require.Equal(t, Detection{Fires: true, After: 51840 * time.Millisecond}, page.Detect(0.001, Outage{ErrorRatio: 1}))
	require.False(t, page.Detect(0.001, Outage{}).Fires)
	require.False(t, Policy{}.Detect(0.001, Outage{ErrorRatio: 1}).Fires)
}
