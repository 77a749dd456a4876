package retained

import (
	"math"
	"time"
)

// sureAfter is for how long records must have been retained before their rate says how far back the space will do.
const sureAfter = 24 * time.Hour

// Reach says how far back a history reaches, and how far it can.
type Reach struct {
	Back  time.Duration // age of the oldest record; 0: nothing is retained
	Limit time.Duration // that age and size allow at the rate so far; 0: too little is retained to know
	Left  time.Duration // until the oldest record is deleted; 0: it may be now, or Limit is not known
	Rate  float64       // in bytes per second; 0: it is not known
}

// Reach is that of a history with bounds.
func (st *Stats) Reach(now time.Time, b Bounds) (r Reach) {
	if b.Age <= 0 || st.From.IsZero() || st.Bytes <= 0 || !now.After(st.From) {
		return r
	}
	r.Back = now.Sub(st.From)
	if r.Back < sureAfter && st.Bytes < b.Bytes-b.Bytes/10 {
		return r
	}
	r.Rate = float64(st.Bytes) / r.Back.Seconds()
	r.Limit = b.Age
	if space := float64(r.Back) * (float64(b.Bytes) / float64(st.Bytes)); space < float64(b.Age) {
		r.Limit = time.Duration(space)
	}
	r.Left = max(0, r.Limit-r.Back)
	return r
}

// Full reports whether the oldest records are deleted already, or nearly.
func (r *Reach) Full() bool { return r.Limit > 0 && r.Left < r.Limit/20 }

// Missing is how many bytes more a history needs to reach that far back; 0: none, or it is not known.
func (r *Reach) Missing(need time.Duration) int64 {
	if r.Limit == 0 || r.Limit >= need {
		return 0
	}
	return int64(math.Ceil((need - r.Limit).Seconds() * r.Rate))
}
