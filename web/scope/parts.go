package scope

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/alerts/silence"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/site"
)

// errReadOnly is for what no address of a limited reader asks for.
var errReadOnly = errors.New("a reader of some services changes nothing")

// incidents are those of the services. One that was opened by hand without a service is nobody's.
type incidents struct {
	site.Incidents
	in   Services
	view func() *incident.View
}

func (s Services) incidents(v *incident.View) *incident.View {
	return v.Only(func(inc *incident.Incident) bool {
		if !s.has(inc.Service) {
			return false
		}
		for _, a := range inc.Affected() {
			if a.SLO != "" && !s.hasSLO(slo.ID(a.SLO)) {
				return false
			}
		}
		return true
	})
}

func (i *incidents) View() *incident.View { return i.view() }

func (i *incidents) Do(context.Context, incident.Operation) (*incident.Incident, error) {
	return nil, errReadOnly
}

func (i *incidents) Measure(from, to time.Time) incident.Measures {
	m := i.view().Measure(from, to, nil)
	for _, c := range i.Incidents.Measure(from, to).Comparisons {
		if i.in.has(c.Service) {
			m.Comparisons = append(m.Comparisons, c)
		}
	}
	return m
}

// silences are those that name one of the services. Others keep their alerts quiet, too, and are only not listed.
type silences struct {
	all site.Silences
	in  Services
}

func (s *silences) Silences() []silence.Silence {
	return only(s.all.Silences(), func(x *silence.Silence) bool {
		for service := range s.in {
			if strings.Contains(x.Matchers, silence.Equal("service", service)) {
				return true
			}
		}
		return false
	})
}

func (s *silences) HasReceivers() bool { return s.all.HasReceivers() }

func (s *silences) Silencing() func(a *state.Alert) []string { return s.all.Silencing() }

func (s *silences) AddSilence(silence.Silence) (silence.Silence, error) {
	return silence.Silence{}, errReadOnly
}

func (s *silences) ExpireSilence(string) (silence.Silence, error) {
	return silence.Silence{}, errReadOnly
}

// deadLetters are those with events of the services. Dead letters of log ranges have no service.
type deadLetters struct {
	site.DLQ
	in Services
}

func (d *deadLetters) List(ctx context.Context, q dlq.Query) (dlq.Page, error) {
	if len(d.in) == 1 && q.Service == "" {
		for service := range d.in {
			q.Service = service
		}
	}
	page, err := d.DLQ.List(ctx, q)
	page.Entries = only(page.Entries, func(e *dlq.Entry) bool { return d.in.has(e.Service) })
	return page, err
}

func (d *deadLetters) Get(ctx context.Context, id string) (dlq.Entry, error) {
	e, err := d.DLQ.Get(ctx, id)
	if err == nil && !d.in.has(e.Service) {
		return dlq.Entry{}, dlq.ErrNotFound
	}
	return e, err
}

// Stats has only the number, since a store does not count by service: the names of sinks and the sizes are of all services.
func (d *deadLetters) Stats(ctx context.Context) (dlq.Stats, error) {
	all, err := d.DLQ.Stats(ctx)
	if err != nil {
		return dlq.Stats{}, err
	}
	out := dlq.Stats{Backend: all.Backend}
	for service := range d.in {
		n, err := d.DLQ.DiscardMatching(ctx, dlq.Query{Service: service}, true)
		if err != nil {
			return dlq.Stats{}, err
		}
		out.Count += int64(n)
	}
	return out, nil
}

func (d *deadLetters) Replay(context.Context, dlq.Query, bool) (dlq.ReplayResult, error) {
	return dlq.ReplayResult{}, errReadOnly
}

func (d *deadLetters) ReplayIDs(context.Context, []string, bool) (dlq.ReplayResult, error) {
	return dlq.ReplayResult{}, errReadOnly
}

func (d *deadLetters) Discard(context.Context, []string) (int, error) { return 0, errReadOnly }

func (d *deadLetters) DiscardMatching(context.Context, dlq.Query, bool) (int, error) {
	return 0, errReadOnly
}

func (d *deadLetters) Purge(context.Context, time.Time, bool) (int, error) { return 0, errReadOnly }
