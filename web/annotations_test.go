package web

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/sla/annotation"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/annotations"
	"github.com/sloengine/sloengine/web/site"
)

const annotatedSLO = "/slo?id=insurance-unpaid/availability&group.product=TRVL10&range=1d"

func withAnnotations(t *testing.T, change ...func(*site.Options)) (*bench, *annotation.Store) {
	store, err := annotation.New(
		annotation.Options{File: filepath.Join(t.TempDir(), "annotations.json"), Now: func() time.Time {
			return noon
		}, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return newBench(t, append(change, func(o *site.Options) { o.Annotations = store })...), store
}

func TestAnnotationsAreOnEveryChart(t *testing.T) {
	b, store := withAnnotations(t, func(o *site.Options) { o.Incidents = newMemoryBook() })
	plain := b.get(annotatedSLO)
	require.False(t, strings.Contains(plain.Body.String(), `class="moment"`))

	for _, a := range []annotation.Annotation{
		{Kind: annotation.Deployment, Service: "insurance-unpaid", Text: "v1.2.3 " + hostileText,
			At: noon.Add(-10 * time.Minute), Author: "ci"},
		{Kind: annotation.Note, Text: "load test", At: noon.Add(-2 * time.Hour)},
		{Kind: annotation.Note, Service: "mdm", Text: "of another service", At: noon.Add(-time.Hour)},
	} {
		_, err := store.Add(a)
		require.NoError(t, err)
	}
	rec := b.get(annotatedSLO, "If-None-Match", plain.Header().Get("ETag"))
	require.Equal(t, http.StatusOK, rec.Code, "an annotation is a change of the page")
	page := rec.Body.String()
	check(t, page)
	require.False(t, strings.Contains(page, "of another service"))
	require.True(t,
		regexp.MustCompile(
			`<td class="\w+ noted" title="Fri 20 Nov 2026: [^"]+\n2026-11-20 10:00:07 UTC, note: load test\n2026-11-20 `+
				`11:50:07 UTC, deployment: v1.2.3 &lt;script`).MatchString(page), "the calendar marks the day")
	require.Equal(t, 1, strings.Count(page, " noted"))
	marked(t, page, 4, 2)
	_, list, _ := strings.Cut(page, `id="annotations"`)
	list, _, _ = strings.Cut(list, "</ol>")
	require.Less(t, strings.Index(list, "v1.2.3"), strings.Index(list, "load test"), "the latest first")
	require.Contains(t, list, "all services")
	require.False(t, strings.Contains(b.get("/slo?id=mdm/availability").Body.String(), "v1.2.3"))

	b.rep, b.web.Opt.Counts = richAgreements(t), withLimits(b.web.Opt.Counts)
	marked(t, b.get(trvlSLA).Body.String(), 2, 2)
	marked(t, b.get(firstIncident).Body.String(), 2, 1)
	_, lanes, _ := strings.Cut(b.get(firstIncident).Body.String(), `<ul class="lanes">`)
	require.Equal(t, 1, strings.Count(lanes, `class="moment"`), "the timeline of the alerts")
}

// marked reports an error unless a page has some plots at least, each of them with so many moments, and lists them.
func marked(t *testing.T, page string, plots, moments int) {
	t.Helper()
	check(t, page)
	require.False(t, strings.Contains(page, hostileText))
	got := strings.Split(page, `<div class="plotbox"`)[1:]
	require.GreaterOrEqual(t, len(got), plots)
	for _, p := range got {
		require.Equal(t, moments, strings.Count(p[:strings.Index(p, "</svg>")], `class="moment"`), p[:60])
		require.True(t, strings.Contains(p, "UTC, deployment: v1.2.3"))
	}
	_, list, _ := strings.Cut(page, `<ol class="annotations">`)
	list, _, _ = strings.Cut(list, "</ol>")
	require.Equal(t, moments, strings.Count(list, "<li>"))
}

// hostileText is what an annotation may hold that a page must not.
const hostileText = `<script>alert(1)</script>`

// annotations holds the API to the contract.
func (k *contract) annotations(t *testing.T) {
	var audits []string
	b, store := withAnnotations(t, func(o *site.Options) {
		o.Audit = func(_ *gin.Context, action, detail string, _ error) { audits = append(audits, action+" "+detail) }
		o.Caller = func(*gin.Context) string { return "ci" }
	})
	var a annotation.Annotation
	require.NoError(t, json.Unmarshal(
		k.sent(b, annotations.Path, `{"text":"v1 deployed","kind":"deployment","service":"shop"}`, 200), &a))
	require.Equal(t, "ci", a.Author)
	require.Contains(t, audits[0], `annotation.add id="`+a.ID+`"`)
	for body, status := range map[string]int{
		`{"text":"x","at":"2026-11-20T11:00:00Z"}`: 200, `{"text":"x","at":"2026-11-20t11:00:00z"}`: 200, `{}`: 400,
		`{"text":""}`: 400, `{"text":"x","kind":"spec"}`: 400, `{"text":"x","kind":"party"}`: 400,
		`{"text":"x","more":1}`: 400, `{"text":"x","at":"noon"}`: 400,
		`{"text":"x","at":"2020-01-01T00:00:00Z"}`: 400,
	} {
		k.sent(b, annotations.Path, body, status)
	}
	k.sent(b, annotations.Path, `{"text":"x"}`, 403, "Sec-Fetch-Site", "cross-site")
	k.sent(b, annotations.Path, `{"text":"x"}`, 415, "Content-Type", "text/plain")
	k.sent(b, annotations.Path, strings.Repeat(" ", site.MaxBody+1), 413)
	var list annotations.List
	require.NoError(t, json.Unmarshal(k.answer(b, http.MethodGet, annotations.Path+"?service=shop", 200), &list))
	require.Len(t, list.Items, 2)
	require.Equal(t, a.ID, list.Items[0].ID, "the latest first")
	k.answer(b, http.MethodGet, annotations.Path+"?from=2026-11-20t10:00:00z&to=2026-11-20T11:30:00Z", 200)
	k.answer(b, http.MethodGet, annotations.Path+"?from=noon", 400)
	k.sent(b, annotations.Path+"/"+a.ID+"/delete", `{}`, 200)
	k.sent(b, annotations.Path+"/"+a.ID+"/delete", `{}`, 404)
	k.sent(b, annotations.Path+"/"+a.ID+"/delete", `{"all":true}`, 400)
	require.Len(t, store.List("", slo.Span{}), 1)

	none := newBench(t)
	k.answer(none, http.MethodGet, annotations.Path, 501)
	k.sent(none, annotations.Path, `{"text":"x"}`, 501)
	k.sent(none, annotations.Path+"/x/delete", `{}`, 501)
}
