package oracle

import (
	"fmt"
	"slices"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// This file is what the one oracle knows of the profile minimal, whose rules take rate() over one evaluation and a
// scrape and add that up.

// lost is what rate() leaves out of the first events of a counter that was zero.
type lost struct {
	at         time.Duration
	valid, bad float64
}

// perEvaluation widens a band by what rate() makes of counters that leave zero, and beside gaps. It extrapolates no
// further than to zero, which is a scrape too little, and beside a gap by half a scrape.
func (w *oracleWorld) perEvaluation(b *band, k *oracleTally, s *slo.SLO, g slo.Group, now, window, edge time.Duration) {
	for _, l := range w.lostOf(k, s, g) {
		if now-window-edge <= l.at && l.at <= now {
			b.valid, b.bad = max(0, b.valid-l.valid), max(0, b.bad-l.bad)
			b.near(l.valid, l.bad)
		}
	}
	around := w.options.Eval + 2*oracleScrape
	for _, gap := range append(slices.Clone(w.gaps), piece{w.down.from, w.down.to}) {
		for _, p := range []piece{{gap.from - around, gap.from}, {gap.to, gap.to + around}} {
			valid, bad := k.in(max(p.from, now-window-edge), min(p.to, now))
			b.valid, b.bad = b.valid-min(b.valid, valid), b.bad-min(b.bad, bad)
			b.near(1.5*valid, 1.5*bad)
		}
	}
}

// lostOf lists the counters of both engines, of which the second begins again.
func (w *oracleWorld) lostOf(k *oracleTally, s *slo.SLO, g slo.Group) []lost {
	key := truthKey(s.ID, g)
	if out, ok := w.lost[key]; ok {
		return out
	}
	events := w.events
	if s.Indicator.Kind == slo.KindCompletion {
		events = completed(s, events)
		slices.SortStableFunc(events, func(a, b *oracleEvent) int { return int(a.received - b.received) })
	}
	window := w.options.Eval + oracleScrape
	share := float64(oracleScrape) / float64(window) / k.unit
	first := map[string]*lost{}
	for _, e := range events {
		valid, bad := e.judged(s)
		if valid+bad == 0 || slices.ContainsFunc(s.GroupBy, func(l string) bool {
			return e.label(l) != g[slices.Index(s.GroupBy, l)]
		}) {
			continue
		}
		of := func(counter string, valid, bad uint64) {
			if valid+bad == 0 {
				return
			}
			name := fmt.Sprint(counter, e.replica, e.replica == 1 && e.received >= w.down.to)
			l := first[name]
			if l == nil {
				l = &lost{at: e.counted()}
				first[name] = l
			}
			if e.counted() <= l.at+window {
				l.valid, l.bad = l.valid+share*float64(valid), l.bad+share*float64(bad)
			}
		}
		if s.Indicator.Kind == slo.KindRatio {
			of("denominator", valid, 0)
			of("numerator", 0, bad)
		} else {
			of("good", valid-bad, 0)
			of("bad", bad, bad)
		}
	}
	if w.lost == nil {
		w.lost = map[string][]lost{}
	}
	out := []lost{}
	for _, l := range first {
		out = append(out, *l)
	}
	w.lost[key] = out
	return out
}
