package oracle

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/alertmanager/pkg/labels"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/alertmanager"
	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/cmd/sloengine/demo"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/internal/testkit/spectest"
	"github.com/sloengine/sloengine/slo/spec"
	examples "github.com/sloengine/sloengine/testdata/specs"
)

// pagerCalls is who is called for pages as the generated routes say, in the time of a test.
type pagerCalls struct {
	wait, interval time.Duration
	groupBy        []string
	inhibit        []inhibition
	groups         map[string]*pagerGroup
	calls          []string
}

type inhibition struct {
	source, target labels.Matchers
	equal          []string
}

type pagerGroup struct {
	due  time.Time
	told bool
}

func newPagerCalls(t *testing.T, sp *spec.Spec) *pagerCalls {
	r, err := alertmanager.NewRouting(spectest.Rules(sp), alertmanager.Options{Receivers: alertmanager.Receivers{
		Receivers: []alertmanager.Receiver{{Name: "pager", Discard: true}}, Default: "pager",
	}})
	require.NoError(t, err)
	var doc struct {
		Route struct {
			Routes []struct {
				GroupBy       []string       `yaml:"group_by"`
				GroupWait     model.Duration `yaml:"group_wait"`
				GroupInterval model.Duration `yaml:"group_interval"`
			}
		}
		Rules []struct {
			Source []string `yaml:"source_matchers"`
			Target []string `yaml:"target_matchers"`
			Equal  []string
		} `yaml:"inhibit_rules"`
	}
	require.NoError(t, yaml.Unmarshal(r.Document, &doc))
	pages := doc.Route.Routes[1] // the first is that of Watchdog
	p := &pagerCalls{wait: time.Duration(pages.GroupWait), interval: time.Duration(pages.GroupInterval),
		groupBy: pages.GroupBy, groups: map[string]*pagerGroup{}}
	matchers := func(list []string) labels.Matchers {
		m, err := labels.ParseMatchers("{" + strings.Join(list, ",") + "}")
		require.NoError(t, err)
		return m
	}
	for _, x := range doc.Rules {
		p.inhibit = append(p.inhibit, inhibition{matchers(x.Source), matchers(x.Target), x.Equal})
	}
	return p
}

func labelSet(a *state.Alert) model.LabelSet {
	out := model.LabelSet{}
	for _, l := range a.Labels {
		out[model.LabelName(l.Name)] = model.LabelValue(l.Value)
	}
	return out
}

// quiet reports whether one of the alerts keeps this one quiet.
func (p *pagerCalls) quiet(target model.LabelSet, all []model.LabelSet) bool {
	return slices.ContainsFunc(p.inhibit, func(r inhibition) bool {
		return r.target.Matches(target) && slices.ContainsFunc(all, func(source model.LabelSet) bool {
			return r.source.Matches(source) && !r.source.Matches(target) &&
				!slices.ContainsFunc(r.equal, func(name string) bool {
					return source[model.LabelName(name)] != target[model.LabelName(name)]
				})
		})
	})
}

// look takes the alerts of a time.
func (p *pagerCalls) look(v *state.View, now time.Time) {
	var firing []model.LabelSet
	for i := range v.Active {
		if v.Active[i].State == state.Firing {
			firing = append(firing, labelSet(&v.Active[i]))
		}
	}
	alive := map[string][]model.LabelSet{}
	for _, l := range firing {
		if l["severity"] == alerts.SeverityPage {
			key := string(l["slo_id"])
			for _, name := range p.groupBy {
				if v := l[model.LabelName(name)]; v != "" && name != "slo_id" && name != "service" {
					key += " " + string(v)
				}
			}
			alive[key] = append(alive[key], l)
		}
	}
	for key := range p.groups {
		if alive[key] == nil {
			delete(p.groups, key)
		}
	}
	for key, members := range alive {
		g := p.groups[key]
		if g == nil {
			g = &pagerGroup{due: now.Add(p.wait)}
			p.groups[key] = g
		}
		if now.Before(g.due) {
			continue
		}
		g.due = now.Add(p.interval)
		if !g.told && slices.ContainsFunc(members, func(l model.LabelSet) bool { return !p.quiet(l, firing) }) {
			g.told = true
			p.calls = append(p.calls, key)
		}
	}
}

// incidentsOf brings a book up to date with the alerts, as the engine does.
func incidentsOf(t *testing.T, b *incident.Book, v *state.View) {
	now := incident.Alerts{Time: v.Time}
	for i := range v.Active {
		a := &v.Active[i]
		if a.State != state.Firing || a.Severity == alerts.SeverityInfo {
			continue
		}
		f := incident.Firing{Alert: incident.Alert{Fingerprint: a.Fingerprint, Name: a.Name, Service: a.Service,
			SLO: string(a.SLO), Group: a.Group, Severity: incident.Warning, Fired: a.FiredAt}}
		if a.Urgent {
			f.Severity = incident.Critical
		}
		now.Firing = append(now.Firing, f)
	}
	batch, ok := b.View().Reconcile(&now, func(f *incident.Firing) { f.Title = f.Name })
	if !ok {
		return
	}
	payload, err := batch.Encode()
	require.NoError(t, err)
	require.NoError(t, b.Apply(v.Time, payload))
}

func demoSpec(t *testing.T) *spec.Spec {
	sp, problems := spec.Load([]spec.File{{Name: "insurance.yaml", Data: examples.Insurance},
		{Name: "insurance-sales.yaml", Data: examples.InsuranceSales}})
	require.NoError(t, problems.Err())
	return sp
}

// TestOneFaultOnePage plays the demo: for hours all is well, then mdm fails for six minutes. Somebody is called once,
// for mdm, and there is one incident with everything that it affects.
func TestOneFaultOnePage(t *testing.T) {
	t.Parallel()
	const lead, length = 9 * time.Hour, 10*time.Hour + 15*time.Minute
	sp := demoSpec(t)
	begin := oracleStart.Add(lead)
	m := demo.New(begin, 1)
	var events []*oracleEvent
	add := func(list ...event.Event) {
		for i := range list {
			at := list[i].Time.Sub(oracleStart)
			events = append(events, &oracleEvent{at: at, received: at, encoded: event.AppendBinary(nil, &list[i])})
		}
	}
	require.NoError(t, m.History(oracleStart, begin, func(e *event.Event) error { add(*e); return nil }))
	for at := lead; at < length; at += 10 * time.Second {
		add(m.Live(oracleStart.Add(at), oracleStart.Add(at+10*time.Second), "t")...)
	}
	slices.SortStableFunc(events, func(a, b *oracleEvent) int { return cmp.Compare(a.received, b.received) })

	e := newOracleEngine(t, sp, oracleStart)
	machine, err := state.New(state.Options{Alerts: alerts.Options{NoEngine: true}})
	require.NoError(t, err)
	p, book := newPagerCalls(t, sp), incident.NewBook()
	fired := map[string]time.Duration{}
	for now := 10 * time.Second; now <= length; now += 10 * time.Second {
		if now < lead-10*time.Minute && now%time.Minute != 0 { // the engine is up, and nobody looks
			e.apply(record.TypeHeartbeat, oracleStart.Add(now), []byte{byte(record.BeatTick)})
			continue
		}
		rest, r := e.take(events, -1, now)
		events = rest
		for _, tr := range machine.Step(r) {
			if tr.To == state.Firing && tr.Alert.Urgent {
				fired[strings.Join(append([]string{tr.Alert.SLO.Name(), tr.Alert.Label("slo_tier")}, tr.Alert.Group...),
					" ")] = now - lead
			}
		}
		v := machine.View()
		p.look(v, oracleStart.Add(now))
		incidentsOf(t, book, v)
	}
	t.Log("paging alerts that fired:", fired)
	require.Contains(t, fired, "availability page-1h MEDCARE", "products fail with mdm")
	require.Equal(t, []string{"insurance-unpaid/integration-availability ErrorBudgetBurnPage mdm"}, p.calls)
	var critical []*incident.Incident
	for inc := range book.View().All() {
		if inc.Severity == incident.Critical {
			critical = append(critical, inc)
		}
	}
	require.Len(t, critical, 1)
	require.Greater(t, len(critical[0].Affected()), 3)
}
