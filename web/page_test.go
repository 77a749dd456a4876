package web

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

const medcare = "/slo?group.product=MEDCARE&id=insurance-unpaid%2Favailability"

// empty takes all data out of a report.
func empty(b *bench) {
	for i := range b.rep.SLOs {
		b.rep.SLOs[i] = newSLOReport(b.rep.SLOs[i].SLO, b.rep.SLOs[i].Group, 0, 0, 0)
	}
	b.rep.SLAs, b.rep.Thresholds, b.rep.Traffic, b.alerts = nil, nil, nil, nil
}

func TestPagesGolden(t *testing.T) {
	hash := regexp.MustCompile(`\.[0-9a-f]{8}\.`)
	for _, c := range []struct {
		name, target string
		prepare      func(*bench)
	}{
		{"list", "/?refresh=10", func(*bench) {}},
		{"slas", "/slas", func(*bench) {}},
		{"engine", "/engine", func(*bench) {}},
		{"empty", "/", empty},
		{"starting", "/", func(b *bench) { b.rep, b.eng.State, b.eng.Progress = nil, status.Recovering, 0.42 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			c.prepare(b)
			rec := b.get(c.target)
			require.Equal(t, http.StatusOK, rec.Code)
			got := hash.ReplaceAllString(rec.Body.String(), ".HASH.")
			testkit.Golden(t, filepath.Join("testdata", c.name+".html"), got)
		})
	}
}

func rows(t *testing.T, body string) []string {
	t.Helper()
	var out []string
	for n := range check(t, body).Descendants() {
		if n.Data == "th" && strings.Contains(text(n), "/") {
			for _, a := range n.Attr {
				if a.Key == "scope" && a.Val == "row" && n.Parent.Parent.Parent.Attr != nil &&
					strings.HasPrefix(n.Parent.Parent.Parent.Attr[0].Val, "levels") {
					out = append(out, strings.Join(strings.Fields(text(n)), " "))
				}
			}
		}
	}
	return out
}

func TestListSortsAndFilters(t *testing.T) {
	b := newBench(t)
	all := rows(t, b.get("/?rows=groups").Body.String())
	require.Len(t, all, 13)
	require.Equal(t, []string{"insurance-unpaid / availability product TRVL10",
		"insurance-unpaid / availability product SOMLT", "insurance-unpaid / quality product TRVL10",
		"insurance-unpaid / throughput product TRVL10"}, all[:4], "a page fires, exhausted, at risk by what is left, no data")

	for query, want := range map[string]int{
		"service=mdm": 1, "state=no_data": 1, "state=exhausted": 1, "q=TrVl": 4, "q=team%3Dunpaid": 12,
		"slo=insurance-unpaid/latency": 3, "group=product%3DSOMLT": 4, "group=nonsense": 13,
		"label.team=unpaid": 12, "group.product=SOMLT": 4, "label.team=other": 0, "state=nonsense": 13, "q=zzz": 0,
	} {
		require.Len(t, rows(t, b.get("/?rows=groups&"+query).Body.String()), want, query)
	}
	for _, key := range []string{"name", "objective", "sli", "budget", "burn", "traffic", "coverage"} {
		up := rows(t, b.get("/?rows=groups&sort="+key).Body.String())
		down := rows(t, b.get("/?rows=groups&dir=desc&sort="+key).Body.String())
		require.ElementsMatch(t, all, up, key)
		require.NotEqual(t, up, down, key)
		if key == "budget" {
			require.Contains(t, up[12], "throughput product TRVL10", "no data is last in both directions")
			require.Contains(t, down[12], "throughput product TRVL10")
		}
	}
}

// An SLO has one row, which shows its worst group, and opens to show all of them.
func TestListBySLO(t *testing.T) {
	b := newBench(t)
	require.Equal(t, []string{
		"insurance-unpaid / availability 3 groups product TRVL10", "insurance-unpaid / quality 3 groups product TRVL10",
		"insurance-unpaid / throughput 3 groups product SOMLT", "insurance-unpaid / latency 3 groups product MEDCARE",
		"mdm / availability"}, rows(t, b.get("/").Body.String()),
		"a paging alert comes before an exhausted budget; an idle group is not the worst")
	body := b.get("/").Body.String()
	require.Contains(t, body, `aria-label="3 groups: 1 firing, 1 exhausted, 1 ok"`)
	require.Contains(t, body, `aria-label="3 groups: 1 no data, 2 ok"`)
	for query, want := range map[string]int{"service=mdm": 1, "state=firing": 1, "state=exhausted": 1, "state=at_risk": 1,
		"state=ok": 3, "state=no_data": 0, "slo=insurance-unpaid/latency": 3, "group=product%3DSOMLT": 4, "q=zzz": 0} {
		require.Len(t, rows(t, b.get("/?"+query).Body.String()), want, query)
	}
	require.Contains(t, b.get("/?q=medcare").Body.String(), "insurance-unpaid</bdi> /</span> <bdi>availability",
		"a row with one matching group is a row of that group")

	// Whatever the order, the row shows the worst group: an outage of one is never behind an ok of another.
	for _, order := range []string{"traffic", "traffic&dir=desc", "sli", "worst&dir=desc", "name"} {
		require.Contains(t, rows(t, b.get("/?sort="+order).Body.String()),
			"insurance-unpaid / availability 3 groups product TRVL10", order)
	}

	// A link opens the groups, worst first, and closes them; sorting keeps them open.
	toggle := regexp.MustCompile(`<a class="states" href="([^"]+)"[^>]*aria-expanded="(true|false)"`)
	link := func(body string, i int) (href, expanded string) {
		m := toggle.FindAllStringSubmatch(body, -1)[i]
		return html.UnescapeString(m[1]), m[2]
	}
	open, expanded := link(b.get("/?sort=name").Body.String(), 0)
	require.Equal(t, []string{"/?open=insurance-unpaid%2Favailability&sort=name", "false"}, []string{open, expanded})
	body = b.get(open).Body.String()
	require.Equal(t, []string{"insurance-unpaid / availability 3 groups product TRVL10",
		"insurance-unpaid / availability product TRVL10", "insurance-unpaid / availability product SOMLT",
		"insurance-unpaid / availability product MEDCARE"}, rows(t, body)[:4])
	closed, expanded := link(body, 0)
	require.Equal(t, []string{"/?sort=name", "true"}, []string{closed, expanded})
	second, _ := link(body, 1)
	require.Len(t, rows(t, b.get(second).Body.String()), 5+6)
	require.Contains(t, body, `href="/?dir=desc&amp;open=insurance-unpaid%2Favailability&amp;sort=name"`)

	// Readers can open many, but not all that there are.
	asked := "/?"
	for i := range 30 {
		asked += fmt.Sprintf("open=x%d&", i)
	}
	open, _ = link(b.get(asked).Body.String(), 0)
	require.Equal(t, 20, strings.Count(open, "open="))
	require.Contains(t, open, "open=x29")
	b.rep = many(t, 1000)
	id := url.QueryEscape(string(b.rep.SLOs[0].SLO.ID))
	body = b.get("/?open=" + id).Body.String()
	require.Len(t, rows(t, body), 51)
	require.Contains(t, body, `<a href="/?slo=`+id+`">and 950 more</a>`)
	require.NotContains(t, body, `<option value="product=product-00001">`, "too many groups to choose from")
}

func TestListPages(t *testing.T) {
	b := newBench(t, func(o *site.Options) { o.PageSize = 5 })
	var seen []string
	target := "/?rows=groups&sort=name"
	for range 3 {
		body := b.get(target).Body.String()
		seen = append(seen, rows(t, body)...)
		next := regexp.MustCompile(`<a href="([^"]+)" rel="next">`).FindStringSubmatch(body)
		if next == nil {
			break
		}
		target = html.UnescapeString(next[1])
	}
	require.Len(t, seen, 13)
	require.Equal(t, rows(t, newBench(t).get("/?rows=groups&sort=name").Body.String()), seen)
	require.Len(t, rows(t, b.get("/?rows=groups&start=9999").Body.String()), 5, "a page that is gone shows the first")
}

func TestListSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(*bench)
		want    []string
		without []string
	}{
		{"recovering without a report", func(b *bench) {
			b.rep, b.eng.State, b.eng.Progress = nil, status.Recovering, 0.42
		}, []string{"42% of the log replayed"}, []string{"<table"}},
		{"recovering with the last report", func(b *bench) {
			b.eng.State = status.Recovering
		}, []string{"the last report before the restart", "main id=\"main\" class=\"wrap stale\""}, nil},
		{"before the first tick", func(b *bench) {
			b.rep = nil
		}, []string{"Waiting for the first report"}, []string{"<table"}},
		{"old report", func(b *bench) {
			b.now = noon.Add(10 * time.Minute)
		}, []string{"These numbers are stale", "10m ago", "</svg>stale<", "wrap stale"}, nil},
		{"disk low", func(b *bench) {
			b.eng.State, b.eng.Reason = status.DiskLow, "900 MiB free"
		}, []string{"disk is nearly full", "900 MiB free"}, nil},
		{"poisoned", func(b *bench) { b.eng.State = status.Poisoned }, []string{"failed to make data durable"}, nil},
		{"stopping", func(b *bench) { b.eng.State = status.Stopping }, []string{"The engine is stopping"}, nil},
		{"bad reload", func(b *bench) {
			b.eng.Spec.Failed = noon
			for i := range 25 {
				b.eng.Spec.Problems = append(b.eng.Spec.Problems,
					spec.Problem{Position: spec.Position{File: "a.yaml", Line: i + 1, Column: 3}, Message: "unknown key",
						Suggestion: "did you mean objective?"})
			}
		}, []string{"last reload failed", "a.yaml:20:3: unknown key (did you mean objective?)", "and 5 more"},
			[]string{"a.yaml:21"}},
		{"no slos", func(b *bench) { b.rep = &sla.Report{Time: noon} }, []string{"no SLOs"}, []string{"<table"}},
		{"empty", empty, []string{"Nothing has been counted yet", `curl &#39;http://127.0.0.1:8080/api/v1/events&#39;`,
			`&#34;service&#34;:&#34;insurance-unpaid&#34;,&#34;type&#34;:&#34;application&#34;`, "no data"}, nil},
		{"raw beside corrected", func(*bench) {}, []string{"raw 99.908%", "raw 8.2%"}, []string{"Nothing has been counted"}},
		{"warnings", func(b *bench) {
			b.rep.Warnings = []string{"weights sum to 90"}
		}, []string{"1 warning about the spec", "weights sum to 90"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			c.change(b)
			rec := b.get("/?rows=groups")
			require.Equal(t, http.StatusOK, rec.Code)
			flat := strings.Join(strings.Fields(rec.Body.String()), " ")
			for _, w := range c.want {
				require.Contains(t, flat, w)
			}
			for _, w := range c.without {
				require.NotContains(t, flat, w)
			}
			check(t, rec.Body.String())
		})
	}
}

func TestFirstEventIsSafeToPaste(t *testing.T) {
	b := newBench(t, func(o *site.Options) { o.TokenNeeded = true })
	empty(b)
	require.Contains(t, b.get("/").Body.String(), "Authorization: Bearer $TOKEN")
	b.opt.ExternalURL = ""
	r, err := http.NewRequest(http.MethodGet, "/", nil)
	require.NoError(t, err)
	r.Host = "evil';rm -rf /;'"
	require.Equal(t, "http://127.0.0.1:8080", b.web.ExternalURL(r))
}

func TestDetail(t *testing.T) {
	b := newBench(t)
	for target, code := range map[string]int{
		medcare:                                 200,
		"/slo?id=mdm/availability":              200,
		"/slo?id=insurance-unpaid/availability": 302,
		"/slo?id=insurance-unpaid/availability&group.product=NOPE": 302,
		"/slo?id=nope/nope":                  404,
		"/slo":                               404,
		"/slo?id=mdm/availability&group.x=y": 302,
	} {
		rec := b.get(target)
		require.Equal(t, code, rec.Code, target)
		if code == 302 {
			require.True(t, strings.HasPrefix(rec.Header().Get("Location"), "/?slo="), rec.Header().Get("Location"))
		}
	}
	body := b.get(medcare).Body.String()
	for _, want := range []string{"14.4×", "1,281,204", "Raw, including planned maintenance", "db upgrade",
		"planned maintenance", "specs/insurance.yaml:12", "Show as a table"} {
		require.Contains(t, body, want)
	}
	require.Contains(t, b.get("/slo?id=insurance-unpaid/throughput&group.product=TRVL10").Body.String(),
		"The state is unknown, not good.")
	require.Contains(t, b.get("/slo?id=insurance-unpaid/throughput&group.product=TRVL10").Body.String(),
		"Coverage is 41.2%")
	require.Contains(t, b.get("/slo?id=insurance-unpaid/latency&group.product=TRVL10").Body.String(),
		"12 matching events had no duration")

	b.rep = nil
	require.Equal(t, http.StatusServiceUnavailable, b.get(medcare).Code)
}

func TestHistoryMayFail(t *testing.T) {
	var logged []string
	b := newBench(t, func(o *site.Options) {
		o.Counts = func(context.Context, []fold.ReadRequest) ([]fold.ReadResult, error) { return nil, errors.New("busy") }
		o.LogError = func(msg string, err error) { logged = append(logged, msg) }
	})
	require.Equal(t, http.StatusOK, b.get("/").Code)
	require.Len(t, logged, 1, "one failure is told, not one per row")
	require.Contains(t, b.get(medcare).Body.String(), "could not be read")
	b.web.Opt.Counts = nil
	require.Contains(t, b.get(medcare).Body.String(), "has no history")
	require.Len(t, rows(t, b.get("/").Body.String()), 5)
}

func TestSparklinesAreKept(t *testing.T) {
	calls, groups := 0, 0
	b := newBench(t)
	b.web.Opt.Counts = func(ctx context.Context, queries []fold.ReadRequest) ([]fold.ReadResult, error) {
		calls++
		for _, q := range queries {
			groups += len(q.Groups)
		}
		return b.counts(ctx, queries)
	}
	b.get("/")
	require.Equal(t, 2, calls, "the goroutine of the fold is asked once for the hours of the page, and once for the days")
	require.Equal(t, 5+13, groups)
	b.get("/?sort=name")
	next := *b.rep
	next.Version, next.Time = next.Version+1, next.Time.Add(10*time.Second)
	b.rep = &next
	b.get("/")
	require.Equal(t, []int{3, 5 + 13 + 5}, []int{calls, groups},
		"hours are of the report that they stand in, days are a minute old")
	b.get("/?sort=name")
	require.Equal(t, 3, calls)
}

func TestNotModified(t *testing.T) {
	b := newBench(t)
	for _, target := range []string{"/?refresh=10", "/slas", medcare, "/api/v1/slos", "/api/v1/slos/mdm/availability",
		"/api/v1/slas", "/api/v1/thresholds", "/api/v1/engine", "/openapi.json"} {
		first := b.get(target)
		tag := first.Header().Get("ETag")
		require.NotEmpty(t, tag, target)
		again := b.get(target, "If-None-Match", `"other", `+tag)
		require.Equal(t, http.StatusNotModified, again.Code, target)
		require.Zero(t, again.Body.Len(), target)
		require.Equal(t, first.Header().Get("Refresh"), again.Header().Get("Refresh"), target)
	}
	tag := b.get("/").Header().Get("ETag")
	next := *b.rep
	next.Version++
	b.rep = &next
	changed := b.get("/", "If-None-Match", tag)
	require.Equal(t, http.StatusOK, changed.Code, "a new report is a new page")
	tag = changed.Header().Get("ETag")
	b.eng.Ingest.Accepted++
	require.Equal(t, http.StatusNotModified, b.get("/", "If-None-Match", tag).Code, "it shows no ingest figures")
	b.eng.State = status.DiskLow
	require.Equal(t, http.StatusOK, b.get("/", "If-None-Match", tag).Code, "but the engine's state")
}

func TestRefreshIsAsked(t *testing.T) {
	b := newBench(t)
	require.Empty(t, b.get("/").Header().Get("Refresh"))
	require.Equal(t, "10", b.get("/?refresh=10").Header().Get("Refresh"))
	for _, bad := range []string{"1", "-5", "x", "99999", "10;url=//evil.example"} {
		require.Empty(t, b.get("/?refresh="+url.QueryEscape(bad)).Header().Get("Refresh"), bad)
	}
}

func TestAssets(t *testing.T) {
	b := newBench(t)
	style := b.asset("style.css")
	rec := b.get(style, "Accept-Encoding", "gzip")
	require.Equal(t, http.StatusOK, rec.Code)
	require.Equal(t, "gzip", rec.Header().Get("Content-Encoding"))
	require.Contains(t, rec.Header().Get("Cache-Control"), "immutable")
	z, err := gzip.NewReader(rec.Body)
	require.NoError(t, err)
	plain, err := io.ReadAll(z)
	require.NoError(t, err)
	require.Equal(t, b.get(style).Body.String(), string(plain))
	require.NotContains(t, string(plain), "http", "no outside address")
	require.NotContains(t, string(plain), "url(")
	require.Equal(t, http.StatusNotModified, b.get(style, "If-None-Match", rec.Header().Get("ETag")).Code)
	require.Equal(t, http.StatusNotFound, b.get("/static/style.css").Code)
}

func TestGzipAndHead(t *testing.T) {
	b := newBench(t)
	plain := b.get("/")
	require.Empty(t, plain.Header().Get("Content-Encoding"))
	small := b.get("/", "Accept-Encoding", "br, gzip;q=0.5")
	require.Equal(t, "gzip", small.Header().Get("Content-Encoding"))
	z, err := gzip.NewReader(small.Body)
	require.NoError(t, err)
	body, err := io.ReadAll(z)
	require.NoError(t, err)
	require.Equal(t, plain.Body.String(), string(body))
	require.Empty(t, b.get("/", "Accept-Encoding", "gzip;q=0").Header().Get("Content-Encoding"))
	head := b.do(http.MethodHead, "/")
	require.Equal(t, http.StatusOK, head.Code)
	require.Zero(t, head.Body.Len())
	require.Equal(t, plain.Header().Get("Content-Length"), head.Header().Get("Content-Length"))
}

func TestBehindAPrefix(t *testing.T) {
	b := newBench(t, func(o *site.Options) { o.ExternalPath = "/slo-engine/" })
	router := gin.New()
	b.web.Register(router.Group("/slo-engine"))
	b.router = router
	for _, page := range []string{"/", "/slas", medcare, "/engine"} {
		rec := b.get("/slo-engine" + page)
		require.Equal(t, http.StatusOK, rec.Code, page)
		for n := range check(t, rec.Body.String()).Descendants() {
			for _, a := range n.Attr {
				if (a.Key == "href" || a.Key == "src" || a.Key == "action") && !strings.HasPrefix(a.Val, "#") &&
					!strings.HasPrefix(a.Val, "https://grafana.example.org/") { // a link of the spec
					require.True(t, strings.HasPrefix(a.Val, "/slo-engine/"), "%s=%q", a.Key, a.Val)
					if a.Key != "action" && !strings.Contains(a.Val, "/openapi") {
						require.Less(t, b.get(a.Val).Code, 400, a.Val)
					}
				}
			}
		}
	}
	for _, bad := range []string{"slo", "//evil.example", "/a?b", "/a b", `/a"b`} {
		_, err := New(site.Options{Numbers: b.opt.Numbers, Condition: b.opt.Condition, Now: b.opt.Now,
			Address: site.Address{ExternalPath: bad}})
		require.Error(t, err, bad)
	}
}

func TestNewRefusesBadOptions(t *testing.T) {
	good := newBench(t).opt
	for name, change := range map[string]func(*site.Options){
		"no report":     func(o *site.Options) { o.Report = nil },
		"no engine":     func(o *site.Options) { o.Engine = nil },
		"no clock":      func(o *site.Options) { o.Now = nil },
		"page size":     func(o *site.Options) { o.PageSize = 100_000 },
		"negative time": func(o *site.Options) { o.StaleAfter = -1 },
	} {
		o := good
		change(&o)
		_, err := New(o)
		require.Error(t, err, name)
	}
}

func many(t testing.TB, n int) *sla.Report {
	rep := insurance(t)
	s := *rep.SLOs[0].SLO
	s.Corrections = nil
	rep.SLOs = nil
	for i := range n {
		rep.SLOs = append(rep.SLOs, newSLOReport(&s, slo.Group{fmt.Sprintf("product-%05d", i)}, uint64(1_000_000+i),
			uint64(i%1200), float64(i%5)))
	}
	return rep
}

// fleetOfSLOs is a report of SLOs with some groups each.
func fleetOfSLOs(t testing.TB, slos, groups int) *sla.Report {
	rep := insurance(t)
	rep.SLOs = rep.SLOs[:1:1]
	from := *rep.SLOs[0].SLO
	from.Corrections = nil
	rep.SLOs = nil
	for i := range slos {
		s := from
		s.ID = slo.NewID(fmt.Sprintf("service-%02d", i%50), fmt.Sprintf("slo-%04d", i))
		for k := range groups {
			rep.SLOs = append(rep.SLOs, newSLOReport(&s, slo.Group{fmt.Sprintf("product-%03d", k)},
				uint64(1_000_000+i), uint64((i*groups+k)%1200), float64(k%5)))
		}
	}
	slices.SortStableFunc(rep.SLOs, func(a, b sla.SLOReport) int { return site.CompareReports(&a, &b) })
	return rep
}

// sameCounts answers at once: the same in each span.
func sameCounts(_ context.Context, queries []fold.ReadRequest) ([]fold.ReadResult, error) {
	out := make([]fold.ReadResult, len(queries))
	for i, q := range queries {
		bins := slices.Repeat([][]uint64{{1000, 1}}, len(q.Spans))
		out[i] = fold.ReadResult{Known: true, Groups: slices.Repeat([][][]uint64{bins}, len(q.Groups)),
			Observed: []slo.Span{{From: q.Spans[0].From, To: noon}}}
	}
	return out, nil
}

// BenchmarkListPage is the first page of 1,000 SLOs with 10,000 groups: rebuilt for each report, with a row for each
// group, and for the next reader of the same report.
func BenchmarkListPage(b *testing.B) {
	for name, target := range map[string]string{"new": "/", "new-search": "/?q=slo-0000&sort=burn", "again": "/",
		"new-groups": "/?rows=groups", "new-minute": "/"} {
		b.Run(name, func(b *testing.B) {
			x := newBench(b)
			x.rep, x.web.Opt.Counts = fleetOfSLOs(b, 1000, 10), sameCounts
			x.get(target)
			before := cpuTime()
			for b.Loop() {
				if name != "again" { // sparklines are of a report's time
					x.rep.Version, x.rep.Time = x.rep.Version+1, x.rep.Time.Add(10*time.Second)
				}
				if name == "new-minute" { // the matrix of days is drawn again
					x.rep.Time = x.rep.Time.Add(time.Minute)
				}
				require.Equal(b, http.StatusOK, x.get(target, "Accept-Encoding", "gzip").Code)
			}
			b.ReportMetric(float64((cpuTime()-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
}

func BenchmarkDetailPage(b *testing.B) {
	x := newBench(b)
	for b.Loop() {
		require.Equal(b, http.StatusOK, x.get(medcare+"&range=30d", "Accept-Encoding", "gzip").Code)
	}
}

// The SLOs of the engine itself stand below those of its users, whatever their state.
func TestRowsOfTheEngineComeLast(t *testing.T) {
	b := newBench(t)
	b.rep = fleetOfSLOs(t, 3, 1)
	own := *b.rep.SLOs[0].SLO
	own.ID = slo.NewID(incident.EngineService, "requests")
	worst := newSLOReport(&own, slo.Group{"product-000"}, 1000, 900, 50)
	b.rep.SLOs = append(b.rep.SLOs, worst)
	require.Equal(t, slo.StateExhausted, worst.State)
	links := regexp.MustCompile(`id=(service-[0-9]+|sloengine)%2F`).FindAllStringSubmatch(b.get("/").Body.String(), -1)
	var services []string
	for _, l := range links {
		services = append(services, l[1])
	}
	require.Len(t, services, 8, "in the list and in the days")
	require.Equal(t, []string{"sloengine", "sloengine"}, []string{services[3], services[7]})
}

// Whatever the filter shows, the headline, the alerts and the agreements are about everything.
func TestFiltersHideNoTrouble(t *testing.T) {
	b := newBench(t)
	headline := regexp.MustCompile(`<h1>([^<]+)</h1>`)
	all := b.get("/").Body.String()
	require.Equal(t, "1 SLO firing, 1 exhausted, 1 at risk", headline.FindStringSubmatch(all)[1])
	require.Less(t, strings.Index(all, `id="alerts"`), strings.Index(all, `id="levels"`), "what fires comes first")
	for query, shown := range map[string]string{"service=mdm": "1 of 5 shown", "q=zzz": "0 of 5 shown",
		"state=ok": "3 of 5 shown"} {
		body := b.get("/?" + query).Body.String()
		require.Equal(t, headline.FindStringSubmatch(all)[1], headline.FindStringSubmatch(body)[1], query)
		require.Contains(t, body, shown)
		require.Contains(t, body, "ErrorBudgetBurnPage", query)
		require.Contains(t, body, `<bdi>unpaid</bdi>`, query)
		require.Less(t, strings.Index(body, `id="levels"`), strings.Index(body, `id="alerts"`),
			"what was looked for comes first")
		require.Contains(t, body, `<a class="tile bad" href="/?state=firing">`, "a tile leads to as many as it counts")
	}
	require.Contains(t, all, "5 SLOs (13 with breakdown) in 2 services")
	require.Contains(t, b.get("/slas?q=somlt").Body.String(), "1 of 3 shown")
	require.Equal(t, headline.FindStringSubmatch(b.get("/slas").Body.String())[1],
		headline.FindStringSubmatch(b.get("/slas?q=trvl").Body.String())[1])
}

// What pages now comes before what was spent weeks ago.
func TestPagesComeFirst(t *testing.T) {
	b := newBench(t)
	first := func() []string { return rows(t, b.get("/?rows=groups").Body.String())[:2] }
	require.Equal(t, []string{"insurance-unpaid / availability product TRVL10",
		"insurance-unpaid / availability product SOMLT"}, first())
	page := &b.alerts[slices.IndexFunc(b.alerts, func(a state.Alert) bool { return a.Urgent && a.State == state.Firing })]
	page.State = state.Pending
	require.Equal(t, "insurance-unpaid / availability product SOMLT", first()[0])
	page.State, page.Group, page.Fingerprint = state.Firing, nil, "of all"
	require.Equal(t, "insurance-unpaid / availability product SOMLT", first()[0],
		"a page about all groups raises none of them")
	page.SLO, page.Service = "mdm/availability", "mdm"
	require.Equal(t, "mdm / availability", rows(t, b.get("/").Body.String())[0], "but the SLO")
}

func TestServices(t *testing.T) {
	b := newBench(t)
	body := text(check(t, b.get("/services").Body.String()))
	require.Contains(t, body,
		"1 paging alert is firing, 2 tickets are firing, 1 of 12 error budgets is exhausted, 2 are at risk, 1 of 3 SLAs is "+
			"breached, and 1 SLO group has no data.")
	require.Contains(t, body, "The error budget is ok.")
	require.Less(t, strings.Index(body, "1 paging alert is firing"), strings.Index(body, "The error budget is ok"))
	tag := b.get("/services").Header().Get("ETag")
	require.Equal(t, http.StatusNotModified, b.get("/services", "If-None-Match", tag).Code)
	b.alerts = nil
	require.Equal(t, http.StatusOK, b.get("/services", "If-None-Match", tag).Code)
	b.rep = nil
	require.Equal(t, http.StatusOK, b.get("/services").Code)
}

// A raw value stands beside the other only where a reader sees a difference.
func TestRawOnlyWhereItDiffers(t *testing.T) {
	b := newBench(t)
	require.Contains(t, b.get("/?rows=groups").Body.String(), "raw 99.908%")
	require.Contains(t, b.get(medcare).Body.String(), "Raw, including planned maintenance")
	r := &b.rep.SLOs[0]
	r.Raw = slo.NewBudget(r.SLO.Objective, slo.Counts{Good: r.Budget.Counts.Good + 10, Bad: r.Budget.Counts.Bad})
	b.rep.Version++
	require.NotContains(t, b.get("/").Body.String(), ">raw 9")
	require.Contains(t, b.get(medcare).Body.String(), "Raw, including planned maintenance", "the counts differ")
	r.Raw = r.Budget
	b.rep.Version++
	require.NotContains(t, b.get(medcare).Body.String(), "Raw, including planned maintenance")
}

func TestTitlesAndBreadcrumbs(t *testing.T) {
	b := newBench(t)
	for target, want := range map[string][]string{
		medcare: {"insurance-unpaid/availability, product MEDCARE",
			"SLOs|insurance-unpaid|availability|MEDCARE"},
		"/slo?id=mdm/availability": {"mdm/availability", "SLOs|mdm|availability"},
		"/sla?service=insurance-unpaid&sla=unpaid&group.product=SOMLT": {"insurance-unpaid/unpaid, product SOMLT",
			"SLAs|insurance-unpaid|unpaid|SOMLT"},
	} {
		body := b.get(target).Body.String()
		require.Contains(t, body, "<title>"+want[0]+" · sloengine</title>")
		_, crumbs, found := strings.Cut(body, `<nav class="crumbs" aria-label="Breadcrumb"><ol>`)
		require.True(t, found, target)
		crumbs, _, _ = strings.Cut(crumbs, "</ol>")
		var got []string
		for _, m := range regexp.MustCompile(`<bdi>([^<]*)</bdi>`).FindAllStringSubmatch(crumbs, -1) {
			got = append(got, m[1])
		}
		require.Equal(t, want[1], strings.Join(got, "|"))
		require.Equal(t, len(got)-1, strings.Count(crumbs, "href="), "all but the page itself lead somewhere")
		for _, m := range regexp.MustCompile(`href="([^"]+)"`).FindAllStringSubmatch(crumbs, -1) {
			require.Equal(t, http.StatusOK, b.get(html.UnescapeString(m[1])).Code, m[1])
		}
	}
}

// A budget that was spent many times over leaves a chart that can be read.
func TestBurnDownIsCut(t *testing.T) {
	b := newBench(t)
	b.rep.SLOs[0] = newSLOReport(b.rep.SLOs[0].SLO, b.rep.SLOs[0].Group, 800, 200, 200)
	body := b.get(medcare).Body.String()
	require.Contains(t, body, "The axis ends at −300%. The line continues to −19,900%.")
	for _, m := range regexp.MustCompile(`<text class="y"[^>]*>([^<]*)</text>`).FindAllStringSubmatch(body, -1) {
		require.LessOrEqual(t, len([]rune(m[1])), 6, "%s is wider than the margin", m[1])
	}
	require.NotContains(t, newBench(t).get(medcare).Body.String(), "The axis ends at")
}

func TestWarningAndCriticalLinesDiffer(t *testing.T) {
	b := newSLABench(t)
	b.rep = richAgreements(t)
	body := b.get("/sla?service=insurance-unpaid&sla=unpaid&group.product=SOMLT").Body.String()
	for _, line := range []string{"warning", "critical"} {
		require.Equal(t, 2, strings.Count(body, `class="r-`+line), "the %s line and its key", line)
	}
}

// The attributes are those of the group and the range that everything beside them is about, or they are not there.
func TestAttributesAreOfTheSameRange(t *testing.T) {
	traffic := history.NewTrafficLog()
	b := newBench(t, func(o *site.Options) { o.Traffic = traffic })
	observe := func(at time.Time, n uint64) {
		rep := trafficReport(
			at, map[string]uint64{"timeout": 9 * n, "refused": 4 * n, "a": n, "b": n, "c": n, "d": n, "e": n})
		for i := range rep.Traffic {
			rep.Traffic[i].Service = "mdm"
		}
		traffic.Observe(rep)
	}
	for m := time.Duration(60); m > 0; m-- {
		observe(noon.Add(-m*time.Minute), uint64(60-m))
	}
	observe(noon, 100)
	const page = "/slo?id=mdm/availability"
	known := regexp.MustCompile(`which is not this range. <a href="([^"]+)#attribution">`).FindStringSubmatch(
		b.get(page + "&range=1d").Body.String())
	require.NotNil(t, known)
	require.Contains(t, b.get(html.UnescapeString(known[1])).Body.String(), "Bad events by <bdi>error_type</bdi>")
	hour := b.get(page + "&range=1h").Body.String()
	require.NotContains(t, hour, "which is not this range")
	_, table, found := strings.Cut(hour, "Bad events by <bdi>error_type</bdi>")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "</table>")
	sum := 0.0
	for _, m := range regexp.MustCompile(`<span class="note">([0-9.]+)%</span>`).FindAllStringSubmatch(table, -1) {
		part, err := strconv.ParseFloat(m[1], 64)
		require.NoError(t, err)
		sum += part
	}
	require.InDelta(t, 100, sum, 0.01, "with the rest, everything is there")
	require.Contains(t, table, "2 more")
}

// A notice is on the list of SLOs and on no other page.
func TestNotice(t *testing.T) {
	on := true
	b := newBench(t, func(o *site.Options) {
		o.ExternalPath = "/slo"
		o.Notice = func(at time.Time) (site.Notice, bool) {
			return site.Notice{Title: "mdm fails at <" + at.Format("15:04") + ">",
				Links: []site.Link{{Text: "look", Href: "/silences"}}}, on
		}
	})
	require.Contains(t, b.get("/").Body.String(),
		"<h2>mdm fails at &lt;12:00&gt;</h2><p> <a href=\"/slo/silences\">look</a></p>")
	require.NotContains(t, b.get("/services").Body.String(), "mdm fails at")
	on = false
	b.rep.Version++
	require.NotContains(t, b.get("/").Body.String(), "mdm fails at")
}

// The way to a page is shown once.
func TestOneBreadcrumb(t *testing.T) {
	b := newBench(t)
	for _, page := range []string{medcare, site.DeadLetterListPath, site.DeadLetterPath + "?id=sink-warehouse-900-0",
		site.DeadLetterConfirmPath + "?action=discard&origin=sink"} {
		require.Equal(t, 1, strings.Count(b.get(page).Body.String(), `class="crumb`), page)
	}
	x, book := withIncidents(t)
	someIncidents(book)
	require.Equal(t, 1, strings.Count(x.get(firstIncident).Body.String(), `class="crumb`))
}

// A breached agreement says which component breaches it.
func TestAgreementsSayWhy(t *testing.T) {
	b := newBench(t)
	why := `<span class="hot">availability below objective`
	require.Equal(t, 1, strings.Count(b.get("/").Body.String(), why))
	require.Equal(t, 1, strings.Count(b.get("/slas").Body.String(), why), "those that are met say nothing")
	i := slices.IndexFunc(b.rep.SLAs, func(r sla.SLAReport) bool { return r.Breached })
	r := &b.rep.SLAs[i]
	a := *r.SLA
	a.NoData = sla.NoDataBad
	r.SLA, r.Components = &a, slices.Clone(r.Components)
	for k := range r.Components[1:] {
		r.Components[1+k].HasData = false
	}
	b.rep.Version++
	require.Regexp(t, why+`, \w+, \w+ and \w+ without data`, b.get("/").Body.String())
}

// After a start, what is ok by old counts only waits for data until a first event, or until the engine has run for as
// long as the shortest burn window. It is never green.
func TestWaitingForData(t *testing.T) {
	b := newBench(t)
	b.alerts = nil
	var rest []sla.SLOReport
	for _, r := range b.rep.SLOs {
		if r.SLO.ID == "mdm/availability" {
			r.Burns = slices.Clone(r.Burns)
			r.Burns[0] = slo.Burn{Window: r.Burns[0].Window, Observed: 0.1}
			rest = append(rest, r)
		}
	}
	require.Len(t, rest, 1)
	b.rep.SLOs, b.rep.SLAs = rest, nil
	const word = "waiting for data"
	pages := []string{"/", "/services", "/slo?id=mdm/availability", "/badge/mdm/availability.svg"}
	list := b.get("/").Body.String()
	require.Contains(t, list, "<h1>Waiting for data</h1>")
	require.Contains(t, list, `<a class="tile wait" href="/?state=waiting">`)
	require.Len(t, rows(t, b.get("/?state=waiting").Body.String()), 1)
	require.Empty(t, rows(t, b.get("/?state=ok").Body.String()))
	require.Contains(t, b.get("/services").Body.String(), "Waiting for the first events since the start.")
	api := func() string { return b.get("/api/v1/slos/mdm/availability").Body.String() }
	for _, page := range pages {
		body := b.get(page).Body.String()
		require.Contains(t, body, word, page)
		require.NotContains(t, body, `</svg>ok<`, page)
		require.NotContains(t, body, "#1b7a4c", page)
	}
	require.Contains(t, api(), `"waiting":true`)
	require.Contains(t, api(), `"state":"ok"`, "values of the state are as before")

	for name, change := range map[string]func(*slo.Burn){
		"an event":          func(x *slo.Burn) { x.HasData = true },
		"the window passed": func(x *slo.Burn) { x.Observed = 1 },
	} {
		was := b.rep.SLOs[0].Burns[0]
		change(&b.rep.SLOs[0].Burns[0])
		b.rep.Version++
		for _, page := range pages {
			require.NotContains(t, b.get(page).Body.String(), word, "%s: %s", name, page)
		}
		require.Contains(t, api(), `"waiting":false`, name)
		b.rep.SLOs[0].Burns[0] = was
	}
}

// The first page shows the days of each SLO, each as bad as its worst group was, worst first.
func TestDaysOfAllSLOs(t *testing.T) {
	b := newBench(t)
	var asked []fold.ReadRequest
	b.web.Opt.Counts = func(ctx context.Context, queries []fold.ReadRequest) ([]fold.ReadResult, error) {
		asked = append(asked, queries...)
		out, err := b.counts(ctx, queries)
		for i, q := range queries {
			if q.ID == "mdm/availability" && len(q.Spans) >= 30 { // a bad day for the only group
				bins := slices.Clone(out[i].Groups[0])
				for k := range bins {
					bins[k] = []uint64{1000, 0}
				}
				bins[3] = []uint64{900, 100}
				out[i].Groups = [][][]uint64{bins}
			}
		}
		return out, err
	}
	body := b.get("/").Body.String()
	_, matrix, found := strings.Cut(body, `<table class="matrix">`)
	require.True(t, found)
	matrix, _, _ = strings.Cut(matrix, "</table>")
	require.Equal(t, 5, strings.Count(matrix, `<svg class="days"`))
	at := strings.Index(matrix, `id=mdm%2Favailability`)
	require.Positive(t, at)
	row, _, _ := strings.Cut(matrix[at:], "</tr>")
	require.Contains(t, row, `aria-label="30 days, 1 missed the objective"`)
	require.Regexp(t, `<path class="bad" d="M30 0h9v10h-9z"><title>Sun 25 Oct: 90\.0+%, missed by far</title>`, row)
	require.NotContains(t, body, `<details id="by-day" open>`, "folded while an alert fires")
	b.alerts = nil
	b.rep.Version++
	require.Contains(t, b.get("/").Body.String(), `<details id="by-day" open>`)

	// A page of many SLOs reads the days of some, and of some groups each.
	b.rep, asked = fleetOfSLOs(t, 100, 50), nil
	b.web.Opt.Counts = func(ctx context.Context, queries []fold.ReadRequest) ([]fold.ReadResult, error) {
		asked = append(asked, queries...)
		return sameCounts(ctx, queries)
	}
	require.Contains(t, b.get("/").Body.String(), "30 of 100 SLOs, worst first")
	counts := 0
	for _, q := range asked {
		if len(q.Spans) >= 30 {
			counts += len(q.Groups) * len(q.Spans)
		}
	}
	require.LessOrEqual(t, counts, 30*20*30)
}
