package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/alerts/receivers"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/reliability/health"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/fleet"
	"github.com/sloengine/sloengine/slo"
	incidentapi "github.com/sloengine/sloengine/web/incidents"
	"github.com/sloengine/sloengine/web/site"
)

// incidentLookup finds the incident of an alert, for notifications.
type incidentLookup struct {
	book   *incident.Book // changed by the engine's reader only; its view is read here
	report func() *sla.Report
	links  *ackLinks
	base   string // web.external_url, with no slash at its end; "" if it is not known

	sends     func(id slo.ID, ended time.Time) bool // whether the engine tells of an alert
	recovered <-chan struct{}
	mu        sync.Mutex
	states    map[*incident.Incident]receivers.IncidentState // incidents never change, a changed one is another
}

func (b *builder) incidentLookup(s *storage, report func() *sla.Report) *incidentLookup {
	return &incidentLookup{
		book: s.book, report: report, links: s.links, base: strings.TrimRight(b.config.Web.ExternalURL, "/"),
		recovered: s.engine.Ready(),
	}
}

// Of is the incident that an alert opened or joined. ok is false if there is none (yet). Without web.external_url it
// has no links.
func (l *incidentLookup) Of(fingerprint string) (of receivers.Incident, ok bool) {
	inc := l.book.View().Of(fingerprint)
	if inc == nil {
		return of, false
	}
	of = receivers.Incident{ID: inc.ID, Acknowledged: inc.Ack != nil || inc.IsResolved() && !inc.Resolved.Automated,
		Headline: func(now time.Time, show func(string) string) string {
			return incident.Text(inc.Failing(l.report()).Lead(now, show))
		}}
	of.Onset = inc.OnsetOf(fingerprint)
	if l.base != "" {
		of.URL = l.base + site.IncidentPath + "?id=" + inc.ID
		of.AckURL = l.base + l.links.path(inc.ID)
	}
	return of, true
}

// incidents keeps the book of incidents in step with the live alerts, and writes what people do to it.
type incidents struct {
	*incidentLookup
	engine *engine.Engine
	alerts func() *state.View
	costs  *incidentCosts

	baselines func() []*slo.Baseline // of the spec that runs
	log       *slog.Logger

	failures *metrics.Counter
	update   func(*state.View) // the incidents are as of this view, or could not be written
	stepped  <-chan struct{}   // the alerts advanced
	mu       sync.Mutex        // held while a batch is made and written, so that what was checked still holds
}

func (b *builder) incidents(lookup *incidentLookup, p *parts) *incidents {
	lookup.sends = func(id slo.ID, ended time.Time) bool { return p.alerts.machine.View().Sends(id, ended) }
	return &incidents{
		incidentLookup: lookup, engine: p.storage.engine, alerts: p.alerts.machine.View, log: b.Log,
		costs:     &incidentCosts{counts: p.evaluation.counts.Read, report: p.evaluation.Latest},
		baselines: func() []*slo.Baseline { return b.specs.InForce().Spec.Baselines },
		failures:  metric.IncidentFailures.Counter(b.set), stepped: p.alerts.stepped,
		update: func(v *state.View) { p.alerts.receivers.Update(v.ToSend()) },
	}
}

// VerifyAck checks what a signed link says.
func (n *incidents) VerifyAck(id, until, signature string) error {
	return n.links.verify(id, until, signature)
}

// Measure measures the incidents detected from from to to against the baselines of the spec that runs now.
func (n *incidents) Measure(from, to time.Time) incident.Measures {
	return n.book.View().Measure(from, to, n.baselines())
}

// Between lists the incidents that were going on at some time from from to to, in the order of their onset.
func (n *incidents) Between(from, to time.Time) []*incident.Incident {
	return n.book.View().Between(from, to)
}

// run reconciles after every tick until ctx ends. What could not be written is derived again at the next tick.
func (n *incidents) run(ctx context.Context) error {
	writing := health.Log{
		Logger: n.log, Broken: "incidents are not up to date, retrying with every evaluation",
		Works: "incidents are up to date again",
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-n.stepped:
		}
		view := n.alerts()
		err := n.reconcile(ctx, view)
		n.update(view)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			n.failures.Inc()
		}
		writing.Note(err)
	}
}

// maxOperations bounds a record. A batch of more is written in several, of which only the last moves the cursor.
const maxOperations = 500

func (n *incidents) reconcile(ctx context.Context, view *state.View) error {
	if view.Time.IsZero() {
		return nil
	}
	now := liveIncidentAlerts(view)
	n.mu.Lock()
	defer n.mu.Unlock()
	batch, ok := n.book.View().Reconcile(now, n.describer(ctx, view))
	if ok {
		if err := n.write(ctx, batch); err != nil {
			return err
		}
	}
	return n.measure(ctx, view.Time)
}

// write writes a batch and returns when the book has it.
func (n *incidents) write(ctx context.Context, batch incident.Batch) error {
	before := n.book.View()
	for len(batch.Operations) > maxOperations {
		part := incident.Batch{Operations: batch.Operations[:maxOperations]}
		if err := n.writeOne(ctx, &part); err != nil {
			return err
		}
		batch.Operations = batch.Operations[maxOperations:]
	}
	if err := n.writeOne(ctx, &batch); err != nil {
		return err
	}
	n.logChanges(before, n.book.View())
	return nil
}

func (n *incidents) writeOne(ctx context.Context, batch *incident.Batch) error {
	payload, err := batch.Encode()
	if err != nil {
		return err
	}
	return n.engine.WriteIncident(ctx, payload)
}

// logChanges logs which incidents opened and ended.
func (n *incidents) logChanges(before, after *incident.View) {
	for inc := range after.All() {
		old := before.Get(inc.ID)
		switch {
		case old == inc:
		case old == nil:
			n.log.Warn("incident opened", "incident", inc.ID, "severity", inc.Severity, "service", inc.Service, "title",
				inc.Title, "onset", inc.Onset, "detection", inc.Detection())
		case old.State != inc.State:
			n.log.Info("incident", "incident", inc.ID, "from", old.State, "to", inc.State, "service", inc.Service)
		}
	}
	if refused := after.Refused(); refused > before.Refused() {
		n.log.Error("alerts opened no incidents because too many are open (resolve some)", "alerts", refused-before.Refused(),
			"open", incident.MaxOpen)
	}
}

// liveIncidentAlerts lists the alerts that incidents are about.
func liveIncidentAlerts(view *state.View) *incident.Alerts {
	now := &incident.Alerts{Time: view.Time}
	for i := range view.Active {
		if a := &view.Active[i]; a.State == state.Firing && concernsIncidents(a) {
			if a.FiredAt.After(now.Time) { // alerts on the engine step by themselves
				now.Time = a.FiredAt
			}
			now.Firing = append(now.Firing, incidentAlert(a))
		}
	}
	for i := range view.Resolved {
		if a := &view.Resolved[i]; concernsIncidents(a) {
			now.Resolved = append(now.Resolved, incidentAlert(a))
		}
	}
	return now
}

// concernsIncidents leaves out notices and the alert that always fires.
func concernsIncidents(a *state.Alert) bool {
	return a.Severity != alerts.SeverityInfo && a.Severity != alerts.SeverityNone
}

func incidentAlert(a *state.Alert) incident.Firing {
	f := incident.Firing{
		Alert: incident.Alert{
			Fingerprint: a.Fingerprint, Name: a.Name, Service: a.Service, SLO: string(a.SLO),
			Agreement: a.Agreement, Group: a.Group,
			Severity: incident.Warning, Proactive: alerts.Proactive(a.Name), Fired: a.FiredAt, Resolved: a.ResolvedAt,
		},
		Onset: a.FirstBad,
	}
	if a.Urgent {
		f.Severity = incident.Critical
	}
	if a.Engine {
		f.Service = incident.EngineService
	}
	return f
}

// describer returns what fills in what only a new alert needs.
func (n *incidents) describer(ctx context.Context, view *state.View) func(*incident.Firing) {
	type firing struct {
		fingerprint string
		at          int64
	}
	var known map[firing]*state.Alert // made for the first new alert: mostly there is none
	return func(f *incident.Firing) {
		if known == nil {
			known = make(map[firing]*state.Alert, len(view.Active)+len(view.Resolved))
			for _, list := range [][]state.Alert{view.Resolved, view.Active} {
				for i := range list {
					known[firing{list[i].Fingerprint, list[i].FiredAt.UnixNano()}] = &list[i]
				}
			}
		}
		if a := known[firing{f.Fingerprint, f.Fired.UnixNano()}]; a != nil {
			n.describe(ctx, a, f)
		}
	}
}

// describe fills in texts, labels, the team, and the onset by the counts.
func (n *incidents) describe(ctx context.Context, a *state.Alert, f *incident.Firing) {
	f.Labels = make(map[string]string, len(a.Labels))
	for _, l := range a.Labels {
		f.Labels[l.Name] = l.Value
	}
	f.Team, f.Title = a.Owner("team"), a.Name
	for _, note := range a.Annotations() {
		switch note.Name {
		case "summary":
			f.Title = note.Value
		case "runbook_url":
			f.Runbook = note.Value
		}
	}
	if at, ok := n.costs.onset(ctx, a); ok {
		f.Onset, f.ByCounts = at, true
	}
}

// View is the book as it is.
func (n *incidents) View() *incident.View { return n.book.View() }

// onsets tells a view when incidents began in a span. known is false if those of that time are not retained.
func (n *incidents) onsets(sp slo.Span) (all []fleet.Onset, known bool) {
	for inc := range n.book.View().All() {
		if inc.Onset.Before(sp.From) || !inc.Onset.Before(sp.To) || len(all) == fleet.MaxOnsets {
			continue
		}
		o := fleet.Onset{Incident: inc.ID, At: inc.Onset}
		for _, a := range inc.Affected() {
			id := slo.ID(a.SLO)
			if id == "" {
				id = slo.NewID(inc.Service, a.Agreement)
			}
			o.Affected = append(o.Affected, fleet.Affected{ID: id, Group: a.Group})
		}
		all = append(all, o)
	}
	return all, !sp.From.Before(time.Now().Add(-incident.Retention))
}

// Do applies what a person asks for, and returns the incident as it is then; nil if it was about all incidents.
func (n *incidents) Do(ctx context.Context, o incident.Operation) (*incident.Incident, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	view := n.book.View()
	switch {
	case o.Kind == incident.OpenByHand:
		if inc := view.ByKey(o.Key); inc != nil {
			return inc, nil
		}
		if len(view.Open()) >= incident.MaxOpen {
			return nil, fmt.Errorf("%w: %d incidents are open", incident.ErrFull, incident.MaxOpen)
		}
	case o.ID != "":
		inc := view.Get(o.ID)
		if inc == nil {
			return nil, incident.ErrNotFound
		}
		if err := o.Allowed(inc); err != nil {
			return inc, err
		}
		if o.Kind == incident.AddNote || o.Kind == incident.AddUpdate {
			if err := view.Room(); err != nil {
				return inc, err
			}
		}
	}
	if err := n.write(ctx, incident.Batch{Operations: []incident.Operation{o}}); err != nil {
		return nil, err
	}
	if o.Kind == incident.OpenByHand {
		if inc := n.book.View().ByKey(o.Key); inc != nil {
			return inc, nil
		}
		return nil, errors.New("the incident was not opened")
	}
	return n.book.View().Get(o.ID), nil
}

// measure writes what the incidents that were resolved cost of the error budgets.
func (n *incidents) measure(ctx context.Context, now time.Time) error {
	var batch incident.Batch
	var open []*incident.Incident
	for inc := range n.book.View().All() {
		switch {
		case !inc.IsResolved():
			open = append(open, inc)
		case inc.SpentDone || now.Sub(inc.Resolved.Time) < costAfter:
		default:
			spent, err := n.costs.of(ctx, inc, now)
			if err != nil {
				return err
			}
			batch.Operations = append(batch.Operations, incident.Operation{Kind: incident.Measured, ID: inc.ID, Spent: spent})
		}
	}
	if err := n.costs.refresh(ctx, open, now); err != nil {
		return err
	}
	if len(batch.Operations) == 0 {
		return nil
	}
	return n.write(ctx, batch)
}

// Spent is what an incident cost so far of the error budgets.
func (n *incidents) Spent(inc *incident.Incident) []incident.Spent {
	if inc.SpentDone {
		return inc.Spent
	}
	return slices.Clone(n.costs.latest(inc.ID))
}

// incidentTail is how long receivers of events hear of changes of a resolved incident, such as its costs.
const incidentTail = 7 * 24 * time.Hour

// States lists the incidents that may change. ok is false while the engine recovers.
func (l *incidentLookup) States() (out []receivers.IncidentState, ok bool) {
	select {
	case <-l.recovered:
	default:
		return nil, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	next := map[*incident.Incident]receivers.IncidentState{}
	for inc := range l.book.View().All() {
		if inc.IsResolved() && now.Sub(inc.Resolved.Time) > incidentTail || !l.tells(inc) {
			continue
		}
		x, ok := l.states[inc]
		if !ok {
			x = incidentState(inc)
		}
		next[inc] = x
		out = append(out, x)
	}
	l.states = next
	slices.Reverse(out) // the one that was opened first is told of first
	return out, true
}

// tells reports whether receivers hear of an incident: not of one of which rules in Prometheus sent all alerts.
func (l *incidentLookup) tells(inc *incident.Incident) bool {
	return len(inc.Alerts) == 0 || slices.ContainsFunc(inc.Alerts, func(a incident.Alert) bool {
		return l.sends(slo.ID(a.SLO), a.Resolved)
	})
}

func incidentState(inc *incident.Incident) receivers.IncidentState {
	document := func() json.RawMessage {
		x := incidentapi.NewItem(inc, inc.Spent, changedAt(inc))
		x.Alerts, x.Notes = nil, nil // as in the list of the API: notes are for the team
		data, err := json.Marshal(x)
		if err != nil {
			return json.RawMessage("null") // texts, times and finite numbers can always be encoded
		}
		return data
	}
	sum := sha256.Sum256(document())
	x := receivers.IncidentState{
		ID: inc.ID, Version: hex.EncodeToString(sum[:8]), Service: inc.Service, Severity: alerts.SeverityTicket,
		Resolved: inc.IsResolved(), At: changedAt(inc), Document: document,
	}
	if inc.Severity == incident.Critical {
		x.Severity = alerts.SeverityPage
	}
	return x
}

// changedAt is the latest time that an incident knows.
func changedAt(inc *incident.Incident) time.Time {
	all := []time.Time{inc.Opened, inc.Detected, inc.Raised}
	if inc.Ack != nil {
		all = append(all, inc.Ack.Time)
	}
	if inc.Resolved != nil {
		all = append(all, inc.Resolved.Time)
	}
	for i := range inc.Alerts {
		all = append(all, inc.Alerts[i].Fired, inc.Alerts[i].Resolved)
	}
	for i := range inc.Updates {
		all = append(all, inc.Updates[i].Time)
	}
	for i := range inc.Edits {
		all = append(all, inc.Edits[i].Time)
	}
	return slices.MaxFunc(all, time.Time.Compare)
}
