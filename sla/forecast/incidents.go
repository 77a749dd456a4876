package forecast

import "math"

// An hour belongs to an incident if it burns incidentBurn times as fast as the objective allows, and incidentFactor
// times as fast as the service usually does, with at least incidentBad bad events.
const (
	incidentBurn   = 2
	incidentFactor = 4
	incidentBad    = 3

	// leastBad is how many bad events tell anything about bad ratios.
	leastBad = 1
)

// run is an incident among the hours: those from first to last-1.
type run struct{ first, last int }

// incidents appends the runs of the hours from first to last-1 whose bad ratio is above a threshold.
func (p *Past) incidents(out []run, first, last int, threshold float64) []run {
	for i := first; i < last; i++ {
		if !p.hours[i].above(threshold) {
			continue
		}
		if n := len(out); n > 0 && out[n-1].last == i {
			out[n-1].last = i + 1
		} else {
			out = append(out, run{i, i + 1})
		}
	}
	return out
}

func (h *Hour) above(threshold float64) bool {
	return h.Bad >= incidentBad && h.Bad > threshold*h.Valid
}

// medianRatio is the bad ratio that half of the hours with traffic do not exceed.
func (p *Past) medianRatio(first, last int) float64 {
	ratios := p.scratch.ratios[:0]
	for i := first; i < last; i++ {
		if h := &p.hours[i]; h.Valid > 0 {
			ratios = append(ratios, h.Bad/h.Valid)
		}
	}
	p.scratch.ratios = ratios
	if len(ratios) == 0 {
		return 0
	}
	return selectRank(ratios, len(ratios)/2)
}

// present is an incident that runs now.
type present struct {
	first  int       // hour in which it began
	lasted float64   // hours until now
	ratio  float64   // its present bad ratio
	longer []float64 // hours of the past incidents that lasted at least as long
}

// running finds the incident that runs now. The hour that now lies in tells it once half of it is over. Before, the
// last sixty minutes do.
func (p *Past) running(m *model) *present {
	if m.x <= 0 {
		return nil
	}
	from := m.x - 1
	if m.x-float64(m.base) >= 0.5 {
		from = float64(m.base)
	}
	valid, bad := p.between(from, m.x, m.x)
	if now := (Hour{Valid: valid, Bad: bad}); !now.above(m.threshold) {
		return nil
	}
	n := int(math.Ceil(m.x)) // hours that have begun
	first := n - 1
	if k := len(m.runs); k > 0 && m.runs[k-1].last >= n-1 {
		first = min(first, m.runs[k-1].first)
	}
	in := &present{first: first, lasted: max(m.x-float64(first)-lastSeen, 0.25), ratio: bad / valid}
	for _, old := range m.runs {
		if d := float64(old.last - old.first); old.first < first && d >= in.lasted {
			in.longer = append(in.longer, d)
		}
	}
	return in
}

// lindy is the exponent of how long an incident goes on that has outlasted those of the past: after d hours it
// lasts t hours more with probability (d/(d+t))^lindy, a Pareto tail.
const lindy = 1.2

// lastSeen is how long ago, in hours, an incident was known to run: in the middle of the last hour. It may be over.
const lastSeen = 0.5

// remaining draws how many hours a running incident goes on: as past ones did that lasted at least as long, or by the
// tail, which counts as two past incidents.
func (in *present) remaining(r *random) float64 {
	if k := r.below(len(in.longer) + 2); k < len(in.longer) {
		return max(0, in.longer[k]-in.lasted-r.float())
	}
	return max(0, in.lasted*(math.Pow(1-r.float(), -1/lindy)-1)-lastSeen)
}
