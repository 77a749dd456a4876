package breaker

import "time"

// slots is how many parts a window has. The oldest part leaves it as a whole.
const slots = 10

// window counts the calls of a rolling time.
type window struct {
	began         time.Time
	width         time.Duration // of a part
	now           int           // number of the present part, from began on
	calls, failed [slots]int    // by number modulo slots
}

// add counts a call and returns the sums of the window.
func (w *window) add(now time.Time, failure bool) (calls, failed int) {
	at := int(now.Sub(w.began) / w.width)
	for w.now = max(w.now, at-slots); w.now < at; {
		w.now++
		w.calls[w.now%slots], w.failed[w.now%slots] = 0, 0
	}
	w.calls[at%slots]++
	if failure {
		w.failed[at%slots]++
	}
	for i := range slots {
		calls, failed = calls+w.calls[i], failed+w.failed[i]
	}
	return calls, failed
}
