package evaluator

import (
	"time"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// peakMinutes is how many whole minutes a peak is sought in.
const peakMinutes = 60

// peakPlan finds the busiest whole minute of the last hour for an SLO on throughput, in each group. The minutes are
// asked for when another one is over, once a minute and not at every tick, so a late event changes the peak within a
// minute.
type peakPlan struct {
	asked []slo.Span // of this tick; nil if the peaks are known
	until time.Time  // end of the last minute that known is about
	known map[string]uint64
}

// due says whether the minutes before now are not known.
func (p *peakPlan) due(now time.Time) bool { return !now.Truncate(time.Minute).Equal(p.until) }

// ask adds the minutes to a request for them.
func (p *peakPlan) ask(req *fold.Request, id string) {
	if p.asked = nil; !req.Minutes {
		return
	}
	end := req.Now.Truncate(time.Minute)
	p.asked = make([]slo.Span, peakMinutes)
	for i := range p.asked {
		p.asked[i] = slo.Span{From: end.Add(time.Duration(i-peakMinutes) * time.Minute),
			To: end.Add(time.Duration(i-peakMinutes+1) * time.Minute)}
	}
	if req.Extra == nil {
		req.Extra = map[string][]slo.Span{}
	}
	req.Extra[id] = p.asked
}

// answer takes the minutes of all groups, which come behind the other spans, if they were asked for.
func (p *peakPlan) answer(groups map[string]*fold.Group, first int) {
	if p.asked == nil {
		return
	}
	p.until, p.known = p.asked[peakMinutes-1].To, make(map[string]uint64, len(groups))
	for key, g := range groups {
		most := uint64(0)
		for _, minute := range g.Spans[first : first+peakMinutes] {
			most = max(most, events(slo.KindThroughput, minute).Good)
		}
		p.known[key] = most
	}
}
