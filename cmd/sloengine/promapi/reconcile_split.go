package promapi

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/sloengine/sloengine/ingest/source/series"
	"github.com/sloengine/sloengine/internal/order"
)

// splitting is a Reconciled in the making.
type splitting struct {
	*Recount
	out  Reconciled
	rest Pair
}

func (s *splitting) add(cause string, n Pair, why string, args ...any) {
	s.out.Causes = append(s.out.Causes, Cause{Cause: cause, Pair: n, Why: fmt.Sprintf(why, args...)})
	s.rest = s.rest.minus(n)
}

// atMost adds what may explain the rest: up to n events that the engine has less (sign -1), more (1), or either (0).
func (s *splitting) atMost(cause string, n float64, sign int, why string) {
	if n <= 0 {
		return
	}
	low, high := -n, n
	if sign < 0 {
		high = 0
	} else if sign > 0 {
		low = 0
	}
	is := Pair{min(max(s.rest.Valid, low), high), min(max(s.rest.Bad, low), high)}
	when := "in the window"
	if !s.Known.Since.IsZero() {
		when = "since " + timeText(s.Known.Since) + " (the Prometheus has none of the engine's metrics)"
	}
	s.out.Causes = append(s.out.Causes, Cause{Cause: cause, Pair: is, AtMost: true,
		Why: fmt.Sprintf("%s, of all SLOs together: %s %s", when, number(n), why)})
	s.rest = s.rest.minus(is)
}

func (r *Recount) split(got *series.Compared, asked [2]float64) *Reconciled {
	s := &splitting{Recount: r, out: Reconciled{SLO: r.SLO, From: r.From, To: r.To, Total: r.Total, Bad: r.Bad,
		Good: r.Good, Series: got.Series, Samples: got.Samples, ScrapeSeconds: got.Scrape.Seconds(), Notes: []string{}}}
	total, part := &got.Total, &got.Part
	// The server is of the version whose arithmetic comes closest.
	version := 0
	apart := func(v int) float64 {
		return math.Abs(total.Versions[v].Value-asked[0]) + math.Abs(part.Versions[v].Value-asked[1])
	}
	if apart(1) < apart(0) {
		version = 1
	}
	t, p := &total.Versions[version], &part.Versions[version]
	computed := r.pair(t.Value, p.Value)
	s.out.Increase = r.pair(asked[0], asked[1])
	if math.IsNaN(asked[0] + asked[1]) {
		s.out.Increase = computed
		s.out.Notes = append(s.out.Notes,
			"The Prometheus refuses increase() over the whole window, as too many samples. Its "+
				"number is computed from the samples, as Prometheus 3 does.")
	}
	s.out.Raw = r.pair(t.Raw, p.Raw)
	for _, one := range r.Engine {
		s.out.Engine.Valid += one.Valid
		s.out.Engine.Bad += one.Bad
	}
	s.out.Difference = s.out.Engine.minus(s.out.Increase)
	s.rest = s.out.Difference
	if own := computed.minus(s.out.Increase); math.Abs(own.Valid) > 1e-6*computed.Valid+1e-6 {
		s.add("server", own, "by its samples, increase() of Prometheus is %s; this server says %s, so it computes "+
			"it otherwise "+
			"(as VictoriaMetrics does), or has changed meanwhile", number(computed.Valid), number(s.out.Increase.Valid))
	}

	extrapolated := r.pair(t.Value-t.Raw, p.Value-p.Raw)
	edges := r.pair(t.Edges, p.Edges)
	s.add("window edges", edges.minus(extrapolated), "increase() extrapolates %s to both ends of the window; the samples "+
		"there say %s", number(extrapolated.Valid), number(edges.Valid))
	gaps := "no gap between samples is longer than 3 scrapes of %s"
	args := []any{got.Scrape}
	if total.Gaps+part.Gaps > 0 {
		gaps = "%s longer than 3 scrapes of %s, the longest one of %s from %s; %s was added in them, which both " +
			"count unless a gap is across an end of the window"
		longest := total
		if part.LongestGap > total.LongestGap {
			longest = part
		}
		args = []any{plural(max(total.Gaps, part.Gaps), "gap"), got.Scrape, longest.LongestGap.Round(time.Second),
			timeText(longest.GapAt), number(max(total.InGaps, part.InGaps))}
	}
	s.add("scrape gaps", r.pair(t.GapEdges, p.GapEdges), gaps, args...)
	first := "no series began"
	if n := max(total.NewSeries, part.NewSeries); n > 0 {
		last := total.LastNew
		if part.LastNew.After(last) {
			last = part.LastNew
		}
		first = plural(n, "series") + " began, the last one at " + timeText(last) +
			"; increase() leaves the first value of a series out"
	}
	if n := max(total.Beginnings, part.Beginnings); n > 0 {
		first += fmt.Sprintf("; of %s with a target that was not scraped before, it is unknown when the first values were "+
			"added, and neither counts them (%s)", plural(n, "series"), number(max(total.AtBeginnings, part.AtBeginnings)))
	}
	s.add("first values", r.pair(total.First, part.First), "%s", first)
	s.resets(total, part)
	s.unobserved(total, part)
	s.known()
	s.finish(total, part)
	return &s.out
}

func (s *splitting) resets(total, part *series.Side) {
	lost := s.pair(total.Lost, part.Lost)
	n := max(total.Resets, part.Resets)
	if n == 0 {
		s.add("counter resets", Pair{}, "no counter fell")
		return
	}
	last := total.LastReset
	if part.LastReset.After(last) {
		last = part.LastReset
	}
	text := fmt.Sprintf("counters fell %s, the last one at %s; both count what they said then (%s)", plural(n, "time"),
		timeText(last), number(max(total.AfterReset, part.AfterReset)))
	if s.Source != "" {
		s.add("counter resets", Pair{}, "%s; about %s more, added since the last sample before, is in neither", text,
			number(lost.Valid))
		return
	}
	s.add("counter resets", lost, "%s; the engine also has what was added since the last sample before, about %s by the "+
		"rate until then", text, number(lost.Valid))
}

// fewEvents is how many events a time must have by its counters for the engine to be missing there.
const fewEvents = 10

// unobserved finds times in which the engine counted nothing at all, with the steps that they begin and end in.
func (s *splitting) unobserved(total, part *series.Side) {
	var missing Pair
	var times []string
	short := func(i int) (Pair, bool) {
		if i < 0 || i >= len(s.Engine) {
			return Pair{}, false
		}
		d := s.pair(total.Added[i], part.Added[i]).minus(s.Engine[i])
		return d, d.Valid > 0
	}
	for i := 0; i < len(s.Engine); i++ {
		var run Pair
		k := i
		for ; k < len(s.Engine) && s.Engine[k].Valid == 0; k++ {
			d, _ := short(k)
			run.Valid, run.Bad = run.Valid+d.Valid, run.Bad+d.Bad
		}
		if run.Valid < fewEvents {
			i = max(i, k-1)
			continue
		}
		for _, edge := range []int{i - 1, k} {
			if d, ok := short(edge); ok {
				run.Valid, run.Bad = run.Valid+d.Valid, run.Bad+d.Bad
			}
		}
		missing.Valid, missing.Bad = missing.Valid+run.Valid, missing.Bad+run.Bad
		times = append(times, timeText(s.From.Add(time.Duration(i)*s.Step))+" to "+
			timeText(s.From.Add(time.Duration(k)*s.Step)))
		i = k
	}
	if len(times) == 0 {
		s.add("not observed", Pair{}, "the engine counted whenever the counters did")
		return
	}
	text := strings.Join(times[:min(len(times), 3)], ", ")
	if len(times) > 3 {
		text += fmt.Sprintf(" and %d more times", len(times)-3)
	}
	s.add("not observed", Pair{-missing.Valid, -missing.Bad}, "the engine counted nothing from %s", text)
}

// known are what the engine knows of all its events.
func (s *splitting) known() {
	k := &s.Known
	if s.Source != "" {
		sign := -1
		if s.Good != "" {
			sign = 1
		}
		valid := s.rest.Valid // only bad ones are cut
		s.rest.Valid = 0
		s.atMost("cut", k.Cut, sign, "bad or good events beyond all were not counted")
		s.rest.Valid = valid
		return
	}
	s.atMost("duplicates", k.Duplicates, -1, "events came again with an id that was already counted")
	s.atMost("rejected", k.Rejected, -1, "events were invalid or too old")
	s.atMost("over a limit", k.Limited, -1, "events over a rate limit were dropped or became dead letters")
	s.atMost("backfilled", k.Backfilled, 1, "events were backfilled, which no counter has")
	s.atMost("late", k.Late, 0,
		"events were counted in an earlier minute than the one they came in, some across the ends of "+
			"the window")
	s.atMost("sampling", k.Sampled, 0, "events were left out by sampling, for which others count with a weight")
}

func (s *splitting) finish(total, part *series.Side) {
	s.out.Unexplained = s.rest
	clean := func(n *float64, of float64) bool {
		if math.Abs(*n) < 1e-6 {
			*n = 0
		}
		return math.Abs(*n) <= max(1, s.Tolerance*of)
	}
	valid := clean(&s.out.Unexplained.Valid, s.out.Increase.Valid)
	bad := clean(&s.out.Unexplained.Bad, s.out.Increase.Bad)
	if s.out.Explained = valid && bad; s.out.Explained {
		return
	}
	// Where to look.
	type apart struct {
		at int
		n  float64
	}
	var worst []apart
	for i := range s.Engine {
		d := s.Engine[i].minus(s.pair(total.Added[i], part.Added[i]))
		if math.Abs(d.Valid)+math.Abs(d.Bad) >= 1 {
			worst = append(worst, apart{i, math.Abs(d.Valid) + math.Abs(d.Bad)})
		}
	}
	order.By(worst, func(a, b *apart) int { return cmp.Compare(b.n, a.n) })
	for _, w := range worst[:min(len(worst), 3)] {
		c := s.pair(total.Added[w.at], part.Added[w.at])
		s.out.Notes = append(s.out.Notes,
			fmt.Sprintf("In the %s from %s the engine has %s events, %s of them bad, and the counters "+
				"%s and %s.", s.Step, timeText(s.From.Add(time.Duration(w.at)*s.Step)), number(s.Engine[w.at].Valid),
				number(s.Engine[w.at].Bad), number(c.Valid), number(c.Bad)))
	}
}
