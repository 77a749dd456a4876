package state

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

func annotation(a Alert, name string) string {
	for _, x := range a.Annotations() {
		if x.Name == name {
			return x.Value
		}
	}
	return ""
}

func links(page string) alerts.Options {
	return alerts.Options{Options: rules.Options{PageURL: page}}
}

// TestAnnotations follows the texts of one alert: while it fires, while it is only kept, over a restart, after a change
// of the links, and when it has resolved.
func TestAnnotations(t *testing.T) {
	s := newSLO(t, "shop/availability", "99.9", "product")
	s.Alerting.Ticket.Disabled, s.Alerting.NoData.Disabled = true, true
	s.Alerting.Tiers = slo.Tiers[:1]
	at := start.Add(40 * day)
	traffic := stream{rate: 100, from: start, incidents: []incident{{at, at.Add(time.Hour), 0.5}}}
	missing := false
	m := newMachine(t, func(o *Options) { o.Alerts = links("http://a.example") })
	step := func(after time.Duration) {
		r := traffic.report(s, slo.Group{"MED & co"}, at.Add(after))
		if missing {
			observe(&r, time.Hour, 0.5)
		}
		m.Step(&sla.Report{Time: at.Add(after), SLOs: []sla.SLOReport{r}})
	}
	step(0)
	step(5 * time.Minute)
	require.Len(t, m.View().Active, 1)
	a := m.View().Active[0]
	require.Equal(t, "shop/availability (product=MED & co) burns its error budget fast", annotation(a, "summary"))
	require.Contains(t, annotation(a, "description"), "4.167% of the events of the last 1h were bad.")
	require.Equal(t, "http://a.example/slo?id=shop%2Favailability&group.product=MED+%26+co", annotation(a, "page"))
	require.Equal(t, "http://a.example/alert?id="+a.Fingerprint, annotation(a, "alert"))

	missing = true
	step(70 * time.Minute)
	require.True(t, m.View().Active[0].Kept)
	require.Contains(t, annotation(m.View().Active[0], "description"), "missing data does not resolve it")
	missing = false
	step(71 * time.Minute)
	require.Len(t, m.View().Resolved, 1)
	require.False(t, m.View().Resolved[0].Kept)
	require.NotContains(t, annotation(m.View().Resolved[0], "description"), "missing data")

	saved := m.Snapshot()
	m = newMachine(t)
	require.NoError(t, m.Restore(saved))
	before := m.View()
	require.Empty(t, before.Resolved[0].Annotations(), "the spec is not known yet")
	step(72 * time.Minute)
	require.Contains(t, annotation(m.View().Resolved[0], "summary"), "burns its error budget fast")
	require.Empty(t, before.Resolved[0].Annotations(), "a view does not change")

	traffic.incidents = append(traffic.incidents, incident{at.Add(80 * time.Minute), at.Add(time.Hour * 3), 1})
	step(100 * time.Minute)
	require.Len(t, m.View().Active, 1)
	require.Empty(t, annotation(m.View().Active[0], "page"), "without an address there is no link")
	require.Empty(t, annotation(m.View().Active[0], "alert"))
	m.SetLinks(links("http://b.example/"), Sending{})
	step(101 * time.Minute)
	require.Len(t, m.View().Active, 1)
	require.Contains(t, annotation(m.View().Active[0], "page"), "http://b.example/slo?id=")
	require.Contains(t, annotation(m.View().Active[0], "alert"), "http://b.example/alert?id=")
	require.Equal(t, at.Add(100*time.Minute), m.View().Active[0].FiredAt, "it goes on")
}

// TestTracesOfAPage: a paging alert links to the failing traces of its group, and keeps the last ones when there are no
// more. A pending alert, and one that needs nobody now, links to none.
func TestTracesOfAPage(t *testing.T) {
	s := newSLO(t, "shop/availability", "99.9", "product")
	s.Alerting.NoData.Disabled = true
	at := start.Add(40 * day)
	traffic := stream{rate: 100, from: start, incidents: []incident{{at, at.Add(3 * time.Hour), 0.5}}}
	var asked []string
	known := []string{"https://tempo.example/2", "https://tempo.example/1"}
	why := "Without bank=X the burn rate would be 0.8 instead of 21."
	m := newMachine(t, func(o *Options) {
		o.Traces = func(id slo.ID, group slo.Group) []string {
			asked = append(asked, string(id)+" "+group.Key())
			return known
		}
		o.Why = func(slo.ID, slo.Group) string { return why }
	})
	step := func(after time.Duration) {
		r := traffic.report(s, slo.Group{"MED"}, at.Add(after))
		m.Step(&sla.Report{Time: at.Add(after), SLOs: []sla.SLOReport{r}})
	}
	step(0)
	step(5 * time.Minute)
	step(10 * time.Minute)
	require.NotEmpty(t, asked)
	require.Equal(t, "shop/availability "+slo.Group{"MED"}.Key(), asked[0])
	pages, others := 0, 0
	for _, a := range m.View().Active {
		if a.Urgent && a.State == Firing {
			pages++
			require.Equal(t, "https://tempo.example/2 https://tempo.example/1", annotation(a, AnnotationTraces))
			require.Equal(t, why, annotation(a, AnnotationWhy))
			require.Contains(t, a.Show(strings.ToUpper), alerts.Annotation{Name: AnnotationWhy, Value: strings.ToUpper(why)})
			require.IsIncreasing(t, annotationNames(a.Annotations()), "they are sorted")
		} else {
			others++
			require.Empty(t, annotation(a, AnnotationTraces)+annotation(a, AnnotationWhy))
		}
	}
	require.Positive(t, pages)
	require.Positive(t, others)

	was := why
	known, why = nil, ""
	step(15 * time.Minute)
	require.Equal(t, was, annotation(m.View().Active[0], AnnotationWhy))
	require.Equal(t, "https://tempo.example/2 https://tempo.example/1", annotation(m.View().Active[0], AnnotationTraces))
}

func annotationNames(list []alerts.Annotation) (out []string) {
	for _, a := range list {
		out = append(out, a.Name)
	}
	return out
}
