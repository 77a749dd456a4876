package incident

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/sloengine/sloengine/slo"
)

// Phrase is a piece of a sentence, with what it is about.
type Phrase struct {
	Text     string
	Of       *Failure  // it is the name of this failure; nil: it is not
	At       time.Time // it is this time; zero: it is not
	Incident *Incident // it says how this incident is acknowledged; nil: it does not
}

// Text is a sentence without what its parts are about.
func Text(parts []Phrase) string {
	var b strings.Builder
	for i := range parts {
		b.WriteString(parts[i].Text)
	}
	return b.String()
}

// maxNamed is how many failures a sentence names.
const maxNamed = 3

// Sentence says what fails, since when and how badly, what it affects, and whether it is acknowledged, such as
//
//	mdm failing since 13:39 UTC (57% of events in 5m): 3 products affected. Acknowledged 13:44 UTC.
//
// Once the last minutes meet the objective, it is "mdm recovering, failing since 13:39 UTC (<1% of events in 5m)".
// It is empty if nothing fails. Where no failure explains another, it names none as the cause. show prepares names and
// values for the place where the sentence is shown: senders of events choose some of them.
func (s *Situation) Sentence(now time.Time, show func(string) string) []Phrase {
	parts := s.Lead(now, show)
	if parts == nil {
		return nil
	}
	faults := s.named()
	return append(append(parts, Phrase{Text: ". "}), acknowledged(faults, now)...)
}

// Lead is the sentence without the acknowledgement, and without a full stop.
func (s *Situation) Lead(now time.Time, show func(string) string) []Phrase {
	faults := s.named()
	if len(faults) == 0 {
		return nil
	}
	w := writer{names: s.names(), show: show, now: now}
	first := &faults[0]
	if len(faults) > 1 && len(first.Affects) == 0 {
		w.several(faults, s.More)
		return w.parts
	}
	w.fault(first)
	if n := len(first.Affects); n > 0 {
		w.text(": " + countAffected(first.Affects) + " affected")
	}
	if rest := faults[1:]; len(rest) > 0 {
		w.text(". Also failing: ")
		w.list(rest, s.More)
	}
	return w.parts
}

// named are the faults that a sentence is about: those of the engine only if there are no others.
func (s *Situation) named() []Fault {
	if len(s.Faults) == 0 {
		return s.Engine
	}
	return s.Faults
}

// Line says the same of one fault.
func (s *Situation) Line(f *Fault, now time.Time, show func(string) string) []Phrase {
	w := writer{names: s.names(), show: show, now: now}
	w.fault(f)
	if len(f.Affects) > 0 {
		w.text(": " + countAffected(f.Affects) + " affected")
	}
	return w.parts
}

// writer collects the parts of a sentence.
type writer struct {
	names names
	show  func(string) string
	now   time.Time
	parts []Phrase
}

func (w *writer) text(s string) { w.parts = append(w.parts, Phrase{Text: s}) }

func (w *writer) name(f *Failure) {
	w.parts = append(w.parts, Phrase{Text: w.names.of(f, w.show), Of: f})
}

func (w *writer) since(at time.Time) {
	w.text(" since ")
	w.parts = append(w.parts, Phrase{Text: minute(at, w.now), At: at})
}

func (w *writer) fault(f *Fault) {
	w.name(&f.Failure)
	if f.recovering() {
		w.text(" recovering,")
	}
	w.text(" " + f.verb())
	w.since(f.Onset)
	if f.Bad >= 0 {
		w.text(" (" + share(f.Bad) + " of " + f.unit() + " in " + slo.FormatDuration(f.Window) + ")")
	}
}

// several names failures of which none explains the others.
func (w *writer) several(faults []Fault, more int) {
	all := make([]Failure, len(faults))
	first := faults[0].Onset
	for k := range faults {
		all[k] = faults[k].Failure
		if faults[k].Onset.Before(first) {
			first = faults[k].Onset
		}
	}
	w.text(countFailures(all, more) + commonVerb(all, more))
	w.since(first)
	w.text(": ")
	w.list(faults, more)
}

func (w *writer) list(faults []Fault, more int) {
	shown := faults[:min(len(faults), maxNamed)]
	more += len(faults) - len(shown)
	for k := range shown {
		switch {
		case k == 0:
		case k == len(shown)-1 && more == 0:
			w.text(" and ")
		default:
			w.text(", ")
		}
		w.name(&shown[k].Failure)
	}
	if more > 0 {
		w.text(" and " + strconv.Itoa(more) + " more")
	}
}

// acknowledged says what is being done about the incidents of faults.
func acknowledged(faults []Fault, now time.Time) []Phrase {
	var all []*Incident
	waiting := 0
	add := func(inc *Incident) {
		if !slices.Contains(all, inc) {
			if all = append(all, inc); inc.Ack == nil {
				waiting++
			}
		}
	}
	for k := range faults {
		add(faults[k].Incident)
		for i := range faults[k].Affects {
			add(faults[k].Affects[i].Incident)
		}
	}
	first := all[0]
	switch {
	case waiting == len(all):
		return []Phrase{{Text: "Not acknowledged.", Incident: first}}
	case waiting > 0:
		return []Phrase{{Text: strconv.Itoa(len(all)-waiting) + " of " + strconv.Itoa(len(all)) + " incidents acknowledged.",
			Incident: first}}
	}
	at := first.Ack.Time
	return []Phrase{{Text: "Acknowledged ", Incident: first}, {Text: minute(at, now), At: at}, {Text: "."}}
}

// recovering reports whether no more events of the last Window were bad than the objective allows. The alert ends when
// its long window agrees.
func (f *Failure) recovering() bool {
	return f.Spec != nil && f.Bad >= 0 && f.Bad <= f.Spec.Objective.Budget()
}

// verb says how a failure fails.
func (f *Failure) verb() string {
	switch {
	case f.SLO == "" && f.Agreement != "":
		return "below target"
	case f.SLO == "" && f.Alert != "":
		return "firing"
	case f.SLO == "":
		return "open"
	case f.Spec == nil:
		return "failing"
	}
	switch f.Spec.Indicator.Kind {
	case slo.KindLatency, slo.KindApdex:
		return "slow"
	case slo.KindThroughput, slo.KindVolume:
		return "below target"
	case slo.KindCompletion:
		return "late"
	}
	return "failing"
}

// commonVerb is the verb of failures; "" if they are counted as failures.
func commonVerb(list []Failure, more int) string {
	verb := list[0].verb()
	for k := range list {
		switch {
		case more > 0 || list[k].SLO+list[k].Agreement == "":
			return ""
		case list[k].verb() != verb:
			verb = "failing"
		}
	}
	return " " + verb
}

// unit is what the SLO of a failure counts.
func (f *Failure) unit() string {
	switch {
	case f.Spec == nil:
		return "events"
	case f.Spec.Indicator.Kind == slo.KindCompletion:
		return "work"
	case f.Spec.JudgedSlice() > 0:
		return "slices"
	}
	return "events"
}

// countAffected counts failures by the values of the one attribute that they are grouped by, such as 3 products, or
// else as countFailures does.
func countAffected(list []Failure) string {
	label, values := "", map[string]bool{}
	for k := range list {
		f := &list[k]
		if f.SLO == "" && f.Agreement != "" {
			continue // the score of what the others are about
		}
		if f.Spec == nil || len(f.Spec.GroupBy) != 1 || len(f.Group) != 1 || label != "" && label != f.Spec.GroupBy[0] {
			return countFailures(list, 0)
		}
		label = f.Spec.GroupBy[0]
		values[f.Group[0]] = true
	}
	if !isWord(label) {
		return countFailures(list, 0)
	}
	return plural(len(values), label)
}

// countFailures counts the groups of one SLO, or SLOs, or SLAs.
func countFailures(list []Failure, more int) string {
	slos, agreements, others := map[string]bool{}, map[string]bool{}, more
	for k := range list {
		switch f := &list[k]; {
		case f.SLO != "":
			slos[f.SLO] = true
		case f.Agreement != "":
			agreements[f.Service()+"/"+f.Agreement] = true
		default:
			others++
		}
	}
	first := &list[0]
	switch {
	case others > 0:
		return plural(len(list)+more, "failure")
	case len(slos) == 0:
		return plural(len(agreements), "SLA")
	case len(slos) == 1 && len(agreements) == 0 && first.Spec != nil && len(first.Spec.GroupBy) == 1 &&
		isWord(first.Spec.GroupBy[0]):
		return plural(len(list), first.Spec.GroupBy[0])
	}
	text := plural(len(slos), "SLO")
	if len(agreements) > 0 {
		text += " and " + plural(len(agreements), "SLA")
	}
	return text
}

// plural counts things. A label of a spec may be any noun.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	switch {
	case strings.HasSuffix(what, "y") && !strings.ContainsAny(what[max(0, len(what)-2):len(what)-1], "aeiou"):
		what = strings.TrimSuffix(what, "y") + "ies"
	case strings.HasSuffix(what, "s"), strings.HasSuffix(what, "x"), strings.HasSuffix(what, "ch"):
		what += "es"
	default:
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}

// isWord reports whether the name of an attribute is a word that can be counted, such as product and not http_route.
func isWord(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return r < 'a' || r > 'z' }) < 0
}

// names gives failures unambiguous names.
type names struct {
	services bool           // several fail, so a name says which
	known    bool           // several are known, so that of an SLO says which
	plain    map[string]int // how many SLOs or agreements have a plain name
}

func (s *Situation) names() names {
	faults := s.named()
	n := names{plain: map[string]int{}, known: s.services}
	services, seen := map[string]bool{}, map[[2]string]bool{}
	for k := range faults {
		f := &faults[k].Failure
		services[f.Service()] = true
		if x := [2]string{f.plain(), f.SLO + f.Agreement}; !seen[x] {
			seen[x] = true
			n.plain[x[0]]++
		}
	}
	n.services = len(services) > 1
	return n
}

// plain is the shortest name: the values of the group, or else the name of the SLO or agreement.
func (f *Failure) plain() string {
	switch {
	case len(f.Group) > 0 && f.SLO+f.Agreement != "":
		return slo.Group(f.Group).Key()
	case f.SLO != "":
		return slo.ID(f.SLO).Name()
	case f.Agreement != "":
		return f.Agreement
	case f.Alert != "":
		return f.Alert
	}
	return f.Incident.Title
}

func (n names) of(f *Failure, show func(string) string) string {
	name := f.plain()
	about := f.Agreement
	if f.SLO != "" {
		about = slo.ID(f.SLO).Name()
	}
	if len(f.Group) == 0 || about == "" {
		if name = show(name); (n.services || n.known) && about != "" {
			name = show(f.Service()) + "/" + name
		}
		return name
	}
	values := make([]string, len(f.Group))
	words := true
	for i, v := range f.Group {
		if values[i] = show(v); v == "" {
			values[i] = f.without(i, show)
		}
		words = words && strings.ContainsFunc(v, unicode.IsLetter)
	}
	out := strings.Join(values, ", ")
	if n.plain[name] > 1 || !words {
		out = show(about) + " (" + out + ")"
	}
	if n.services {
		out = show(f.Service()) + "/" + out
	}
	return out
}

// without says that events had no value for attribute i of the group.
func (f *Failure) without(i int, show func(string) string) string {
	if f.Spec == nil || i >= len(f.Spec.GroupBy) {
		return "no value"
	}
	return "no " + show(f.Spec.GroupBy[i])
}

// share prints a share in whole percent, without making some of it nothing or all.
func share(x float64) string {
	switch {
	case x > 0 && x < 0.01:
		return "<1%"
	case x < 1 && x > 0.99:
		return ">99%"
	}
	return strconv.FormatFloat(100*x, 'f', 0, 64) + "%"
}

// minute prints a time to the minute, with the date if that is not today's.
func minute(t, now time.Time) string {
	t = t.UTC()
	if now = now.UTC(); t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format("15:04 UTC")
	}
	return t.Format("2006-01-02 15:04 UTC")
}
