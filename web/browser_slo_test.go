package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/web/annotations"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

const latencyPage = "/slo?group.product=SOMLT&id=insurance-unpaid%2Flatency"

// banded is the bench's report with bands in its agreement, so that durations are
// counted at more thresholds than that of the SLO.
func banded(t testing.TB) *sla.Report {
	rep := insurance(t)
	a := *rep.SLAs[0].SLA
	a.Method = sla.Bands
	a.Components = []sla.Component{{Name: "latency", SLO: "insurance-unpaid/latency", Weight: 1,
		Bands: []sla.Band{{Threshold: 5 * time.Minute, Score: 1}, {Threshold: 15 * time.Minute, Score: 0.8},
			{Threshold: 30 * time.Minute, Score: 0.5}}}}
	for i := range rep.SLAs {
		rep.SLAs[i].SLA = &a
	}
	return rep
}

func TestBrowserSLO(t *testing.T) {
	t.Parallel()
	traffic := history.NewTrafficLog()
	traffic.Observe(trafficReport(noon.Add(-24*time.Hour), map[string]uint64{"fine": 1}))
	traffic.Observe(trafficReport(
		noon, map[string]uint64{"fine": 90_000, "timeout": 11, "connection refused": 6, "partner_mdm": 4, "": 2}))
	x := newLiveBench(t, banded(t), func(o *site.Options) { o.Traffic = traffic })
	base := x.base
	b := startBrowser(t)
	for _, c := range []struct {
		name, path, scheme string
		width              int64
		axe                bool
	}{
		{"slo-light.png", "/slo?group.product=TRVL10&id=insurance-unpaid%2Favailability", "light", 1280, false},
		{"slo-dark.png", "/slo?group.product=TRVL10&id=insurance-unpaid%2Favailability&range=7d", "dark", 1280, true},
		{"slo-latency.png", latencyPage + "&range=7d", "light", 1280, true},
		{"slo-phone.png", latencyPage, "light", 360, false},
		{"slo-phone-dark.png", "/slo?id=mdm%2Favailability&range=30d", "dark", 360, false},
	} {
		b.prefers(t, c.scheme, true)
		b.Open(t, base+c.path, c.width, 900)
		b.eventually(t, `document.querySelectorAll('.copy button').length === document.querySelectorAll('.copy').length`,
			"the script has run")
		b.requireFits(t, c.width)
		if c.axe {
			b.axe(t)
		}
		b.picture(t, c.name, true)
	}
	b.RequireClean(t, base)
}

// TestBrowserSLOWithoutScripts: everything is there without JavaScript, drawn by
// the server, and fits a phone.
func TestBrowserSLOWithoutScripts(t *testing.T) {
	t.Parallel()
	x := newLiveBench(t, banded(t))
	base := x.base
	b := startBrowser(t)
	b.scripts(t, false)
	for _, width := range []int64{1280, 360} {
		b.Open(t, base+latencyPage+"&range=7d", width, 900)
		b.requireFits(t, width)
		b.picture(t, fmt.Sprintf("slo-plain-%d.png", width), true)
		b.Open(t, base+latencyPage+"&range=7d", width, 900)
	}
	require.Zero(t, eval[int](t, b, `document.querySelectorAll('.copy button').length`))
	require.Equal(t, 7, eval[int](t, b, `document.querySelectorAll('.plotbox svg.ts').length`))
	b.RequireClean(t, base)
}

// TestBrowserSLORanges: a link, the form and a selection by the mouse each choose
// the range, and it is in the address.
func TestBrowserSLORanges(t *testing.T) {
	t.Parallel()
	x := newLiveBench(t, banded(t))
	base := x.base
	b := startBrowser(t)
	drawn := func() { b.eventually(t, `document.querySelectorAll('.copy button').length > 0`, "the script has run") }
	b.Open(t, base+latencyPage, 1280, 900)
	drawn()
	for _, name := range []string{"1h", "6h", "7d", "30d", "90d", "1d"} {
		eval[bool](
			t, b, fmt.Sprintf(`[...document.querySelectorAll('.ranges a')].find(a => a.textContent === %q).click(), true`, name))
		b.eventually(t,
			fmt.Sprintf(
				`location.search.includes('range=%s') && document.querySelector('.ranges a[aria-current]')?.textContent === %q`,
				name, name), "the link chooses "+name)
		drawn()
	}
	// Half of the chart is dragged over: the range is half as long.
	const drag = `(() => {
		const svg = document.querySelector('[data-key=events] svg.ts'), r = svg.getBoundingClientRect();
		const send = (type, share) => svg.dispatchEvent(new PointerEvent(type, {bubbles: true,
			clientX: r.left + r.width * share, clientY: r.top + 20, button: 0, pointerType: 'mouse'}));
		send('pointermove', .25); send('pointerdown', .25); send('pointermove', .5); send('pointermove', .75);
		window.chosen = document.querySelectorAll('.selection').length;
		send('pointerup', .75);
		return window.chosen === 1;
	})()`
	require.True(t, eval[bool](t, b, drag), "the selection is shown")
	b.eventually(t,
		`/[?&]from=\d+/.test(location.search) && /[?&]to=\d+/.test(location.search) && document.querySelector('.ranges `+
			`a[aria-current]') === null`, "a selection is a range")
	got := eval[int](
		t, b, `+new URLSearchParams(location.search).get('to') - new URLSearchParams(location.search).get('from')`)
	require.InDelta(t, 12*3600, got, 1200)
	drawn()
	// The form, which sends moments.
	eval[bool](t, b,
		`(() => { const f = document.querySelector('form.span'); f.from.value = '2026-11-18T06:00'; f.to.value = `+
			`'2026-11-18T09:00'; f.requestSubmit(); return true; })()`)
	b.eventually(t,
		`location.search.includes('from=1794981600') && `+
			`document.querySelector('#history').textContent.includes('2026-11-18 06:00 to 09:00')`, "the form chooses")
	drawn()
	b.RequireClean(t, base)
}

// TestBrowserSLOCursor: the cursor of one chart moves the others, which say their
// numbers, and those are the API's.
func TestBrowserSLOCursor(t *testing.T) {
	t.Parallel()
	x := newLiveBench(t, banded(t))
	base := x.base
	b := startBrowser(t)
	b.Open(t, base+latencyPage+"&range=7d", 1280, 900)
	b.eventually(t, `document.querySelectorAll('.copy button').length > 0`, "the script has run")
	const move = `(() => {
		const svg = document.querySelector('[data-key=events] svg.ts'), r = svg.getBoundingClientRect();
		svg.dispatchEvent(new PointerEvent('pointermove', {bubbles: true, clientX: r.left + r.width * 0.4,
			clientY: r.top + 20}));
		return true;
	})()`
	eval[bool](t, b, move)
	b.eventually(t, `[...document.querySelectorAll('.stack .readout')].filter(p => p.textContent).length >= 3`,
		"all charts of the range say their numbers")
	said := eval[string](t, b, `document.querySelector('.stack .readout').textContent`)
	require.Regexp(t, `^\w+ \w+,? \d+:\d+ · good [\d,]+ · bad [\d,]+ · bad share `, said)
	require.True(t, eval[bool](t, b, `document.querySelectorAll('.stack .cursor').length === 5`),
		"every chart of the range has it, the heatmap too")
	require.Empty(t, eval[string](t, b, `document.querySelector('.duo .readout').textContent`),
		"the window's chart has times of its own")

	// The numbers of the chart are those of the table and of the API.
	row := eval[[]string](t, b,
		`[...document.querySelectorAll('.stack .fig')[0].querySelectorAll('tbody tr')[10].children].map(c => c.textContent)`)
	type answer struct {
		Points []struct {
			Good, Bad uint64
		}
	}
	var got answer
	target := eval[string](
		t, b, `(() => { const u = new URL(document.querySelector('.more a').href); return u.pathname + u.search; })()`)
	require.NoError(t, json.Unmarshal(x.get(target).Body.Bytes(), &got))
	p := got.Points[len(got.Points)-11]
	require.Equal(t, []string{format.Count(p.Good), format.Count(p.Bad)}, row[1:3])
	b.RequireClean(t, base)
}

// TestBrowserSLOUpdates: a new report changes charts in place, and nothing of what
// scripts made is lost.
func TestBrowserSLOUpdates(t *testing.T) {
	t.Parallel()
	x := newLiveBench(t, nil)
	b := startBrowser(t)
	b.Open(t, x.base+latencyPage+"&range=1h", 1280, 900)
	b.eventually(t, `document.querySelector('#live button').dataset.state === 'live'`, "updates come")
	const state = `JSON.stringify([document.querySelector('[data-key=events]').dataset.plot, ` +
		`document.querySelector('[data-key=events] path.f-good').getAttribute('d')])`
	eval[bool](t, b, `window.kept = document.querySelector('[data-key=events] svg'), window.was = `+state+
		`, document.querySelector('#source-spec').open = true`)
	x.publish(func(r *sla.Report) { r.Time = r.Time.Add(5 * time.Minute) })
	b.eventually(t, state+` !== window.was`, "the drawing is a new one")
	require.True(t, eval[bool](t, b, `document.querySelector('[data-key=events] svg') === window.kept`), "in its place")
	require.True(t, eval[bool](t, b, `document.querySelector('#source-spec').open`), "what was opened stays open")
	require.True(t, eval[bool](t, b,
		`document.querySelectorAll('.copy').length === document.querySelectorAll('.copy button').length`),
		"texts can still be copied, once each")
	b.RequireClean(t, x.base)
}

// Every time that a reader sees is in the reader's zone and in one form, with the moment on hover, and the form takes
// it so.
func TestBrowserTimesOfASLO(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	b.zone(t, "Asia/Tokyo")
	x := newLiveBench(t, nil)
	b.Open(t, x.base+medcare, wide, 900)
	b.eventually(t, isLive, "scripts have run")
	require.Equal(t, "", eval[string](t, b,
		`[...document.querySelectorAll('figcaption, .note, .notes, .facts dd, .forecast')].filter(e => !e.closest('code, `+
			`pre') && /\d UTC/.test(e.textContent)).map(e => e.textContent).join('; ')`))
	require.Regexp(t, `left in the window 2026-10-21 21:00 to 2026-11-20 21:00`,
		eval[string](t, b, `document.querySelector('figcaption').textContent`))
	require.Contains(t, eval[string](t, b, `document.querySelector('figcaption time').title`), "2026-10-21T12:00:00.000Z")
	require.Equal(t, "Asia/Tokyo", eval[string](t, b, `document.querySelector('form.span .note').textContent`))
	require.Equal(t, "2026-11-20T21:00", eval[string](t, b, `document.querySelector('form.span [name=to]').value`))
	eval[bool](t, b,
		`document.querySelector('form.span [name=from]').value = '2026-11-20T18:00', `+
			`document.querySelector('form.span').requestSubmit(), true`)
	b.eventually(t, fmt.Sprintf(`new URLSearchParams(location.search).get('from') === '%d'`,
		time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC).Unix()), "18:00 in Tokyo is 09:00 UTC")
	b.RequireClean(t, x.base)
}

// An annotation that a pipeline posts is on every chart of a phone: as a line, in the list, and on the day of the
// calendar. No text, however long, makes the page wider, and all of it is there without scripts.
func TestBrowserAnnotationsOnAPhone(t *testing.T) {
	t.Parallel()
	const phone = 390
	_, store := withAnnotations(t)
	x := newLiveBench(t, richAgreements(t), func(o *site.Options) {
		o.Annotations, o.Incidents, o.Counts = store, newMemoryBook(), withLimits(o.Counts)
	})
	res, err := http.Post(x.base+annotations.Path, "application/json",
		strings.NewReader(
			fmt.Sprintf(`{"text":"v1.2.3 %s","kind":"deployment","service":"insurance-unpaid","at":%q,"author":"ci"}`,
				strings.Repeat("<b>x", 100), noon.Add(-10*time.Minute).Format(time.RFC3339))))
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	// How many charts have a line that is seen, and how many have none.
	const seen = `(() => {
		const at = [...document.querySelectorAll('svg.ts:has(> svg), svg.lane')].map(s =>
			[...s.querySelectorAll('.r-annotation')].some(m => {
			const box = m.getBoundingClientRect(), chart = s.getBoundingClientRect(), style = getComputedStyle(m);
			return box.height > 10 && box.left >= chart.left - 1 && box.right <= chart.right + 1 && style.stroke !== 'none'
				&& style.visibility === 'visible';
		}));
		return [at.filter(s => s).length, at.filter(s => !s).length];
	})()`
	b := startBrowser(t)
	for _, scripts := range []bool{true, false} {
		b.scripts(t, scripts)
		b.prefers(t, "light", true)
		for _, c := range []struct {
			name, path string
			charts     int
		}{{"slo", annotatedSLO, 7}, {"sla", trvlSLA, 2}, {"incident", firstIncident, 3}} {
			b.Open(t, x.base+c.path, phone, 900)
			if scripts {
				b.eventually(t, isLive+` || document.querySelector('[data-stream]') === null`, "the scripts have run")
			}
			b.requireFits(t, phone)
			require.Equal(t, []int{c.charts, 0}, eval[[]int](t, b, seen), c.name)
			require.Equal(t, "deployment v1.2.3",
				eval[string](t, b,
					`(() => { const li = document.querySelectorAll('#annotations + .annotations li'); return li.length === 1 && `+
						`li[0].querySelector('.tag').textContent + ' ' + li[0].querySelector('bdi').textContent.slice(0, 6); })()`))
			require.Zero(t, eval[int](t, b, `document.querySelectorAll('.annotations b, .month b, svg b').length`),
				"the text is no markup")
			if c.name == "slo" {
				require.Equal(t, "20, annotated 1",
					eval[string](t, b,
						`(() => { const td = document.querySelectorAll('td.noted'); return td[0].querySelector('.d').textContent + `+
							`td[0].querySelector('.hidden').textContent + ' ' + td.length; })()`))
				require.NotEqual(t, "none", eval[string](
					t, b, `getComputedStyle(document.querySelector('td.noted'), '::after').content`), "the corner of the day")
				require.Contains(t, eval[string](t, b, `document.querySelector('td.noted').title`), "deployment: v1.2.3 <b>x")
			}
			if scripts {
				b.axe(t)
				b.picture(t, c.name+"-annotated-phone.png", true)
			}
		}
	}
	b.RequireClean(t, x.base)
}
