package web

import (
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/sloengine/sloengine/internal/testkit/slotest"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/status"
)

// check parses a page and fails on anything that a strict policy forbids or
// that is not well-formed.
func check(t *testing.T, body string) *html.Node {
	t.Helper()
	wellFormed(t, body)
	doc, err := html.Parse(strings.NewReader(body))
	require.NoError(t, err)
	ids := map[string]bool{}
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if n.Data == "script" {
			require.Nil(t, n.FirstChild, "inline script")
			require.True(t, slices.ContainsFunc(n.Attr, func(a html.Attribute) bool {
				return a.Key == "src" && strings.Contains(a.Val, "/static/")
			}), "a script of no asset")
		}
		require.NotContains(
			t, []string{"style", "iframe", "object", "embed", "base", "foreignObject", "meta-refresh"}, n.Data)
		for _, a := range n.Attr {
			key, val := strings.ToLower(a.Key), strings.TrimSpace(a.Val)
			require.NotEqual(t, "style", key, "inline style on <%s>", n.Data)
			require.False(t, strings.HasPrefix(key, "on"), "handler %s on <%s>", key, n.Data)
			switch key {
			case "href", "src", "action", "formaction", "srcset", "poster", "xlink:href":
				away := key == "href" && n.Data == "a" && strings.HasPrefix(val, "https://") &&
					slices.Contains(n.Attr, html.Attribute{Key: "rel", Val: "noopener noreferrer"})
				require.True(t, strings.HasPrefix(val, "/") && !strings.HasPrefix(val, "//") || strings.HasPrefix(val, "#") || away,
					"%s=%q leaves the site", key, val)
			case "http-equiv":
				t.Fatalf("http-equiv %q", val)
			case "id":
				require.False(t, ids[val], "id %q is there twice", val)
				ids[val] = true
			}
		}
	}
	return doc
}

// wellFormed checks that every element is closed in order, which a browser's
// own parser would fix silently.
func wellFormed(t *testing.T, body string) {
	t.Helper()
	void := map[string]bool{"meta": true, "link": true, "img": true, "input": true, "br": true}
	var open []string
	z := html.NewTokenizer(strings.NewReader(body))
	for {
		switch z.Next() {
		case html.ErrorToken:
			require.ErrorIs(t, z.Err(), io.EOF)
			require.Empty(t, open)
			return
		case html.StartTagToken:
			if name, _ := z.TagName(); !void[string(name)] {
				open = append(open, string(name))
			}
		case html.EndTagToken:
			name, _ := z.TagName()
			require.NotEmpty(t, open, "</%s> closes nothing", name)
			require.Equal(t, open[len(open)-1], string(name))
			open = open[:len(open)-1]
		}
	}
}

func text(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}

func TestPagesAreStrict(t *testing.T) {
	b := newBench(t)
	for _, target := range []string{"/", "/slas", medcare, medcare + "&range=30d", "/engine", "/nothing",
		"/?state=ok&sort=burn&dir=desc&q=avail"} {
		rec := b.get(target)
		check(t, rec.Body.String())
		h := rec.Header()
		require.Contains(t, h.Get("Content-Security-Policy"), "default-src 'none'", target)
		require.Contains(t, h.Get("Content-Security-Policy"), "frame-ancestors 'none'", target)
		require.NotContains(t, h.Get("Content-Security-Policy"), "unsafe", target)
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"), target)
		require.Equal(t, "no-referrer", h.Get("Referrer-Policy"), target)
		require.Equal(t, "text/html; charset=utf-8", h.Get("Content-Type"), target)
	}
}

// hostile texts must show harmlessly wherever users' text can get to.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `javascript:alert(1)`,
	`{{.}}`, "</title></textarea></svg>",
	"\u202egnp.exe\u202c", "\u200f\u2066x", "a\x00b\nc\td\x1b[31m", "\xff\xfe", strings.Repeat("ж", 5000),
	"https://evil.example/", "&lt;b&gt;", "", slo.OtherGroup,
}

var (
	links  = regexp.MustCompile(`(href|value|data-zoom)="[^"]*"`)
	copied = regexp.MustCompile(`(?s)<pre.*?</pre>`) // texts to copy have a bound of their own
)

func TestHostileTextIsHarmless(t *testing.T) {
	for i, bad := range hostile {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			b := newBench(t)
			s := *b.rep.SLOs[0].SLO
			s.ID, s.Description = slo.ID("svc"+bad+"/name"+bad), bad
			s.GroupBy, s.Labels = []string{"product", bad + "x"}, map[string]string{bad: bad}
			s.Corrections = []slo.Correction{
				{Name: bad, Author: bad, Reason: bad, RRule: bad, Start: noon.Add(-time.Hour), Duration: time.Minute}}
			s.Indicator.Valid = slo.Selector{slotest.Matcher(t, "type", slo.OpEqual, bad)}
			r := newSLOReport(&s, slo.Group{bad, bad}, 10, 1, 1)
			b.rep.SLOs = append(b.rep.SLOs, r)
			a := *b.rep.SLAs[0].SLA
			a.Name, a.Service, a.Description = bad, bad, bad
			b.rep.SLAs[0].SLA, b.rep.SLAs[0].Group = &a, slo.Group{bad}
			b.rep.SLAs[0].Components[0].Name, b.rep.SLAs[0].Components[0].Note, b.rep.SLAs[0].Components[0].SLO = bad, bad, s.ID
			b.rep.Thresholds[0].Threshold = &slo.Threshold{Service: bad, Name: bad, Match: s.Indicator.Valid,
				Warning: time.Minute}
			b.rep.Warnings = []string{bad}
			b.eng.Reason, b.eng.State = bad, status.DiskLow
			b.eng.Disk.Dir, b.eng.Spec.Hash = bad, bad
			b.eng.Spec.Failed, b.eng.Spec.Problems = noon,
				[]spec.Problem{{Position: spec.Position{File: bad}, Message: bad, Suggestion: bad}}
			b.web.Opt.Version.Version = bad
			hostileEngine(b, bad)
			esc := url.QueryEscape(bad)
			pages := []string{"/", "/slas", "/engine", b.web.SLOHref(&r), "/?q=" + esc + "&service=" + esc + "&state=" + esc +
				"&slo=" + esc + "&sort=" + esc + "&label." + esc + "=" + esc, "/slo?id=" + esc, "/nope/" + url.PathEscape(bad)}
			for _, target := range pages {
				rec := b.get(target)
				require.Less(t, rec.Code, 500, target)
				check(t, rec.Body.String())
				for _, forbidden := range []string{"<img src=x", "\u202e", "\u2066", "\u200f", "\x00", "\x1b"} {
					require.False(t, strings.Contains(rec.Body.String(), forbidden), "%q in %s", forbidden, target)
				}
				require.Less(t, len(links.ReplaceAllString(copied.ReplaceAllString(rec.Body.String(), ""), "")), 250_000,
					"long text is cut, but for links: %s", format.Safe(target, format.MaxTitle))
			}
			// The link of the hostile group leads to its own page, whatever its text.
			require.Equal(t, http.StatusOK, b.get(b.web.SLOHref(&r)).Code)

			// Every machine-readable answer stays readable too.
			for _, target := range []string{"/api/v1/slos", "/api/v1/slas", "/api/v1/thresholds",
				"/api/v1/engine", "/api/v1/dlq"} {
				require.Equal(t, http.StatusOK, b.get(target).Code, target)
			}
		})
	}
}

// The list writes its rows without a template: each text must come out of the parser as it went in.
func TestRowsKeepEveryCharacter(t *testing.T) {
	odd := []string{`<>"'&`, `&amp;&lt;&#34;&quot`, "a=b&c=d#e?f%2Fg+h", "\u00e9\u00a0\U0001f600", "\xe9<", "\xf0\x9f\"",
		"`${x}`"}
	for _, odd := range slices.Concat(hostile, odd) {
		b := newBench(t)
		s := *b.rep.SLOs[0].SLO
		s.ID, s.Description, s.GroupBy = slo.NewID("svc"+odd, "name"+odd), "about"+odd, []string{"by" + odd}
		b.rep.SLOs = []sla.SLOReport{
			newSLOReport(&s, slo.Group{"a" + odd}, 10, 1, 1), newSLOReport(&s, slo.Group{"b"}, 10, 2, 1)}
		doc := check(t, b.get("/?open="+url.QueryEscape(string(s.ID))).Body.String())
		var rows []*html.Node
		for n := range doc.Descendants() {
			if n.Data == "tr" && slices.Contains(n.Parent.Parent.Attr, html.Attribute{Key: "class", Val: "levels slim"}) &&
				n.Parent.Data == "tbody" {
				rows = append(rows, n)
			}
		}
		require.Len(t, rows, 3, "the SLO and its groups")
		for i, group := range []slo.Group{{"b"}, {"b"}, {"a" + odd}} {
			var texts []string
			var link map[string]string // attributes of the first link
			for n := range rows[i].Descendants() {
				switch {
				case n.Data == "bdi":
					texts = append(texts, text(n))
				case n.Data == "a" && link == nil:
					link = map[string]string{}
					for _, a := range n.Attr {
						link[a.Key] = a.Val
					}
				}
			}
			require.Equal(t, []string{
				format.Safe(s.ID.Service(), format.MaxName), format.Safe(s.ID.Name(), format.MaxName),
				format.Safe(s.GroupBy[0], format.MaxName), format.Safe(group[0], format.MaxName)}, texts)
			require.Equal(t, map[string]string{
				"title": format.Safe(s.Description, format.MaxTitle), "href": b.web.SLOHref(&sla.SLOReport{SLO: &s, Group: group})},
				link)
		}
	}
}
