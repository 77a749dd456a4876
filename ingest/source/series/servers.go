package series

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/counter"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/internal/order"
)

// MaxServers bounds the servers of one source.
const MaxServers = 50

// relearn is how often a server is asked for its external labels.
const relearn = 5 * time.Minute

// Server is one of several servers of a source.
type Server struct {
	URL    string // without /api
	Client *http.Client
	// External are the external labels of the server, which are labels of its series; nil: it is asked for them.
	External map[string]string
}

// Names makes the names of what servers observe: slo.PromServerStream and slo.PromGroupStream.
type Names struct {
	Server func(stream, server string) string
	Groups func(stream string, values map[string]string) string
}

// Servers reads from several servers, each on its own, at its own position. What they observed together is that of an
// SLO, and what those observed that have the same value of a label of group_by is that of its groups.
type Servers struct {
	o       Options
	names   Names
	sources []*Source
	class   counter.Key // of notes on external labels

	mu      sync.Mutex // guards the rest, and one reading at a time while it is stored
	known   map[*Source]seriesLabels
	refused map[*Source]bool                 // another one has their labels
	spans   map[string][]counter.Observation // by the stream of a server, rising
}

// NewServers makes Servers. The options have no URL and no Client.
func NewServers(o Options, list []Server, names Names) *Servers {
	all := &Servers{o: o, names: names, class: xxh3.HashString128("servers " + o.Intake.Name()),
		known: map[*Source]seriesLabels{}, refused: map[*Source]bool{}, spans: map[string][]counter.Observation{}}
	for _, server := range list {
		one := o
		one.URL, one.Client = server.URL, server.Client
		s := New(one)
		s.all, s.server = all, server
		all.sources = append(all.sources, s)
	}
	return all
}

// Run reads until ctx ends.
func (all *Servers) Run(ctx context.Context) error {
	var running sync.WaitGroup
	for _, s := range all.sources {
		running.Go(func() { _ = s.Run(ctx) })
	}
	running.Wait()
	return nil
}

// Sources are those of the servers, in their order.
func (all *Servers) Sources() []*Source { return all.sources }

// Progress lists what was read of each server. Its selectors are those that the server is asked.
func (all *Servers) Progress() (out []Progress) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, s := range all.sources {
		for _, p := range s.Progress() {
			p.Server = s.server.URL
			if p.Form == Counters {
				p.Total, p.Part = all.known[s].asked(p.Total), all.known[s].asked(p.Part)
			}
			out = append(out, p)
		}
	}
	return out
}

// asked is what a server with these external labels is asked instead of a selector.
func (l seriesLabels) asked(selector string) string {
	s, _ := newSelector(selector, l) // the spec is checked
	return s.ask
}

// named says which server a failure is of.
func (s *Source) named(name string) string {
	switch {
	case s.all == nil:
		return name
	case name == "":
		return s.server.URL
	}
	return s.server.URL + ": " + name
}

// learn finds the external labels of the server. Without them nothing is read from it.
func (s *Source) learn(ctx context.Context) (ok bool) {
	now := s.o.Intake.Now()
	if s.all == nil || s.learned && (s.server.External != nil || now.Sub(s.asked) < relearn) {
		return true
	}
	external, err := s.server.External, error(nil)
	if external == nil {
		c := client{url: s.client.url, http: s.client.http}
		if external, err = c.external(ctx); err != nil {
			if ctx.Err() != nil {
				return false
			}
			if external = s.all.inLog(s.server.URL); external == nil && !s.learned {
				s.o.Intake.Fails(source.TroubleTopic, s.named("external labels"), "the external labels of a server are unknown",
					"set external_labels for "+s.server.URL+", which does not report them: "+err.Error())
				return false
			}
		}
	}
	s.asked = now
	if s.learned && err != nil {
		return true
	}
	labels := labelsFrom(external)
	if s.learned && slices.Equal(labels, s.external) {
		return true
	}
	if other := s.all.claim(s, labels); other != "" {
		s.learned = false
		s.o.Intake.Fails(source.TroubleTopic, s.named("external labels"), "two servers have the same external labels",
			fmt.Sprintf("%s and %s both have the external labels %s, so that events would count twice: give each server its "+
				"own with external_labels, or let replicas write to a source with receive and ha", s.server.URL, other, labels))
		return false
	}
	s.o.Intake.Works(source.TroubleTopic, s.named("external labels"))
	if s.learned {
		s.o.Logger.Warn("the external labels of a server changed, so its series are others", "source", s.o.Intake.Name(),
			"server", s.server.URL, "before", s.external.String(), "now", labels.String())
	}
	s.learned, s.external, s.inLog = true, labels, err != nil
	for stream := range s.plans {
		delete(s.plans, stream)
		s.forget(stream)
	}
	return true
}

// replicaLabels tell servers apart that scrape the same.
var replicaLabels = []string{"__replica__", "prometheus_replica", "replica"}

// SameServers reports whether servers with these external labels may scrape the same.
func SameServers(a, b map[string]string) bool { return labelsFrom(a).same(labelsFrom(b)) }

func (l seriesLabels) same(o seriesLabels) bool {
	without := func(l seriesLabels) seriesLabels {
		return slices.DeleteFunc(slices.Clone(l), func(x label) bool { return slices.Contains(replicaLabels, x.name) })
	}
	return slices.Equal(without(l), without(o))
}

// claim takes labels for a server, unless another one has them, whose URL it returns.
func (all *Servers) claim(s *Source, labels seriesLabels) (other string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.known, s)
	all.refused[s] = true
	for _, o := range all.sources {
		if known, ok := all.known[o]; ok && known.same(labels) {
			return o.server.URL
		}
	}
	all.known[s] = labels
	delete(all.refused, s)
	return ""
}

// inLog are the external labels that the log has of a server; nil: none.
func (all *Servers) inLog(url string) (external map[string]string) {
	all.o.Counters.Notes(all.class, func(key counter.Key, text string) {
		if key != xxh3.HashString128(url) {
			return
		}
		external = map[string]string{}
		for text != "" {
			var pair [2]string
			for i := range pair {
				quoted, err := strconv.QuotedPrefix(text)
				if err != nil {
					external = nil
					return
				}
				pair[i], _ = strconv.Unquote(quoted)
				text = text[len(quoted):]
			}
			external[pair[0]] = pair[1]
		}
	})
	return external
}

// units are those that the server has a part of, under its streams.
func (s *Source) units() []Unit {
	units := s.o.Units()
	if s.all == nil {
		return units
	}
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	names := s.all.labelNames()
	out := make([]Unit, 0, len(units))
	for _, u := range units {
		if s.external.excluded(&u) {
			continue
		}
		u.base, u.Stream = u.Stream, s.all.names.Server(u.Stream, s.external.key())
		if values := s.external.groups(&u, names); values != nil {
			u.groups = s.all.names.Groups(u.base, values)
		}
		out = append(out, u)
	}
	return out
}

// labelNames are the external labels that some server has.
func (all *Servers) labelNames() map[string]bool {
	out := map[string]bool{}
	for _, labels := range all.known {
		for _, l := range labels {
			out[l.name] = true
		}
	}
	return out
}

// groups are the values of the groups that have their events from servers with these labels alone.
func (l seriesLabels) groups(u *Unit, names map[string]bool) (values map[string]string) {
	if len(u.SLOs) != 1 {
		return nil
	}
	for i, name := range u.SLOs[0].GroupBy {
		if names[name] {
			if values == nil {
				values = map[string]string{}
			}
			values[u.SLOs[0].Attributes[i]] = l.get(name)
		}
	}
	return values
}

// excluded reports whether a unit excludes the external labels.
func (l seriesLabels) excluded(u *Unit) bool {
	if u.Form != Counters {
		_, elsewhere := l.query(cmp.Or(u.Total, u.Part))
		return elsewhere
	}
	s, err := newSelector(u.Total, l)
	return err == nil && s.elsewhere
}

// seen lists what all servers observed of an SLO now that one of them did, and what those did that have the same
// groups.
func (all *Servers) seen(ctx context.Context, p *plan, o counter.Observation) (out []counter.Observation, err error) {
	names := all.labelNames()
	whole, group := []counter.Observation{o}, []counter.Observation{o}
	for _, s := range all.sources {
		labels, known := all.known[s]
		switch {
		case all.refused[s]:
			continue
		case !known:
			whole = nil
			continue
		case labels.excluded(&p.Unit):
			continue
		}
		stream := all.names.Server(p.base, labels.key())
		if stream == p.Stream {
			continue
		}
		spans, err := all.spansOf(ctx, stream)
		if err != nil {
			return nil, err
		}
		whole = overlap(whole, spans)
		if p.groups != "" && all.names.Groups(p.base, labels.groups(&p.Unit, names)) == p.groups {
			group = overlap(group, spans)
		}
	}
	for _, x := range whole {
		out = append(out, counter.Observation{Source: p.base, From: x.From, To: x.To})
	}
	if p.groups == "" {
		return out, nil
	}
	for _, x := range group {
		out = append(out, counter.Observation{Source: p.groups, From: x.From, To: x.To})
	}
	return out, nil
}

// beside adds to what is stored what follows for all servers.
func (s *Source) beside(ctx context.Context, p *plan, observed []counter.Observation) error {
	if !s.inLog {
		s.batch.Note(s.all.class, xxh3.HashString128(s.server.URL), s.external.quoted())
	}
	for _, o := range observed {
		more, err := s.all.seen(ctx, p, o)
		if err != nil {
			return err
		}
		for _, x := range more {
			s.batch.Observed(x)
		}
	}
	return nil
}

// stored says that the last batch is in the log.
func (s *Source) stored(observed []counter.Observation) {
	if s.all == nil {
		return
	}
	s.inLog = true
	for _, o := range observed {
		s.all.add(o)
	}
}

// spansOf is what a server observed.
func (all *Servers) spansOf(ctx context.Context, stream string) ([]counter.Observation, error) {
	spans, had := all.spans[stream]
	if had {
		return spans, nil
	}
	spans, err := all.o.Spans(ctx, stream)
	if err == nil {
		all.spans[stream] = spans
	}
	return spans, err
}

// add notes what a server observed, which is in the log.
func (all *Servers) add(o counter.Observation) {
	spans, had := all.spans[o.Source]
	if !had {
		return // it is loaded when it is needed
	}
	spans = append(spans, o)
	order.By(spans, func(a, b *counter.Observation) int { return cmp.Compare(a.From, b.From) })
	out := spans[:1]
	for _, x := range spans[1:] {
		if last := &out[len(out)-1]; x.From <= last.To {
			last.To = max(last.To, x.To)
		} else {
			out = append(out, x)
		}
	}
	all.spans[o.Source] = out[max(0, len(out)-maxSpans):]
}

// maxSpans bounds the times that are remembered of a server and an SLO.
const maxSpans = 1000

// overlap is what both lists have.
func overlap(a, b []counter.Observation) (out []counter.Observation) {
	for _, x := range a {
		for _, y := range b {
			if from, to := max(x.From, y.From), min(x.To, y.To); from < to {
				out = append(out, counter.Observation{From: from, To: to})
			}
		}
	}
	return out
}

func labelsFrom(of map[string]string) seriesLabels {
	out := make(seriesLabels, 0, len(of))
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if of[name] != "" {
			out = append(out, label{name, of[name]})
		}
	}
	return out
}

// with adds external labels to those of a series, which come first.
func (l seriesLabels) with(external seriesLabels) seriesLabels {
	n := len(l)
	for _, x := range external {
		if l[:n].get(x.name) == "" {
			l = append(l, x)
		}
	}
	if len(l) > n {
		order.By(l, func(a, b *label) int { return strings.Compare(a.name, b.name) })
	}
	return l
}

// quoted is the text of a note.
func (l seriesLabels) quoted() string {
	var b strings.Builder
	for _, x := range l {
		b.WriteString(strconv.Quote(x.name) + strconv.Quote(x.value))
	}
	return b.String()
}

// key tells servers apart.
func (l seriesLabels) key() string { return strconv.FormatUint(xxh3.HashString(l.quoted()), 36) }

// String is as in a selector.
func (l seriesLabels) String() string {
	text := make([]string, len(l))
	for i, x := range l {
		text[i] = x.name + "=" + strconv.Quote(x.value)
	}
	return "{" + strings.Join(text, ", ") + "}"
}
