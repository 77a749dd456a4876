package breaker

import "time"

// probes are the calls that are let through while half-open. Each slot is one probe;
// one that counts neither way frees its slot.
type probes struct {
	slots             []slot
	needed            int           // successes that close
	again             time.Duration // open time after a failure
	succeeded, failed int
}

type slot struct {
	state slotState
	end   time.Time // by which a probe in progress must be back
}

type slotState uint8

const (
	slotFree slotState = iota
	slotBusy
	slotUsed
)

func newProbes(n, needed int, again time.Duration) probes {
	return probes{slots: make([]slot, n), needed: needed, again: again}
}

func (p *probes) begin(end time.Time) (i int, ok bool) {
	for i := range p.slots {
		if p.slots[i].state == slotFree {
			p.slots[i] = slot{slotBusy, end}
			return i, true
		}
	}
	return 0, false
}

func (p *probes) free() bool {
	for i := range p.slots {
		if p.slots[i].state == slotFree {
			return true
		}
	}
	return false
}

func (p *probes) end(i int, o Outcome) {
	if p.slots[i].state != slotBusy {
		return // it was given up, and counted then
	}
	switch o {
	case Ignored:
		p.slots[i].state = slotFree
		return
	case Success:
		p.succeeded++
	case Failure:
		p.failed++
	}
	p.slots[i].state = slotUsed
}

// expire counts the probes that should have been back as failures.
func (p *probes) expire(now time.Time) (n int) {
	for i := range p.slots {
		if p.slots[i].state == slotBusy && !now.Before(p.slots[i].end) {
			p.slots[i].state = slotUsed
			p.failed++
			n++
		}
	}
	return n
}

func (p *probes) firstEnd() (at time.Time) {
	for i := range p.slots {
		if s := &p.slots[i]; s.state == slotBusy && (at.IsZero() || s.end.Before(at)) {
			at = s.end
		}
	}
	return at
}
