package web

import (
	"context"
	"regexp"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit/chromium"
)

const (
	trvlSLA    = "/sla?group.product=TRVL10&service=insurance-unpaid&sla=unpaid"
	weekReport = "/report?period=2026-W46"
)

// print makes the page look as it would on paper.
func (b *tab) print(t *testing.T, on bool) {
	t.Helper()
	media := ""
	if on {
		media = "print"
	}
	b.Do(t, chromium.Quiet(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: media}))
}

func newLiveSLABench(t *testing.T) *liveBench {
	l := newLiveBench(t, richAgreements(t))
	l.rep = l.report.Load()
	l.web.Opt.Counts = withLimits(l.web.Opt.Counts)
	return l
}

// TestBrowserSLAPages: list, detail and reports in both schemes and on a phone, clean by
// axe-core, without an error and without a request to another host.
func TestBrowserSLAPages(t *testing.T) {
	t.Parallel()
	l := newLiveSLABench(t)
	b := startBrowser(t)
	for _, c := range []struct {
		name, path, scheme string
		width              int64
	}{
		{"slas-light.png", "/slas", "light", wide},
		{"slas-dark.png", "/slas?sort=score", "dark", wide},
		{"slas-phone.png", "/slas", "light", 360},
		{"sla-light.png", trvlSLA, "light", wide},
		{"sla-dark.png", "/sla?group.product=SOMLT&service=insurance-unpaid&sla=unpaid&days=14", "dark", wide},
		{"sla-phone.png", trvlSLA, "dark", 360},
		{"report-light.png", weekReport, "light", wide},
		{"report-dark.png", "/report?period=2026-11&zone=Europe/Moscow", "dark", wide},
		{"report-phone.png", weekReport, "light", 360},
		{"report-problem.png", "/report?period=2026-W54", "light", 360},
	} {
		b.prefers(t, c.scheme, true)
		b.Open(t, l.base+c.path, c.width, 900)
		b.requireFits(t, c.width)
		b.axe(t)
		b.picture(t, c.name, true)
	}
	for _, e := range b.Errors() { // the address without such a week is answered with 400, which the browser notes
		require.Contains(t, e, "period=2026-W54")
	}
	require.Len(t, b.Hosts(), 1, "no request to another host")
}

// TestBrowserReportPrints: on paper there is the report and nothing to click.
func TestBrowserReportPrints(t *testing.T) {
	t.Parallel()
	l := newLiveSLABench(t)
	b := startBrowser(t)
	b.Open(t, l.base+weekReport, 1060, 900)
	const seen = `(s => [...document.querySelectorAll(s)].filter(e => e.getClientRects().length > 0 && ` +
		`e.checkVisibility() && getComputedStyle(e).visibility !== 'hidden').length)`
	require.Equal(t, 2, eval[int](t, b, seen+`('.lines tbody tr:has(.state)')`),
		"on the screen those that were met are folded")
	b.print(t, true)
	require.Zero(t, eval[int](t, b, seen+`('nav, form, button, .theme, .pager')`), "nothing to click")
	require.Equal(t, 13, eval[int](t, b, seen+`('.lines tbody tr:has(.state)')`), "every line")
	require.Equal(t, "page", eval[string](t, b, `getComputedStyle(document.querySelectorAll('.service')[1]).breakBefore`))
	require.Equal(t, "avoid", eval[string](t, b, `getComputedStyle(document.querySelector('.lines tr')).breakInside`))
	b.requireFits(t, 1060)
	b.picture(t, "report-print.png", true)
	pages := func() int {
		var paper page.PrintToPDFResult
		b.Do(t, chromedp.Func(func(ctx context.Context, t *chromedp.Target) (err error) {
			paper, err = cdp.Call(ctx, t, page.PrintToPDF, page.PrintToPDFParams{PreferCSSPageSize: new(true)})
			return err
		}))
		require.Equal(t, "%PDF-", string(paper.Data[:5]))
		return len(regexp.MustCompile(`/Type\s*/Page\b`).FindAll(paper.Data, -1))
	}
	folded := pages()
	require.LessOrEqual(t, folded, 4, "tables on paper, not the cards of a phone, which take nine")
	eval[bool](t, b, `document.querySelectorAll('details').forEach(d => d.open = true), true`)
	require.Equal(t, folded, pages(), "nothing is left out for being folded")
	b.RequireClean(t, l.base)
}

// TestBrowserSLAsWork: sorting, filtering and updates, with scripts and without.
func TestBrowserSLAsWork(t *testing.T) {
	t.Parallel()
	l := newLiveSLABench(t)
	b := startBrowser(t)
	const names = `[...document.querySelectorAll('.agreements tbody th')].map(e => ` +
		`e.textContent.split(/\s+/).filter(Boolean).slice(2, 5).join(' ')).join('|')`
	for _, scripts := range []bool{true, false} {
		b.scripts(t, scripts)
		b.Open(t, l.base+"/slas", wide, 900)
		require.Equal(t, 5, eval[int](t, b, `document.querySelectorAll('.agreements tbody tr').length`))
		eval[bool](
			t, b, `[...document.querySelectorAll('.agreements thead a')].find(a => a.textContent === 'Score').click(), true`)
		b.eventually(t,
			`location.search === '?sort=score' && document.querySelector('.agreements th[aria-sort=ascending]')?.textContent `+
				`=== 'Score'`, "sorted")
		first := eval[string](t, b, names)
		eval[bool](
			t, b, `[...document.querySelectorAll('.agreements thead a')].find(a => a.textContent === 'Score').click(), true`)
		b.eventually(t, `document.querySelector('.agreements th[aria-sort=descending]')?.textContent === 'Score'`,
			"the other way round")
		require.NotEqual(t, first, eval[string](t, b, names))
		eval[bool](
			t, b, `[...document.querySelectorAll('.tile')].find(a => a.textContent.includes('breached')).click(), true`)
		b.eventually(t,
			`document.querySelectorAll('.agreements tbody tr').length === 2 && location.search.includes('state=breached')`,
			"filtered")
		eval[bool](t, b, `document.querySelector('.agreements tbody th a').click(), true`)
		b.eventually(t, `location.pathname === '/sla' && document.querySelector('h1').textContent.includes('gold')`,
			"the row leads to its page")
	}
	b.RequireClean(t, l.base)
}

// TestBrowserSLANumbers: the chart's numbers are those of the table beside it.
func TestBrowserSLANumbers(t *testing.T) {
	t.Parallel()
	l := newLiveSLABench(t)
	b := startBrowser(t)
	b.Open(t, l.base+trvlSLA+"&days=14", wide, 900)
	b.eventually(t, isLive, "scripts have run")
	const chart = `JSON.parse(document.querySelector('[data-key=score]').dataset.plot).series[0].v.map(x => x == null ? ` +
		`'–' : String(x)).reverse().join('|')`
	const listed = `[...document.querySelector('.stack .data tbody').rows].map(r => r.cells[1].textContent.replace(/,/g,` +
		` '')).map(x => x === '–' ? x : String(+x)).join('|')`
	require.Equal(t, eval[string](t, b, listed), eval[string](t, b, chart))
	eval[bool](t, b, `(() => {
		const svg = document.querySelector('[data-key=score] svg.ts'), r = svg.getBoundingClientRect();
		svg.dispatchEvent(new PointerEvent('pointermove', {bubbles: true, clientX: r.left + r.width * 0.4,
			clientY: r.top + 20}));
		return true;
	})()`)
	b.eventually(t, `/score \d/.test(document.querySelector('.stack .readout').textContent)`, "the cursor says the score")
	b.RequireClean(t, l.base)
}
