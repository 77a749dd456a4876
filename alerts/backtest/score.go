package backtest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/spec"
)

// Night is from 22:00 to 07:00.
const (
	nightBegins = 22
	nightEnds   = 7
)

// Result is what a backtest prints. Ratios are null where nothing can be said.
type Result struct {
	From      time.Time  `json:"from"`
	To        time.Time  `json:"to"`
	Since     time.Time  `json:"read_since"` // receive time of the first record that was read
	Records   uint64     `json:"records"`
	Events    uint64     `json:"events"`
	Ticks     int        `json:"ticks"`
	Down      float64    `json:"down_seconds"` // time in which the engine was not up and evaluated nothing
	Total     Pair       `json:"total"`
	Subjects  []Subject  `json:"subjects"`
	Incidents []Incident `json:"incidents"`
	Missing   []string   `json:"missing"` // what could not be read
	Notes     []string   `json:"notes"`   // what is not replayed, or could not be compared
}

// Pair is the same of the spec in force and of the candidate.
type Pair struct {
	Before *Side `json:"before"` // null: the spec in force does not have it
	After  *Side `json:"after"`
}

// Subject is an SLO, an agreement or a service that alerts are about.
type Subject struct {
	ID   string `json:"id"`
	Kind string `json:"kind"` // slo, agreement or service
	Pair
}

// Side is what one spec says of a subject.
type Side struct {
	Objective string  `json:"objective_percent,omitempty"`
	Window    string  `json:"window,omitempty"`
	Score     Score   `json:"score"`
	Days      []Day   `json:"days"` // the error budget at the end of each day
	Hours     []Day   `json:"-"`    // with Options.Own
	Alerts    []Alert `json:"alerts"`
	// Proposals are the objective of the candidate and its neighbors.
	Proposals []Proposal `json:"proposals,omitempty"`
}

// Day is the error budget of the worst group of an SLO at the end of a day, or of an hour.
type Day struct {
	Date      string    `json:"date"`
	Remaining *float64  `json:"remaining"` // null: no event was valid
	Coverage  float64   `json:"coverage"`  // share of the window that was observed
	Group     slo.Group `json:"group,omitempty"`

	At time.Time `json:"-"`
}

func newDay(date string, at time.Time, x *sla.SLOReport) Day {
	d := Day{Date: date, At: at, Coverage: x.Coverage, Group: x.Group}
	if x.Budget.HasData {
		left := x.Budget.Remaining // a copy, so that the report can be freed
		d.Remaining = &left
	}
	return d
}

// worse reports whether less is left of the budget of a group than a day has.
func worse(x *sla.SLOReport, d *Day) bool {
	return x.Budget.HasData && (d.Remaining == nil || x.Budget.Remaining < *d.Remaining)
}

// Alert is one alert that fired.
type Alert struct {
	Name     string     `json:"name"`
	Page     bool       `json:"page"`
	Tier     string     `json:"tier,omitempty"`
	Group    slo.Group  `json:"group,omitempty"`
	Start    time.Time  `json:"start"`
	End      *time.Time `json:"end"`              // null: it fires at the end of the range
	Before   bool       `json:"before,omitempty"` // it fired before the range began, and is not rated
	Incident string     `json:"incident,omitempty"`

	kind, subject, service string
}

func newAlert(a *state.Alert, at, from time.Time) Alert {
	x := Alert{
		Name: a.Name, Page: a.Urgent, Tier: a.Label("slo_tier"), Group: a.Group, Start: at, Before: at.Before(from),
		service: a.Service,
	}
	switch {
	case a.SLO != "":
		x.kind, x.subject = KindSLO, string(a.SLO)
		x.service = a.SLO.Service()
	case a.Agreement != "":
		x.kind, x.subject = KindAgreement, a.Service+"/"+a.Agreement
	default:
		x.kind, x.subject = KindService, a.Service
	}
	return x
}

const (
	KindSLO       = "slo"
	KindAgreement = "agreement"
	KindService   = "service"
)

// Score rates the alerts of a spec against incidents.
type Score struct {
	Pages        int      `json:"pages"`
	Tickets      int      `json:"tickets"`
	PagesPerWeek float64  `json:"pages_per_week"`
	NightPages   int      `json:"night_pages"` // from 22:00 to 07:00
	Incidents    int      `json:"incidents"`
	Found        int      `json:"found"`             // incidents with a page
	Precision    *float64 `json:"precision"`         // pages with an incident / pages
	Recall       *float64 `json:"recall"`            // incidents with a page / incidents
	Detection    *float64 `json:"detection_seconds"` // median from the onset to the first page
	Reset        *float64 `json:"reset_seconds"`     // median from the end of an incident to that of its last page
}

// Incident is one to rate alerts against.
type Incident struct {
	ID      string     `json:"id"`
	Service string     `json:"service"`
	SLOs    []string   `json:"slos"` // empty: the whole service
	Onset   time.Time  `json:"onset"`
	End     *time.Time `json:"end"` // null: it is open
	Hand    bool       `json:"by_hand"`
}

// ofBook are the incidents to rate pages against: critical ones and those that a person opened.
func (r *replay) ofBook(to time.Time) (out []Incident) {
	if r.book.View == nil {
		return nil
	}
	after := r.lanes[len(r.lanes)-1].spec
	visible := func(service string) bool {
		return !r.own || slices.ContainsFunc(after.Services, func(s spec.Service) bool { return s.Name == service })
	}
	for _, inc := range r.book.View.Between(r.from, to) {
		if !visible(inc.Service) {
			continue
		}
		if inc.Engine() || inc.Severity != incident.Critical && inc.Automated {
			continue
		}
		x := Incident{ID: inc.ID, Service: inc.Service, Onset: inc.Onset, Hand: !inc.Automated}
		for _, a := range inc.Affected() {
			if a.SLO != "" && visible(slo.ID(a.SLO).Service()) && !slices.Contains(x.SLOs, a.SLO) {
				x.SLOs = append(x.SLOs, a.SLO)
			}
		}
		if inc.Resolved != nil {
			x.End = &inc.Resolved.Time
		}
		out = append(out, x)
	}
	return out
}

// concerns reports whether an incident is about what an alert of a subject is about.
func (i *Incident) concerns(kind, subject, service string) bool {
	if i.Service != "" && i.Service != service {
		return false
	}
	return kind != KindSLO || len(i.SLOs) == 0 || slices.Contains(i.SLOs, subject)
}

// meets reports whether an alert fired during an incident, or so soon after it that it would have joined it.
func (i *Incident) meets(a *Alert, to time.Time) bool {
	end, over := to, to
	if i.End != nil {
		end = *i.End
	}
	if a.End != nil {
		over = *a.End
	}
	return !a.Start.After(end.Add(incident.JoinWithin)) && !over.Before(i.Onset)
}

// CheckIncidents refuses a list of incidents that no alert can be rated against, and completes it.
func CheckIncidents(list []Incident) error {
	for i := range list {
		inc := &list[i]
		if inc.Hand = true; inc.ID == "" {
			inc.ID = strconv.Itoa(i + 1)
		}
		switch {
		case inc.Onset.IsZero():
			return fmt.Errorf("incident %q has no onset (set a time in RFC 3339)", inc.ID)
		case inc.End != nil && inc.End.Before(inc.Onset):
			return fmt.Errorf("incident %q ends before its onset", inc.ID)
		}
	}
	return nil
}

type subjectKey struct{ kind, id string }

// rating is the range and the zone by which alerts are rated.
type rating struct {
	from, to  time.Time
	zone      *time.Location
	incidents []Incident
}

// score rates alerts against the incidents that are wanted, and names the incident of each alert.
func (r *rating) score(list []Alert, wanted func(*Incident) bool) (s Score) {
	good := 0
	for k := range list {
		a := &list[k]
		for i := range r.incidents {
			if inc := &r.incidents[i]; inc.concerns(a.kind, a.subject, a.service) && inc.meets(a, r.to) {
				a.Incident = inc.ID
				break
			}
		}
		switch {
		case a.Before:
		case !a.Page:
			s.Tickets++
		default:
			s.Pages++
			if h := a.Start.In(r.zone).Hour(); h >= nightBegins || h < nightEnds {
				s.NightPages++
			}
			if a.Incident != "" {
				good++
			}
		}
	}
	s.PagesPerWeek = float64(s.Pages) / (r.to.Sub(r.from).Hours() / (7 * 24))
	var detection, reset []float64
	for i := range r.incidents {
		inc := &r.incidents[i]
		if inc.Onset.Before(r.from) || !wanted(inc) {
			continue
		}
		s.Incidents++
		var first, last time.Time
		over := true
		for k := range list {
			a := &list[k]
			if !a.Page || !inc.concerns(a.kind, a.subject, a.service) || !inc.meets(a, r.to) {
				continue
			}
			if first.IsZero() || a.Start.Before(first) {
				first = a.Start
			}
			if a.End == nil {
				over = false
			} else if a.End.After(last) {
				last = *a.End
			}
		}
		if first.IsZero() {
			continue
		}
		s.Found++
		detection = append(detection, max(0, first.Sub(inc.Onset).Seconds()))
		if inc.End != nil && over {
			reset = append(reset, max(0, last.Sub(*inc.End).Seconds()))
		}
	}
	s.Precision, s.Recall = share(good, s.Pages), share(s.Found, s.Incidents)
	s.Detection, s.Reset = median(detection), median(reset)
	return s
}

func share(n, of int) *float64 {
	if of == 0 {
		return nil
	}
	x := float64(n) / float64(of)
	return &x
}

func median(list []float64) *float64 {
	n := len(list)
	if n == 0 {
		return nil
	}
	slices.Sort(list)
	m := (list[(n-1)/2] + list[n/2]) / 2
	return &m
}

// sides rates one spec: all of it, and each subject.
func (r *rating) sides(l *lane) (total *Side, subjects map[subjectKey]*Side) {
	subjects = map[subjectKey]*Side{}
	services := map[string]bool{}
	for _, s := range l.spec.SLOs {
		services[s.ID.Service()] = true
		if s.Indicator.RulesOnly() {
			continue
		}
		subjects[subjectKey{KindSLO, string(s.ID)}] = &Side{
			Objective: s.Objective.Percent(), Window: s.Window.String(), Days: l.days[string(s.ID)],
			Hours: l.hours[string(s.ID)],
		}
	}
	all := l.alerts
	for k := range all {
		key := subjectKey{all[k].kind, all[k].subject}
		if subjects[key] == nil {
			subjects[key] = &Side{}
		}
		subjects[key].Alerts = append(subjects[key].Alerts, all[k])
	}
	for key, s := range subjects {
		service, _, _ := strings.Cut(key.id, "/")
		s.Score = r.score(s.Alerts, func(i *Incident) bool { return i.concerns(key.kind, key.id, service) })
		if s.Days == nil {
			s.Days = []Day{}
		}
		if s.Alerts == nil {
			s.Alerts = []Alert{}
		}
	}
	total = &Side{Days: []Day{}, Alerts: []Alert{}}
	total.Score = r.score(all, func(i *Incident) bool { return i.Service == "" || services[i.Service] })
	return total, subjects
}

// compare puts the two specs side by side.
func (r *rating) compare(before, after *lane) (total Pair, subjects []Subject) {
	total.After, subjects = nil, []Subject{}
	pairs := map[subjectKey]Pair{}
	if before != nil {
		side, all := r.sides(before)
		total.Before = side
		for key, s := range all {
			pairs[key] = Pair{Before: s}
		}
	}
	side, all := r.sides(after)
	total.After = side
	for key, s := range all {
		p := pairs[key]
		p.After = s
		pairs[key] = p
	}
	order := []string{KindSLO, KindAgreement, KindService}
	for _, key := range slices.SortedFunc(maps.Keys(pairs), func(a, b subjectKey) int {
		if a.kind != b.kind {
			return slices.Index(order, a.kind) - slices.Index(order, b.kind)
		}
		return strings.Compare(a.id, b.id)
	}) {
		subjects = append(subjects, Subject{ID: key.id, Kind: key.kind, Pair: pairs[key]})
	}
	return total, subjects
}

// keepLast keeps the last report of a time, of the worst group.
func keepLast(all map[string][]Day, date string, at time.Time, x *sla.SLOReport) {
	id := string(x.SLO.ID)
	list := all[id]
	switch n := len(list) - 1; {
	case n < 0 || list[n].Date != date:
		all[id] = append(list, newDay(date, at, x))
	case list[n].At.Before(at) || worse(x, &list[n]):
		list[n] = newDay(date, at, x)
	}
}
