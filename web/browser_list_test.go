package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/forecast"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

// liveBench is a bench whose report may be published while pages are open.
type liveBench struct {
	*bench
	report atomic.Pointer[sla.Report]
	base   string
}

func newLiveBench(t *testing.T, rep *sla.Report, change ...func(*site.Options)) *liveBench {
	l := &liveBench{}
	l.bench = newBench(t, append([]func(*site.Options){func(o *site.Options) {
		o.Report = l.report.Load
		o.Engine = readyStatus
		at := noon.Add(3 * time.Second)
		o.Now = func() time.Time { return at }
		alerts := someAlerts()
		o.Alerts = func() *state.View { return &state.View{Active: alerts} }
	}}, change...)...)
	if rep == nil {
		rep = insurance(t)
	}
	l.report.Store(rep)
	l.base = l.serve(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- l.web.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	require.Eventually(t, func() bool { return l.web.streams.on() }, testkit.Patience, time.Millisecond)
	return l
}

// publish makes a changed copy of the report the latest one.
func (l *liveBench) publish(change func(*sla.Report)) {
	next := *l.report.Load()
	next.SLOs = slices.Clone(next.SLOs)
	next.Version++
	next.Time = next.Time.Add(time.Millisecond)
	change(&next)
	l.report.Store(&next)
}

const (
	wide    = 1360
	isLive  = `document.querySelector('#live button')?.dataset.state === 'live'`
	rowIDs  = `[...document.querySelectorAll('.levels tbody tr')].map(r => r.id).join()`
	rowText = `[...document.querySelectorAll('.levels tbody tr')].map(r => r.querySelector('.state').textContent.trim()
		+ '|' + r.querySelector('th a').textContent.replace(/\s+/g, '') +
		'|' + [...r.querySelectorAll('.label bdi[title]')].map(b => b.textContent).join() + '|'
			+ r.querySelector('.left').textContent).join('\n')`
)

func TestBrowserListLooks(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	l := newLiveBench(t, nil)
	for _, scheme := range []string{"light", "dark"} {
		b.prefers(t, scheme, false)
		b.Open(t, l.base+"/", wide, 900)
		b.eventually(t, isLive, "the stream is open")
		b.picture(t, "list-"+scheme+".png", true)
		b.axe(t)
		b.Open(t, l.base+"/", 360, 1500)
		b.requireFits(t, 360)
		b.picture(t, "list-phone-"+scheme+".png", false)
		b.axe(t)
	}
	b.prefers(t, "light", true)
	// The longest text of a forecast.
	f := forecast.Forecast{Time: noon, Pace: forecast.Pace{Low: 14*time.Hour + 22*time.Minute, High: forecast.Beyond}}
	l.publish(func(r *sla.Report) { r.SLOs[0].Outlook = &sla.Outlook{Forecast: f} })
	b.Open(t, l.base+"/?rows=groups", wide, 900)
	b.eventually(
		t, `document.querySelector('.budget .warn[title*="at the fastest recent pace"]') !== null`, "the forecast is shown")
	for _, width := range []int64{320, 600, 900, 901, 1024, 1280, 1920} {
		b.Open(t, l.base+"/?rows=groups", width, 740)
		b.requireFits(t, width)
	}
	b.Open(t, l.base+"/", 1024, 1300)
	b.picture(t, "list-tablet.png", false)
	b.RequireClean(t, l.base)
}

func TestBrowserListStates(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	for name, prepare := range map[string]func(*bench){
		"empty":      empty,
		"recovering": func(x *bench) { x.rep, x.eng.State, x.eng.Progress = nil, status.Recovering, 0.42 },
		"stale":      func(x *bench) { x.now = noon.Add(10 * time.Minute) },
		"no-slos":    func(x *bench) { x.rep = &sla.Report{Time: noon} },
		"disk-low":   func(x *bench) { x.eng.State, x.eng.Reason = status.DiskLow, "900 MiB free" },
	} {
		t.Run(name, func(t *testing.T) {
			x := newBench(t)
			prepare(x)
			base := x.serve(t)
			for _, width := range []int64{wide, 360} {
				b.Open(t, base+"/", width, 800)
				b.requireFits(t, width)
				b.axe(t)
			}
			b.Open(t, base+"/", wide, 800)
			b.picture(t, "list-"+name+".png", true)
		})
	}
}

func TestBrowserSortsAndFilters(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	l := newLiveBench(t, nil)
	b.Open(t, l.base+"/?rows=groups", wide, 900)
	b.eventually(t, isLive, "the stream is open")
	worst := eval[string](t, b, rowIDs)
	eval[bool](t, b, `window.here = true`) // a reload forgets it
	eval[bool](t, b, `scrollTo(0, 400), true`)

	// A heading sorts in place, keeps the focus and says so to screen readers.
	eval[bool](t, b,
		`[...document.querySelectorAll('.levels thead a')].find(a => a.textContent === 'SLO').focus(), `+
			`document.activeElement.click(), true`)
	b.eventually(t,
		`location.search === '?rows=groups&sort=name' && document.querySelector('th[aria-sort]').textContent === 'SLO'`,
		"sorted by name")
	require.NotEqual(t, worst, eval[string](t, b, rowIDs))
	require.Equal(t, "SLO ascending 400 true",
		eval[string](t, b,
			`document.activeElement.textContent + ' ' + document.activeElement.parentNode.ariaSort + ' ' + scrollY + ' ' + `+
				`window.here`))
	eval[bool](t, b, `document.activeElement.click(), true`)
	b.eventually(t,
		`document.querySelector('th[aria-sort=descending]') !== null && location.search === '?dir=desc&rows=groups&`+
			`sort=name'`,
		"the other way round")
	byName := eval[string](t, b, rowIDs)

	// Typing filters, keeps the caret, and leaves no empty parameters.
	eval[bool](t, b, `document.querySelector('#q').focus(), true`)
	eval[bool](t, b, `document.execCommand('insertText', false, 'trvl'), true`)
	b.eventually(
		t, `location.search.includes('q=trvl') && document.querySelectorAll('.levels tbody tr').length === 4`, "found")
	require.Equal(t, "q 4 trvl", eval[string](
		t, b, `document.activeElement.id + ' ' + document.activeElement.selectionStart + ' ' + document.activeElement.value`))
	require.Equal(t, "dir=desc&q=trvl&rows=groups&sort=name",
		eval[string](t, b, `[...new URLSearchParams(location.search)].map(p => p.join('=')).sort().join('&')`))
	require.Equal(t, "4 of 13 shown", eval[string](t, b, `document.querySelector('#levels [role=status]').textContent`))

	// So does choosing, and the address alone gives the same view.
	eval[bool](t, b,
		`(s => { s.value = 'no_data'; s.dispatchEvent(new Event('change', {bubbles: true})) }`+
			`)(document.querySelector('#by-state')), true`)
	b.eventually(t, `document.querySelectorAll('.levels tbody tr').length === 1`, "one has no data")
	address, shown := eval[string](t, b, `location.href`), eval[string](t, b, rowText)
	require.Contains(t, shown, "no data|insurance-unpaid/throughput|TRVL10")
	require.True(t, eval[bool](t, b, `window.here`), "the page was never reloaded")
	b.Open(t, address, wide, 900)
	require.Equal(t, shown, eval[string](t, b, rowText))
	require.Equal(t, "trvl no_data",
		eval[string](t, b, `document.querySelector('#q').value + ' ' + document.querySelector('#by-state').value`))

	// Back leads to the view before.
	b.Open(t, l.base+"/?rows=groups&sort=name&dir=desc", wide, 900)
	require.Equal(t, byName, eval[string](t, b, rowIDs))
	eval[bool](
		t, b, `[...document.querySelectorAll('.levels thead a')].find(a => a.textContent === 'Traffic').click(), true`)
	b.eventually(t, `location.search === '?rows=groups&sort=traffic'`, "sorted by traffic")
	eval[bool](t, b, `history.back(), true`)
	b.eventually(t, `location.search === '?rows=groups&sort=name&dir=desc' && (`+rowIDs+`) === '`+byName+`'`, "back")
	b.RequireClean(t, l.base)
}

func TestBrowserLiveUpdate(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	l := newLiveBench(t, nil)
	l.report.Load().Warnings = []string{"weights sum to 90"}
	b.Open(t, l.base+"/?rows=groups", wide, 700)
	b.eventually(t, isLive, "the stream is open")
	// What a reader has done must stay: scroll, focus, an open part, a marked row,
	// text that is typed but not sent.
	eval[bool](t, b,
		`document.querySelector('#warnings').open = true, document.querySelector('.levels tbody tr').dataset.mark = 'x', `+
			`scrollTo(0, 500), true`)
	id := eval[string](t, b,
		`(r => { r.querySelector('th a').focus({preventScroll: true}); r.node = 'same'; return r.id }`+
			`)(document.querySelectorAll('.levels tbody tr')[5])`)
	top := eval[float64](t, b, `document.activeElement.getBoundingClientRect().top`)
	eval[bool](t, b,
		`window.shifts = 0, new PerformanceObserver(l => l.getEntries().forEach(e => window.shifts += `+
			`e.value)).observe({type: 'layout-shift'}), true`)
	l.publish(func(r *sla.Report) {
		r.SLOs[0] = newSLOReport(r.SLOs[0].SLO, r.SLOs[0].Group, 1_281_204, 703, 0.3)
	})
	key := eval[string](t, b, `document.querySelector('#live').dataset.key`)
	b.eventually(t, `document.querySelector('#live').dataset.key !== '`+key+`'`, "the page follows the report")
	require.Equal(t, l.web.View().Key(), eval[string](t, b, `document.querySelector('#live').dataset.key`))
	require.Equal(t, "500 true", eval[string](t, b, `scrollY + ' ' + document.querySelector('#warnings').open`))
	require.Equal(t, id, eval[string](t, b, `document.activeElement.closest('tr').id`))
	require.Equal(t, "same", eval[string](t, b, `document.activeElement.closest('tr').node`),
		"the row is the same element: nothing was redrawn")
	require.InDelta(t, top, eval[float64](t, b, `document.activeElement.getBoundingClientRect().top`), 1)
	require.Less(t, eval[float64](t, b, `window.shifts`), 0.02, "nothing jumps")

	// A row that moves takes the focus with it: the focused one becomes the worst.
	moving := slices.IndexFunc(l.report.Load().SLOs, func(r sla.SLOReport) bool {
		return l.web.ui.NewRow(&r, false).ID == id
	})
	l.publish(func(r *sla.Report) {
		r.SLOs[moving] = newSLOReport(r.SLOs[moving].SLO, r.SLOs[moving].Group, 1000, 900, 20)
	})
	b.eventually(t, `document.querySelector('.levels tbody tr:nth-child(2)').id === '`+id+`'`,
		"the worst comes first, but for what pages")
	require.Equal(t, id, eval[string](t, b, `document.activeElement.closest('tr')?.id ?? document.activeElement.tagName`))

	// Paused, nothing changes; resumed, the page catches up.
	eval[bool](t, b, `document.querySelector('#live button').click(), true`)
	b.eventually(t, `document.querySelector('#live button').dataset.state === 'paused'`, "paused")
	require.Eventually(t, func() bool { return l.web.streams.count() == 0 }, testkit.Patience, 10*time.Millisecond)
	key = eval[string](t, b, `document.querySelector('#live').dataset.key`)
	l.publish(func(*sla.Report) {})
	testkit.Pause(1500 * time.Millisecond)
	require.Equal(t, key, eval[string](t, b, `document.querySelector('#live').dataset.key`))
	eval[bool](t, b, `document.querySelector('#live button').click(), true`)
	b.eventually(t, `document.querySelector('#live').dataset.key === '`+l.web.View().Key()+`'`, "resumed")
	b.RequireClean(t, l.base)
}

func TestBrowserPollsWithoutStreams(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	l := newLiveBench(t, nil, func(o *site.Options) { o.MaxStreams = 1 })
	taken, err := l.web.streams.join()
	require.NoError(t, err)
	defer l.web.streams.leave(taken)
	b.Open(t, l.base+"/", wide, 700)
	b.eventually(t, `document.querySelector('#live button').dataset.state === 'polling'`, "the stream was refused")
	l.publish(func(*sla.Report) {})
	b.eventually(t, `document.querySelector('#live').dataset.key === '`+l.web.View().Key()+`'`, "polled")
}

func TestBrowserWithoutScripts(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	l := newLiveBench(t, nil)
	b.Open(t, l.base+"/?rows=groups&sort=burn", wide, 900)
	with := eval[string](t, b, rowText)
	b.scripts(t, false)
	b.Open(t, l.base+"/?rows=groups&sort=burn", wide, 900)
	require.Equal(t, with, eval[string](t, b, rowText))
	require.Zero(t, l.web.streams.count())
	require.Equal(t, "as of 12:00:07 UTC", eval[string](t, b, `document.querySelector('.asof').textContent`))
	require.True(t, eval[bool](t, b,
		`document.querySelector('#live button').hidden && document.querySelector('.filter button').checkVisibility() && `+
			`document.querySelector('.refresh').checkVisibility()`))
	b.picture(t, "list-noscript.png", false)

	// The form and the links work by themselves.
	eval[bool](t, b, `document.querySelector('#q').value = 'somlt', document.querySelector('.filter').submit(), true`)
	b.eventually(
		t, `location.search.includes('q=somlt') && document.querySelectorAll('.levels tbody tr').length === 4`, "filtered")
	require.Equal(t, "Worst burn", eval[string](t, b, `document.querySelector('th[aria-sort]').textContent`),
		"the order is kept")
	b.RequireClean(t, l.base)
}

func TestBrowserTheme(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	l := newLiveBench(t, nil)
	const ground = `getComputedStyle(document.body).backgroundColor`
	b.prefers(t, "light", false)
	b.Open(t, l.base+"/?sort=name", wide, 900)
	light := eval[string](t, b, ground)
	eval[bool](t, b, `document.querySelector('.theme a[href*="theme=dark"]').click(), true`)
	b.eventually(t, ground+` !== '`+light+`'`, "dark by choice")
	require.Equal(t, "?sort=name", eval[string](t, b, `location.search`), "the choice is no part of the address")
	b.Open(t, l.base+"/slas", wide, 900)
	require.NotEqual(t, light, eval[string](t, b, ground), "on every page")
	b.prefers(t, "dark", false)
	eval[bool](t, b, `document.querySelector('.theme a[href*="theme=light"]').click(), true`)
	b.eventually(t, `document.readyState === 'complete' && `+ground+` === '`+light+`'`,
		"light by choice, against the system")
	eval[bool](t, b, `document.querySelector('.theme a[href*="theme=auto"]').click(), true`)
	b.eventually(t, ground+` !== '`+light+`'`, "as the system again")
	b.RequireClean(t, l.base)
}

func TestBrowserTimesAreLocal(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	b.zone(t, "Asia/Tokyo")
	l := newLiveBench(t, nil)
	b.Open(t, l.base+"/", wide, 900)
	b.eventually(t, isLive, "scripts have run")
	require.Contains(t, eval[string](t, b, `document.querySelector('.asof time').textContent`), "21:00:07")
	require.Contains(t, eval[string](t, b, `document.querySelector('.asof time').title`), "2026-11-20T12:00:07Z")
	require.Equal(t, "Times are in Asia/Tokyo.", eval[string](t, b, `document.querySelector('[data-zone]').textContent`))
	// They stay so through an update.
	eval[bool](t, b,
		`window.flicker = [], new MutationObserver(l => l.forEach(m => window.flicker.push(document.querySelector('.asof `+
			`time').textContent))).observe(document.querySelector('.asof'), {subtree: true, characterData: true, childList: `+
			`true}), true`)
	l.publish(func(r *sla.Report) { r.Time = r.Time.Add(time.Second) })
	b.eventually(t, `document.querySelector('.asof time').textContent.includes('21:00:08')`, "updated")
	require.False(t, eval[bool](t, b, `window.flicker.some(s => s.includes('UTC'))`), "UTC never flashes up")
	b.RequireClean(t, l.base)
}

func TestBrowserBehindAPrefix(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	l := newLiveBench(t, nil, func(o *site.Options) { o.ExternalPath = "/status" })
	inner := l.router
	l.base = underPrefix(t, "/status", inner)
	b.Open(t, l.base+"/", wide, 900)
	b.eventually(t, isLive, "the stream is open")
	eval[bool](
		t, b, `[...document.querySelectorAll('.levels thead a')].find(a => a.textContent === 'Traffic').click(), true`)
	b.eventually(t, `location.pathname === '/status/' && location.search === '?sort=traffic'`, "sorted")
	l.publish(func(*sla.Report) {})
	b.eventually(t, `document.querySelector('#live').dataset.key === '`+l.web.View().Key()+`'`, "updated")
	eval[bool](t, b, `document.querySelector('.theme a[href*="theme=dark"]').click(), true`)
	b.eventually(t, `document.documentElement.dataset.theme === 'dark' && location.pathname === '/status/'`, "themed")
	b.RequireClean(t, l.base)
}

func TestBrowserHostileNames(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	rep := insurance(t)
	for _, bad := range hostile {
		s := *rep.SLOs[0].SLO
		s.Description, s.Labels = bad, map[string]string{"team": bad}
		rep.SLOs = append(rep.SLOs, newSLOReport(&s, []string{bad + "x"}, 10, 1, 1))
	}
	rep.Warnings = hostile
	l := newLiveBench(t, rep)
	b.Open(t, l.base+"/?rows=groups", 360, 740)
	b.requireFits(t, 360)
	b.Open(t, l.base+"/?rows=groups", wide, 900)
	b.requireFits(t, wide)
	b.eventually(t, isLive, "the stream is open")
	l.publish(func(*sla.Report) {})
	b.eventually(t, `document.querySelector('#live').dataset.key === '`+l.web.View().Key()+`'`, "updated")
	require.Equal(t, 13+len(hostile), eval[int](t, b, `document.querySelectorAll('.levels tbody tr').length`))
	b.axe(t)
	b.RequireClean(t, l.base)
}

// underPrefix serves a handler as a proxy does that takes a prefix off.
func underPrefix(t *testing.T, prefix string, h http.Handler) string {
	t.Helper()
	return serveHandler(t, http.StripPrefix(prefix, h)) + prefix
}

func TestBrowserAgreements(t *testing.T) {
	t.Parallel()
	l := newLiveBench(t, nil)
	axe(t, l.base+"/slas")
	b := startBrowser(t)
	for _, width := range []int64{360, wide} {
		b.Open(t, l.base+"/slas", width, 740)
		b.requireFits(t, width)
	}
	b.RequireClean(t, l.base)
}

// 1,000 SLOs with 10 groups each: what a reader waits for in a browser that runs already.
func TestBrowserFirstPaint(t *testing.T) {
	b := startBrowser(t)
	l := newLiveBench(t, fleetOfSLOs(t, 1000, 10), func(o *site.Options) { o.Counts = sameCounts })
	b.Open(t, l.base+"/nothing", wide, 900)
	b.Open(t, l.base+"/", wide, 900)
	const paint = `performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0`
	b.eventually(t, `(`+paint+`) > 0`, "painted")
	after := eval[float64](t, b, paint)
	t.Logf("1,000 SLOs, 10,000 groups: first contentful paint after %.0f ms; page %s", after,
		eval[string](t, b,
			`(e => e.encodedBodySize + ' bytes, answered after ' + Math.round(e.responseEnd) + ' `+
				`ms')(performance.getEntriesByType('navigation')[0])`))
	require.Less(t, after, 3000.0, "300 ms on an idle machine; the tests may share theirs")
	require.Equal(t, 100, eval[int](t, b, `document.querySelectorAll('.levels tbody tr').length`), "paged by the server")
	b.requireFits(t, wide)
	b.eventually(t, isLive, "the stream is open")
	// The next report is in place before anybody has looked away.
	eval[bool](t, b,
		`window.took = 0, document.addEventListener('htmx:before:swap', () => window.took = performance.now()), `+
			`document.addEventListener('page:updated', () => window.took = performance.now() - window.took), true`)
	l.publish(func(*sla.Report) {})
	b.eventually(t, `document.querySelector('#live').dataset.key === '`+l.web.View().Key()+`'`, "updated")
	t.Logf("an update of 100 rows in place: %.0f ms", eval[float64](t, b, `window.took`))
}

func TestBrowserKeys(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	l := newLiveBench(t, nil)
	b.Open(t, l.base+"/engine", wide, 900)
	press := func(keys string) {
		t.Helper()
		for _, k := range keys {
			eval[bool](t, b,
				fmt.Sprintf(
					`document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: %q, bubbles: true, cancelable: true}`+
						`)), true`, string(k)))
		}
	}
	const at = `document.activeElement.id`
	press("?")
	b.eventually(t, `document.querySelector('#keys').open`, "the list of the keys")
	b.axe(t)
	press("/")
	require.NotEqual(t, "q", eval[string](t, b, at), "the list is open")
	eval[bool](t, b, `document.querySelector('#keys form button').click(), true`)
	b.eventually(t, `!document.querySelector('#keys').open && document.activeElement === document.body`, "closed")
	press("/")
	require.Equal(t, "q", eval[string](t, b, at))
	press("gs")
	require.Equal(t, "/engine", eval[string](t, b, `location.pathname`), "that was typed")
	eval[bool](t, b, `document.activeElement.value = 'trvl', document.activeElement.form.requestSubmit(), true`)
	b.eventually(t, `location.search === '?q=trvl' && document.querySelectorAll('.levels tbody tr').length === 4 && `+
		`document.readyState === 'complete'`, "every page searches the SLOs") // keys are heard once it is loaded
	press("gs")
	b.eventually(
		t, `location.pathname === '/services' && document.querySelectorAll('.briefs li').length === 2`, "the services")
	b.axe(t)

	// Whoever dictates turns them off, for good.
	eval[bool](t, b, `document.querySelector('button.keys').click(), true`)
	b.eventually(t, `document.querySelector('#keys').open`, "the button does the same")
	eval[bool](
		t, b, `document.querySelector('#keys .quiet').click(), document.querySelector('#keys form button').click(), true`)
	b.eventually(t, `localStorage.getItem('keys') === 'off' && !document.querySelector('#keys').open`, "kept")
	b.Open(t, l.base+"/", wide, 900)
	press("/?")
	require.Equal(t, "", eval[string](t, b, at))
	require.False(t, eval[bool](t, b, `document.querySelector('#keys').open`))
	b.RequireClean(t, l.base)
}

// On a phone a service level, an alert and an agreement take two lines at most.
func TestBrowserPhoneIsShort(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	l := newLiveBench(t, nil)
	b.Open(t, l.base+"/", 390, 844)
	b.requireFits(t, 390)
	tallest := func(what string) float64 {
		return eval[float64](
			t, b, `Math.max(...[...document.querySelectorAll('`+what+`')].map(e => e.getBoundingClientRect().height))`)
	}
	require.Less(t, tallest(".levels tbody tr"), 64.0)
	require.Less(t, tallest(".alerts tbody tr"), 64.0)
	require.Less(t, tallest(".scores li"), 60.0)
	require.Less(t, eval[float64](t, b, `document.querySelector('.levels tbody tr').getBoundingClientRect().top`), 1100.0)
	require.True(t, eval[bool](t, b, `[...document.querySelectorAll('.levels .left')].every(e => e.checkVisibility())`),
		"what is left of the budget is there")
	b.Open(t, l.base+"/", 360, 844)
	b.requireFits(t, 360)
	require.True(t, eval[bool](t, b, `[...document.querySelectorAll('.tile')].every(e => e.scrollWidth <= e.clientWidth)`),
		"the name of a state fits its tile")
	b.Open(t, l.base+"/", wide, 844)
	require.Less(t, tallest(".scores li"), 36.0, "an agreement is one line")
	b.RequireClean(t, l.base)
}
