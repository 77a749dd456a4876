package forecast

import (
	"math"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// paceHours are the hours whose burn rates make the range of the pace: the windows of the usual alerts.
var paceHours = []float64{1, 6, 72}

// pace rolls the window forward at the burn rates of the last hours.
func (p *Past) pace(q *Question, m *model) Pace {
	out := Pace{Low: Beyond}
	for _, h := range paceHours {
		valid, bad := p.between(m.x-h, m.x, m.x)
		at := p.emptyAt(q, m.x, ratioOf(bad, valid)/q.Budget)
		out.Low, out.High = min(out.Low, at), max(out.High, at)
	}
	return out
}

// emptyAt is the time until the budget is empty if it is spent at a burn rate from now on. What is known to leave the
// window leaves it. Beyond means never: after a whole rolling window only the burn rate is left in it, and at the end
// of a calendar window the budget is new.
func (p *Past) emptyAt(q *Question, x, burn float64) time.Duration {
	if q.Bad > 0 && q.Bad >= q.Budget*q.Valid {
		return 0
	}
	ahead := float64(hoursUntil(q.Now, q.Window.End(q.Now)))
	if q.Window.Calendar == "" {
		ahead = math.Ceil(q.Window.Rolling.Hours())
	}
	over := func(h float64) float64 {
		valid, bad := p.kept(q, x, h)
		v := p.scratch.traffic.forever(x, h)
		return bad + burn*q.Budget*v - q.Budget*(valid+v)
	}
	const stride = 6 // hours
	for far := float64(stride); far < ahead+stride; far += stride {
		if over(min(far, ahead)) < 0 {
			continue
		}
		was := over(far - stride)
		for h := far - stride + 1; h <= min(far, ahead); h++ {
			is := over(h)
			if is >= 0 {
				return hours(h - 1 + was/min(was-is, -1e-300))
			}
			was = is
		}
	}
	return Beyond
}

// Incidents closer than this are one, and less than leastRelief of the budget is not worth a word.
const (
	gap         = 3
	leastRelief = 0.1
)

// relief finds the incident of a rolling window that cost most.
func (p *Past) relief(q *Question, m *model) *Relief {
	if q.Window.Calendar != "" || q.Valid == 0 {
		return nil
	}
	from := max(0, int(math.Ceil(m.x-q.Window.Rolling.Hours())))
	p.scratch.inWindow = p.incidents(p.scratch.inWindow[:0], from, m.base, m.threshold)
	best, most := run{}, 0.0
	runs := p.scratch.inWindow
	for i := 0; i < len(runs); {
		joined := runs[i]
		for i++; i < len(runs) && runs[i].first-joined.last <= gap; i++ {
			joined.last = runs[i].last
		}
		if bad := p.bad[joined.last] - p.bad[joined.first]; bad > most {
			best, most = joined, bad
		}
	}
	share := most / (q.Budget * q.Valid)
	if share < leastRelief {
		return nil
	}
	span := slo.Span{From: p.when(float64(best.first)), To: p.when(float64(best.last))}
	return &Relief{
		Incident: span, Share: share,
		Leaves: slo.Span{From: span.From.Add(q.Window.Rolling), To: span.To.Add(q.Window.Rolling)},
	}
}
