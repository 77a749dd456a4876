package web

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/web/public"
	"github.com/sloengine/sloengine/web/site"
)

// publish labels the SLOs of a report; groups are shown if their label says so.
func publish(rep *sla.Report, labels map[string]string, ids ...slo.ID) {
	for _, id := range ids {
		for _, r := range site.RowsOf(rep, id) {
			s := *r.SLO
			s.Labels = maps.Clone(s.Labels)
			if s.Labels == nil {
				s.Labels = map[string]string{}
			}
			maps.Copy(s.Labels, labels)
			for _, other := range site.RowsOf(rep, id) {
				other.SLO = &s
			}
		}
	}
}

var (
	justPublic = map[string]string{public.PublicLabel: "true"}
	withGroups = map[string]string{public.PublicLabel: "true", public.PublicGroupsLabel: "true"}
)

// published publishes all that the insurance has, groups of its quality only.
func published(b *bench) {
	publish(b.rep, justPublic, "insurance-unpaid/availability", "insurance-unpaid/latency",
		"insurance-unpaid/throughput", "mdm/availability")
	publish(b.rep, withGroups, "insurance-unpaid/quality")
}

func TestPublicGolden(t *testing.T) {
	b := newBench(t)
	published(b)
	golden(t, b, "/public", "public.html")
	golden(t, newBench(t), "/public", "public-empty.html")
}

func publicDoc(t *testing.T, b *bench) public.Status {
	rec := b.get("/public.json")
	require.Equal(t, http.StatusOK, rec.Code)
	require.Equal(t, "application/json", rec.Header().Get("Content-Type"))
	var p public.Status
	require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &p))
	return p
}

// Nothing but what was chosen may be told, and nothing of the inside.
func TestPublicTellsOnlyWhatWasChosen(t *testing.T) {
	b := newBench(t)
	p := publicDoc(t, b)
	require.Empty(t, p.Services)
	require.Empty(t, p.Maintenance)
	require.Contains(t, b.get("/public").Body.String(), "Nothing is published")

	publish(b.rep, justPublic, "insurance-unpaid/availability")
	b.rep.Version++
	page, doc := b.get("/public").Body.String(), b.get("/public.json").Body.String()
	check(t, page)
	for _, secret := range []string{
		"latency", "quality", "throughput", "mdm", "MEDCARE", "SOMLT", "TRVL10", "product", "db upgrade", "ops",
		"planned maintenance was", "specs/", "/engine", "/slo", "/api/", "/metrics", "openapi",
		"1.0.0", "abc1234", "warehouse", "team", "severity", "1,281,204", "sloengine",
	} {
		require.NotContains(t, page, secret)
		require.NotContains(t, doc, secret)
	}
	p = publicDoc(t, b)
	require.Len(t, p.Services, 1)
	l := p.Services[0].Levels
	require.Len(t, l, 1)
	require.Equal(t, "availability", l[0].Name)
	require.Nil(t, l[0].Group)
	good, bad := 1_281_204.0+410_022+96_120, 702.0+981+31
	require.InDelta(t, good/(good+bad), *l[0].Availability, 1e-12, "the sum of its groups")
	require.Equal(t, 0.999, l[0].Objective)
	require.Len(t, p.Maintenance, 1)
	require.Equal(t, public.Maintenance{Service: "insurance-unpaid", Levels: []string{"availability"},
		Start: noon.Add(-9 * time.Hour).Truncate(time.Second), End: noon.Add(-7 * time.Hour).Truncate(time.Second),
		When: "over"}, p.Maintenance[0])

	// The hooks have the last word.
	b.web.Opt.Public = func(id slo.ID, labels map[string]string) bool { return id == "mdm/availability" && labels == nil }
	b.rep.Version++
	p = publicDoc(t, b)
	require.Len(t, p.Services, 1)
	require.Equal(t, "mdm", p.Services[0].Service)
	b.web.Opt.PublicSLA = func(a *sla.Agreement) bool { return a.Name == "unpaid" }
	b.rep.Version++
	p = publicDoc(t, b)
	require.Equal(t, "insurance-unpaid", p.Services[0].Service)
	require.Len(t, p.Services[0].Agreements, 1)
	require.Nil(t, p.Services[0].Agreements[0].Group, "groups of what is not public stay inside")
	require.True(t, p.Services[0].Agreements[0].Lowest)
}

func TestPublicGroupsAndAgreements(t *testing.T) {
	b := newBench(t)
	a := *b.rep.SLAs[0].SLA
	for _, name := range []string{"availability", "latency", "throughput", "quality"} {
		a.Components = append(a.Components, sla.Component{Name: name, SLO: slo.NewID("insurance-unpaid", name), Weight: 1})
	}
	lowest := 101.0
	for i := range b.rep.SLAs {
		b.rep.SLAs[i].SLA = &a
		lowest = min(lowest, b.rep.SLAs[i].Score)
	}
	published(b)
	p := publicDoc(t, b)
	require.Len(t, p.Services, 2)
	s := p.Services[0]
	require.Equal(t, "insurance-unpaid", s.Service)
	require.Len(t, s.Levels, 3+3, "quality by group, the others added up")
	require.Equal(t, map[string]string{"product": "MEDCARE"}, s.Levels[3-1].Group)
	require.Len(t, s.Agreements, 1)
	require.Equal(t, lowest, *s.Agreements[0].Score)
	require.Contains(t, b.get("/public").Body.String(), "lowest of its groups")

	publish(b.rep, withGroups, "insurance-unpaid/availability", "insurance-unpaid/latency", "insurance-unpaid/throughput")
	b.rep.Version++
	p = publicDoc(t, b)
	require.Len(t, p.Services[0].Agreements, 3)
	require.Len(t, p.Services[0].Levels, 12)
	require.Nil(t, p.Services[0].Levels[11].Availability, "no data is null")
	require.Equal(t, public.UnknownNow, p.Services[0].Levels[11].State)

	publish(b.rep, map[string]string{public.PublicLabel: "false"}, "insurance-unpaid/latency")
	b.rep.Version++
	require.Empty(t, publicDoc(t, b).Services[0].Agreements, "an agreement is public if all its parts are")
}

func TestPublicDays(t *testing.T) {
	calls := 0
	b := newBench(t)
	counts := b.opt.Counts
	b.web.Opt.Counts = func(ctx context.Context, q []fold.ReadRequest) ([]fold.ReadResult, error) {
		calls++
		return counts(ctx, q)
	}
	publish(b.rep, justPublic, "insurance-unpaid/availability")
	l := publicDoc(t, b).Services[0].Levels[0]
	require.Len(t, l.Days, 90)
	require.Equal(t, "2026-11-20", l.Days[89].Day)
	require.Equal(t, "2026-08-23", l.Days[0].Day)
	require.Nil(t, l.Days[0].Availability, "not kept")
	require.NotNil(t, l.Days[80].Met)
	b.get("/public")
	b.get("/public")
	require.Equal(t, 1, calls, "made once for a report")
	b.rep.Version++
	b.get("/public")
	require.Equal(t, 1, calls, "the days stand for a minute")
	next := *b.rep
	next.Time = next.Time.Add(2 * time.Minute)
	b.rep = &next
	b.get("/public")
	require.Equal(t, 2, calls)

	// Without days the rest is shown, and it is tried again.
	var logged []string
	b.web.Opt.LogError = func(msg string, _ error) { logged = append(logged, msg) }
	b.web.Opt.Counts = func(context.Context, []fold.ReadRequest) ([]fold.ReadResult, error) {
		return nil, errors.New("busy")
	}
	again := *b.rep
	again.Version, again.Time = again.Version+1, again.Time.Add(2*time.Minute)
	b.rep = &again
	require.Nil(t, publicDoc(t, b).Services[0].Levels[0].Days)
	require.Len(t, logged, 1)
	b.web.Opt.Counts = counts
	require.Len(t, publicDoc(t, b).Services[0].Levels[0].Days, 90)
	b.web.Opt.Counts = nil
	b.rep.Version++
	require.Equal(t, http.StatusOK, b.get("/public").Code)
}

func TestPublicIsCacheableAndOpen(t *testing.T) {
	b := newBench(t, func(o *site.Options) {
		o.Allow = func(site.Permission) gin.HandlerFunc {
			return func(c *gin.Context) { c.AbortWithStatus(http.StatusUnauthorized) }
		}
	})
	published(b)
	for _, path := range []string{"/public", "/public.json", "/badge/mdm/availability.svg"} {
		rec := b.get(path)
		require.Equal(t, http.StatusOK, rec.Code, path)
		require.Equal(t, "public, max-age=30", rec.Header().Get("Cache-Control"))
		require.Empty(t, rec.Header().Get("Set-Cookie"))
		require.Contains(t, rec.Header().Get("Vary"), "Accept-Encoding")
		tag := rec.Header().Get("ETag")
		again := b.get(path, "If-None-Match", `"x", W/`+tag)
		require.Equal(t, http.StatusNotModified, again.Code)
		require.Zero(t, again.Body.Len())
		require.Equal(t, "public, max-age=30", again.Header().Get("Cache-Control"))
		require.Equal(t, rec.Body.String(), b.get(path, "Cookie", "theme=dark").Body.String(), "the same for everybody")
		head := b.do(http.MethodHead, path)
		require.Zero(t, head.Body.Len())
		require.Equal(t, rec.Header().Get("Content-Length"), head.Header().Get("Content-Length"))
	}
	tag := b.get("/public").Header().Get("ETag")
	b.rep.Version++
	next := *b.rep
	next.Time = noon.Add(time.Second)
	b.rep = &next
	require.Equal(t, http.StatusOK, b.get("/public", "If-None-Match", tag).Code, "a new report is a new page")
	require.Equal(t, "gzip", b.get("/public", "Accept-Encoding", "gzip").Header().Get("Content-Encoding"))
	require.Equal(t, "*", b.get("/public.json").Header().Get("Access-Control-Allow-Origin"))
	require.Equal(t, "same-origin", b.get("/public").Header().Get("Cross-Origin-Resource-Policy"))

	b.now = noon.Add(10 * time.Minute)
	require.Contains(t, b.get("/public").Body.String(), "These figures are from")
	require.True(t, publicDoc(t, b).Stale)
	b.rep = nil
	for _, path := range []string{"/public", "/public.json", "/badge/mdm/availability.svg"} {
		rec := b.get(path)
		require.Equal(t, http.StatusServiceUnavailable, rec.Code, path)
		require.Equal(t, "no-store", rec.Header().Get("Cache-Control"))
		require.Equal(t, "5", rec.Header().Get("Retry-After"))
	}
}

func TestPublicMaintenance(t *testing.T) {
	b := newBench(t)
	publish(b.rep, justPublic, "mdm/availability", "insurance-unpaid/latency")
	at := func(start time.Duration) slo.Correction {
		return slo.Correction{Name: "secret name", Author: "secret author", Reason: "secret reason",
			Start: noon.Add(start), Duration: time.Hour}
	}
	for _, id := range []slo.ID{"mdm/availability", "insurance-unpaid/latency", "insurance-unpaid/availability"} {
		for _, r := range site.RowsOf(b.rep, id) {
			r.SLO.Corrections = []slo.Correction{at(-30 * time.Minute), at(48 * time.Hour), at(24 * time.Hour),
				at(-100 * time.Hour), at(-40 * 24 * time.Hour)}
		}
	}
	var got []string
	for _, m := range publicDoc(t, b).Maintenance {
		got = append(got, m.When+" "+m.Service+" "+strings.Join(m.Levels, "+")+" "+m.Start.Format("02"))
	}
	require.Equal(t, []string{
		"ongoing insurance-unpaid latency 20", "ongoing mdm availability 20", "planned insurance-unpaid latency 21",
		"planned mdm availability 21", "planned insurance-unpaid latency 22", "planned mdm availability 22",
		"over insurance-unpaid latency 16", "over mdm availability 16",
	}, got)
	page := b.get("/public").Body.String()
	check(t, page)
	require.NotContains(t, page, "secret")
	require.Contains(t, page, "ongoing")
}

func TestHostilePublic(t *testing.T) {
	for i, bad := range hostile {
		b := newBench(t)
		s := *b.rep.SLOs[0].SLO
		s.ID, s.Description, s.Labels, s.GroupBy = slo.ID("svc"+bad+"/name"+bad), bad, withGroups,
			[]string{"product", bad + "x"}
		s.Corrections = []slo.Correction{
			{Name: bad, Author: bad, Reason: bad, Start: noon.Add(-time.Hour), Duration: time.Minute}}
		b.rep.SLOs = append(b.rep.SLOs, newSLOReport(&s, slo.Group{bad, bad}, 10, 1, 1))
		a := *b.rep.SLAs[0].SLA
		a.Name, a.Service, a.Description, a.Components = bad, bad, bad, []sla.Component{{SLO: s.ID}}
		b.rep.SLAs[0].SLA, b.rep.SLAs[0].Group = &a, slo.Group{bad}
		page := b.get("/public").Body.String()
		check(t, page)
		q := url.Values{site.GroupParam + "product": {bad}}.Encode()
		service, name, _ := strings.Cut(string(s.ID), "/")
		target := "/badge/" + url.PathEscape(service) + "/" + url.PathEscape(name) + ".svg?" + q
		rec := b.get(target)
		if strings.Contains(bad, "/") { // no service is called so: the router finds no badge there
			require.Equal(t, http.StatusNotFound, rec.Code, "%d", i)
			rec = b.get("/badge/no/no.svg")
		} else {
			require.Equal(t, http.StatusOK, rec.Code, "%d", i)
		}
		badge := rec.Body.String()
		own := regexp.MustCompile(`<script defer src="[^"<>]*"></script>`) // the page's, in its head
		require.Len(t, own.FindAllString(page, -1), 1, "%d", i)
		for _, body := range []string{own.ReplaceAllString(page, ""), badge} {
			for _, forbidden := range []string{"<img", "<script", "\u202e", "\u2066", "\u200f", "\x00", "\x1b"} {
				require.False(t, strings.Contains(body, forbidden), "%q of %d", forbidden, i)
			}
		}
		require.Less(t, len(page), 100_000)
		require.Less(t, len(badge), 4_000)
		wellFormedXML(t, badge)
		require.True(t, json.Valid(b.get("/public.json").Body.Bytes()))
	}
}

func wellFormedXML(t *testing.T, doc string) (elements []xml.StartElement) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(doc))
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return elements
		}
		require.NoError(t, err, doc)
		if e, ok := tok.(xml.StartElement); ok {
			elements = append(elements, e.Copy())
		}
	}
}

// BenchmarkPublic is the public view of 1,000 groups, rebuilt for each report, and sent
// again; a badge over all of them; and the engine page.
func BenchmarkPublic(b *testing.B) {
	for _, name := range []string{"new", "again", "badge", "engine"} {
		b.Run(name, func(b *testing.B) {
			x := newBench(b)
			x.rep = many(b, 1000)
			publish(x.rep, justPublic, x.rep.SLOs[0].SLO.ID)
			x.web.Opt.Counts = nil
			target := map[string]string{"badge": "/badge/insurance-unpaid/availability.svg", "engine": "/engine"}[name]
			if target == "" {
				target = "/public"
			}
			for b.Loop() {
				if name == "new" {
					x.rep.Version++
				}
				require.Equal(b, http.StatusOK, x.get(target).Code)
			}
		})
	}
}
