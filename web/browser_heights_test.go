package web

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// demoSized is a report as large as the demo's: 21 SLOs with 70 groups, whose names are as long.
func demoSized(t testing.TB) *sla.Report {
	rep := insurance(t)
	from := *rep.SLOs[0].SLO
	from.Corrections = nil
	rep.SLOs = nil
	for i := range 21 {
		s, groups := from, []string{"MEDCARE", "SOMLT", "TRVL10"}
		s.ID = slo.NewID("insurance-unpaid", fmt.Sprintf("integration-availability-%02d", i))
		switch {
		case i < 2:
			groups = nil
			for k := range 14 {
				groups = append(groups, fmt.Sprintf("CART_RESPONSE_PROCESSING_%d", k))
			}
		case i >= 14:
			s.GroupBy, groups = nil, nil
			rep.SLOs = append(rep.SLOs, newSLOReport(&s, nil, 1_000_000, uint64(i*10), 0.2))
		}
		for k, g := range groups {
			rep.SLOs = append(rep.SLOs, newSLOReport(&s, slo.Group{g}, 1_000_000, uint64(k*300), float64(k%4)))
		}
	}
	return rep
}

// The first page of the demo's size is short: a row for each SLO, in a table down to 700 px.
func TestBrowserListIsShort(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	l := newLiveBench(t, demoSized(t))
	for _, c := range []struct {
		width  int64
		height float64
		table  bool
	}{{1280, 2200, true}, {820, 3000, true}, {700, 3600, true}, {390, 4500, false}} {
		b.Open(t, l.base+"/", c.width, 800)
		b.requireFits(t, c.width)
		require.Equal(t, 21, eval[int](t, b, `document.querySelectorAll('.levels tbody tr').length`), c.width)
		require.Less(t, eval[float64](t, b, `document.documentElement.scrollHeight`), c.height, c.width)
		require.Equal(t, c.table, eval[bool](t, b, `getComputedStyle(document.querySelector('.levels')).display === 'table'`),
			c.width)
		require.LessOrEqual(t, eval[float64](t, b, `document.querySelector('.levels').getBoundingClientRect().right`),
			eval[float64](t, b, `document.querySelector('.head').getBoundingClientRect().right`)+1, c.width)
	}

	// A click opens the groups where they are, and a report that follows keeps them open.
	b.Open(t, l.base+"/", 1280, 800)
	b.eventually(t, isLive, "the stream is open")
	eval[bool](t, b, `window.here = true, scrollTo(0, 300), true`)
	eval[bool](t, b, `document.querySelector('a.states').click(), true`)
	b.eventually(t, `document.querySelectorAll('.levels tr.nested').length === 14`, "open")
	require.Equal(t, "true 300 true", eval[string](t, b,
		`document.querySelector('a.states').ariaExpanded + ' ' + scrollY + ' ' + window.here`))
	l.publish(func(*sla.Report) {})
	b.eventually(t, `document.querySelector('#live').dataset.key === '`+l.web.View().Key()+`'`, "updated")
	require.Equal(t, 14, eval[int](t, b, `document.querySelectorAll('.levels tr.nested').length`))
	b.axe(t)
	eval[bool](t, b, `document.querySelector('a.states').click(), true`)
	b.eventually(t, `document.querySelectorAll('.levels tr.nested').length === 0 && location.search === ''`, "closed")
	b.RequireClean(t, l.base)
}
