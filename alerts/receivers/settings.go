package receivers

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/prometheus/alertmanager/config"
	amconfig "github.com/prometheus/alertmanager/config/common"
	"github.com/prometheus/alertmanager/dispatch"
	"github.com/prometheus/alertmanager/pkg/labels"
	"github.com/prometheus/alertmanager/timeinterval"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/alertmanager"
	"github.com/sloengine/sloengine/alerts/notify"
	"github.com/sloengine/sloengine/reliability/breaker"
)

// Settings may change while notifications are sent.
type Settings struct {
	// Text is the sections of engine.yaml in Alertmanager's format, see Parts; "" is no receivers.
	Text string
	// Templates are files with templates of messages, or patterns of their names.
	Templates []string
	// Preview shows the messages of all receivers, see Dispatcher.Previews, beside sending them.
	Preview bool
	// Routing says which receiver is notified, when, and what keeps an alert quiet.
	Routing alertmanager.Routing
	// Escalation says who else is notified of an unacknowledged alert, in the order of After.
	Escalation map[alertmanager.Class][]Step

	ExternalLabels map[string]string // added to every alert that lacks them
	Timeout        time.Duration     // of one message. Default 10s.
	Watchdog       alerts.Live       // always fires while the engine evaluates alerts; without a name: none
	ExternalURL    string            // of the status page, for links without anything better
}

// Step is one step of an escalation.
type Step struct {
	After    time.Duration `yaml:"after" min:"1s" is:"required"` // since the alert began to fire
	Receiver string        `yaml:"receiver" is:"required"`
}

// Incident is what is known of the incident that an alert belongs to.
type Incident struct {
	ID           string
	URL, AckURL  string // links; "" is none
	Acknowledged bool
	Onset        time.Time // of the alert's failure; zero if it is not known
	// Headline says what fails, since when and whom it hits. show prepares names for the place where it is shown. It may
	// be nil, and it returns "" if nothing fails any more.
	Headline func(now time.Time, show func(string) string) string
}

// Options of a Dispatcher. File is required.
type Options struct {
	Settings Settings
	File     string // what was sent, and the silences
	// Incident finds the incident of an alert by its fingerprint. It may be nil: then nothing is ever acknowledged.
	Incident func(fingerprint string) (Incident, bool)
	// Incidents lists those that are not resolved or were resolved lately, for receivers of events. ok is false while they
	// are not known. It may be nil.
	Incidents func() (all []IncidentState, ok bool)

	Metrics  *notify.Metrics  // default: unregistered
	Breakers *breaker.Metrics // default: unregistered
	Logger   *slog.Logger     // default: none
	Now      func() time.Time // default: time.Now
}

func (o *Options) applyDefaults() {
	o.Metrics = cmp.Or(o.Metrics, notify.NewMetrics(metrics.NewSet()))
	o.Breakers = cmp.Or(o.Breakers, breaker.NewMetrics(metrics.NewSet()))
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Incident == nil {
		o.Incident = func(string) (Incident, bool) { return Incident{}, false }
	}
}

// plan is what settings come to. It does not change.
type plan struct {
	settings  Settings
	root      *dispatch.Route // nil without receivers
	rules     []inhibitRule
	intervals map[string][]timeinterval.TimeInterval // by name
	targets   map[string][]*target                   // by receiver
}

// inhibitRule keeps targets quiet while a source fires that is equal in some labels.
type inhibitRule struct {
	source, target labels.Matchers
	equal          []string
	cause          bool // the source is a declared cause of the target
}

// newPlan makes everything that can fail. Previews are added to shown, if the settings want them.
func newPlan(s Settings, shown *previews, now func() time.Time) (*plan, error) {
	if s.Timeout == 0 {
		s.Timeout = 10 * time.Second
	}
	p := &plan{settings: s}
	if s.Text == "" {
		return p, nil
	}
	own, err := config.Load(s.Text)
	if err != nil {
		return nil, fmt.Errorf("receivers: %w", err)
	}
	routing, err := config.Load(string(s.Routing.Document))
	if err != nil {
		return nil, fmt.Errorf("routes: %w", err)
	}
	t, err := newTemplates(s.Templates, s.Routing.Title, s.ExternalURL)
	if err != nil {
		return nil, err
	}
	if p.targets, err = newTargets(own, t); err != nil {
		return nil, err
	}
	if s.Preview {
		for i := range own.Receivers {
			name := own.Receivers[i].Name
			p.targets[name] = append(p.targets[name], newPreview(name, shown, t, now))
		}
	}
	for class, steps := range s.Escalation {
		for _, step := range steps {
			if p.targets[step.Receiver] == nil {
				return nil, fmt.Errorf("escalation of %s: unknown receiver %q", class, step.Receiver)
			}
		}
	}
	p.root = dispatch.NewRoute(routing.Route, nil)
	for i, r := range routing.InhibitRules {
		p.rules = append(p.rules, newInhibitRule(r))
		p.rules[i].cause = slices.Contains(s.Routing.Causes, i)
	}
	p.intervals = map[string][]timeinterval.TimeInterval{}
	for _, i := range routing.TimeIntervals {
		p.intervals[i.Name] = i.TimeIntervals
	}
	return p, nil
}

// mutes reports whether one of the named intervals holds. The library gets what a clock of the interval's zone shows,
// as if it were UTC: it takes the month in which the clocks go forward for a day too short.
func (p *plan) mutes(names []string, now time.Time) bool {
	for _, name := range names {
		for _, i := range p.intervals[name] {
			at := now.UTC()
			if i.Location != nil {
				_, offset := at.In(i.Location.Location).Zone()
				at, i.Location = at.Add(time.Duration(offset)*time.Second), nil
			}
			if i.ContainsTime(at) {
				return true
			}
		}
	}
	return false
}

// newInhibitRule reads a rule in the form that package alertmanager writes.
func newInhibitRule(r amconfig.InhibitRule) inhibitRule {
	out := inhibitRule{source: labels.Matchers(r.SourceMatchers), target: labels.Matchers(r.TargetMatchers)}
	out.equal = append(out.equal, r.Equal...)
	return out
}

// all lists the targets by name.
func (p *plan) all() []*target {
	var out []*target
	for _, receiver := range slices.Sorted(maps.Keys(p.targets)) {
		out = append(out, p.targets[receiver]...)
	}
	return out
}

// ErrUnknownReceiver is the error of SendTest for a receiver that is not configured.
var ErrUnknownReceiver = errors.New("unknown receiver")
