package ui

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// ranges are the spans up to now that the charts can show.
var ranges = []struct {
	name string
	span time.Duration
}{
	{"1h", time.Hour}, {"6h", 6 * time.Hour}, {"1d", 24 * time.Hour}, {"7d", 7 * 24 * time.Hour},
	{"30d", 30 * 24 * time.Hour}, {"90d", 90 * 24 * time.Hour},
}

// Bounds of a range of one's own.
const (
	shortestRange = 5 * time.Minute
	longestRange  = 400 * 24 * time.Hour
)

// sloRange is the time that the charts of a page show.
type sloRange struct {
	slo.Span
	Name    string // "" for one of its own
	Step    time.Duration
	Problem string // what was asked for cannot be shown
}

// newRange reads from and to, or range. Without them it is the last day, and the last hour while a page fires. What
// cannot be read gives the default range and says so.
func newRange(q url.Values, now time.Time, slice time.Duration, paging bool) sloRange {
	now = now.UTC()
	r, err := ownRange(q, now)
	byDefault, shown := 2, "day"
	if paging {
		byDefault, shown = 0, "hour"
	}
	if err != nil {
		r.Problem = "The range " + err.Error() + ". The last " + shown + " is shown instead."
	}
	if r.Duration() == 0 {
		at := slices.IndexFunc(ranges, func(x struct {
			name string
			span time.Duration
		}) bool {
			return x.name == q.Get("range")
		})
		if at < 0 || err != nil {
			at = byDefault
		}
		r.Name, r.Span = ranges[at].name, slo.Span{From: now.Add(-ranges[at].span), To: now}
	}
	r.Step = history.StepFor(r.Span, now, slice)
	// Steps begin at round times, and no part of one is left out. What is shown
	// reaches a step less far back than asked for, rather than further.
	r.From = r.From.Add(-sinceEpoch(r.From, r.Step))
	if r.Name != "" {
		r.From = r.From.Add(r.Step)
	}
	return r
}

func sinceEpoch(t time.Time, step time.Duration) time.Duration {
	return time.Duration((t.UnixNano()%int64(step) + int64(step)) % int64(step))
}

func ownRange(q url.Values, now time.Time) (r sloRange, err error) {
	from, to := q.Get("from"), q.Get("to")
	if from == "" && to == "" {
		return r, nil
	}
	r.To = now
	if to != "" {
		if r.To, err = pageTime(to); err != nil {
			return sloRange{}, fmt.Errorf("has an invalid end (%w)", err)
		}
	}
	if r.To.After(now) {
		r.To = now
	}
	r.From = r.To.Add(-24 * time.Hour)
	if from != "" {
		if r.From, err = pageTime(from); err != nil {
			return sloRange{}, fmt.Errorf("has an invalid start (%w)", err)
		}
	}
	switch d := r.To.Sub(r.From); {
	case d <= 0:
		err = errors.New("starts after its end or in the future")
	case d < shortestRange:
		// A narrow selection is widened around its middle.
		r.From = r.From.Add(-(shortestRange - d) / 2)
		r.To = r.From.Add(shortestRange)
	case d > longestRange:
		err = errors.New("is longer than 400 days")
	}
	if err != nil {
		return sloRange{}, err
	}
	return r, nil
}

// pageTime reads what an address, a script and a form's date field write.
func pageTime(s string) (time.Time, error) {
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return site.ParseTime(s)
}

// rangeNav are the links and the form that choose a range.
type rangeNav struct {
	Links    []site.Link
	Own      bool
	From, To string // of the form, in its notation
	Hidden   [][2]string
	Action   string
	Zoom     string // the address of a zoom, without from and to
	Wider    string // twice as wide; "" if it reaches as far as it can
	Earlier  string
	Later    string // "" if it reaches up to now
	Shown    string
	Problem  string
}

// rangeHref is the address of the page of a group with the charts of a time.
func (ui *Handler) rangeHref(r *sla.SLOReport, from, to time.Time) string {
	q := site.GroupQuery(r.SLO.GroupBy, r.Group)
	q.Set("id", string(r.SLO.ID))
	q.Set("from", strconv.FormatInt(from.Unix(), 10))
	q.Set("to", strconv.FormatInt(to.Unix(), 10))
	return ui.Href("/slo", q)
}

func (ui *Handler) rangeNav(r *sla.SLOReport, rng sloRange, q url.Values, now time.Time) rangeNav {
	base := site.GroupQuery(r.SLO.GroupBy, r.Group)
	base.Set("id", string(r.SLO.ID))
	if x := q.Get("refresh"); x != "" {
		base.Set("refresh", x)
	}
	with := func(kv ...string) string {
		to := url.Values{}
		for k := range base {
			to.Set(k, base.Get(k))
		}
		for i := 0; i+1 < len(kv); i += 2 {
			to.Set(kv[i], kv[i+1])
		}
		return ui.Href("/slo", to)
	}
	at := func(from, to time.Time) string {
		return with("from", strconv.FormatInt(from.Unix(), 10), "to", strconv.FormatInt(to.Unix(), 10))
	}
	const layout = "2006-01-02T15:04"
	n := rangeNav{Own: rng.Name == "", From: rng.From.UTC().Format(layout), To: rng.To.UTC().Format(layout),
		Hidden: site.Hidden(base), Action: ui.Href("/slo", nil), Zoom: with(), Problem: rng.Problem}
	for _, x := range ranges {
		n.Links = append(n.Links, site.Link{Text: x.name, Href: with("range", x.name), On: x.name == rng.Name})
	}
	d := rng.Duration()
	n.Earlier = at(rng.From.Add(-d/2), rng.To.Add(-d/2))
	if later := rng.To.Add(d / 2); now.Sub(rng.To) > time.Minute {
		if later.After(now) {
			later = now
		}
		n.Later = at(later.Add(-d), later)
	}
	if wide := 2 * d; wide <= longestRange {
		to := rng.To.Add(d / 2)
		if to.After(now) {
			to = now
		}
		n.Wider = at(to.Add(-wide), to)
	}
	n.Shown = format.Span(rng.Span)
	return n
}
