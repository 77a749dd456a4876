package public

import (
	"fmt"
	"html"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

// badgeText is what a badge says.
type badgeText struct {
	Left, Right string
	Label       string // for those who cannot see it
	Fill        string
}

// The colours of a badge carry white text at 4.5:1 or more.
const (
	badgeOK   = "#1b7a4c"
	badgeRisk = "#8f5b00"
	badgeBad  = "#b3261e"
	badgeNone = "#5c6970"
	badgeLeft = "#3d474c"
)

// shownBadge is to how many characters each half of a badge is cut.
const shownBadge = 40

// badge answers with a picture of how an SLO does. Who may not see the SLO, and who
// asks for one that is not there, get the same answer.
func (pub *Handler) badge(c *gin.Context) {
	name, ok := strings.CutSuffix(c.Param("slo"), ".svg")
	if !ok {
		pub.NotFound(c)
		return
	}
	openToAll(c)
	v := pub.View()
	if v.Rep == nil {
		pub.publicNotYet(c)
		pub.sendBadge(
			c, http.StatusServiceUnavailable, badgeText{"status", "starting", "The status is not available yet", badgeNone})
		return
	}
	rows := pub.badgeRows(c, v.Rep, slo.NewID(c.Param("service"), name))
	private := len(rows) > 0 && !pub.badgeIsPublic(c, rows[0].SLO)
	if len(rows) == 0 || private && !pub.Opt.May(c, site.Read) {
		c.Header("Cache-Control", "no-store")
		pub.sendBadge(c, http.StatusNotFound, badgeText{"status", "unknown", "No such public SLO", badgeNone})
		return
	}
	c.Header("Cache-Control", PublicAge)
	if private {
		c.Header("Cache-Control", "private, no-cache")
		c.Writer.Header().Del("Access-Control-Allow-Origin")
		c.Header("Cross-Origin-Resource-Policy", "same-origin")
	}
	if len(site.Prefixed(c.Request.URL.Query(), site.GroupParam)) > 0 {
		pub.sendBadge(c, http.StatusOK, newBadge(rows, v.Stale))
		return
	}
	pub.sendBadge(c, http.StatusOK, pub.published.badgeOf(v.Key(), rows[0].SLO.ID, func() badgeText {
		return newBadge(rows, v.Stale)
	}))
}

// badgeRows are the groups that a badge is about: the one that the query names, or all.
func (pub *Handler) badgeRows(c *gin.Context, rep *sla.Report, id slo.ID) []*sla.SLOReport {
	want := site.Prefixed(c.Request.URL.Query(), site.GroupParam)
	return slices.DeleteFunc(site.RowsOf(rep, id), func(r *sla.SLOReport) bool {
		return !site.GroupHas(r.SLO.GroupBy, r.Group, want)
	})
}

// badgeIsPublic reports whether anybody may see the badge. A value of a group is a
// secret of its own.
func (pub *Handler) badgeIsPublic(c *gin.Context, s *slo.SLO) bool {
	return pub.isPublic(s) && (publicGroups(s) || len(site.Prefixed(c.Request.URL.Query(), site.GroupParam)) == 0)
}

func newBadge(rows []*sla.SLOReport, stale bool) badgeText {
	x := combine(rows)
	state := x.state()
	b := badgeText{Left: format.Safe(x.slo.ID.Name(), shownBadge), Right: string(state)}
	b.Fill = map[PublicState]string{Operational: badgeOK, DegradedNow: badgeRisk, Outage: badgeBad,
		UnknownNow: badgeNone}[state]
	if len(rows) == 1 && len(rows[0].Group) > 0 {
		var values []string
		for _, v := range rows[0].Group {
			values = append(values, format.GroupValue(v))
		}
		b.Left = format.Safe(b.Left+" "+strings.Join(values, " "), shownBadge)
	}
	if x.budget.HasData {
		b.Right = format.Percent(x.budget.SLI, format.Decimals(x.slo.Objective))
		if state == DegradedNow || state == Outage {
			b.Right += " " + string(state)
		}
	}
	if x.waiting() {
		b.Right = chart.Waiting.Word
	}
	b.Label = fmt.Sprintf("%s / %s: %s, %s, %s", format.Safe(x.slo.ID.Service(), shownBadge), b.Left,
		strings.TrimSuffix(b.Right, " "+string(state)), state, format.Window(x.slo.Window))
	if stale {
		b.Right, b.Fill = "stale", badgeNone
		b.Label += " (out of date)"
	}
	return b
}

func (pub *Handler) sendBadge(c *gin.Context, status int, b badgeText) {
	body := b.SVG()
	if status == http.StatusOK {
		tag := `"` + respond.Hash(string(body)) + `"`
		c.Header("ETag", tag)
		if respond.HasTag(c.GetHeader("If-None-Match"), tag) {
			c.Status(http.StatusNotModified)
			c.Writer.WriteHeaderNow()
			return
		}
	}
	c.Header("Vary", "Accept-Encoding")
	respond.Send(c, status, "image/svg+xml; charset=utf-8", body)
}

// SVG draws the badge in the flat style that readers know. The lengths of the texts
// are given, so that it fits whatever font the reader has.
func (b badgeText) SVG() []byte {
	left, right := textWidth(b.Left), textWidth(b.Right)
	const margin, height = 6.0, 20
	lw, rw := left+2*margin, right+2*margin
	var s strings.Builder
	fmt.Fprintf(&s,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%d" role="img" aria-label="%s"><title>%s</title>`,
		px(lw+rw), height, xmlText(b.Label), xmlText(b.Label))
	fmt.Fprintf(&s, `<clipPath id="r"><rect width="%s" height="%d" rx="3"/></clipPath>`, px(lw+rw), height)
	fmt.Fprintf(&s,
		`<g clip-path="url(#r)"><rect width="%s" height="%d" fill="%s"/><rect x="%s" width="%s" height="%d" fill="%s"/></g>`,
		px(lw), height, badgeLeft, px(lw), px(rw), height, b.Fill)
	s.WriteString(`<g fill="#fff" font-family="Verdana,DejaVu Sans,Geneva,sans-serif" font-size="11">`)
	for _, t := range []struct {
		x, w float64
		text string
	}{{margin, left, b.Left}, {lw + margin, right, b.Right}} {
		fmt.Fprintf(&s, `<text x="%s" y="14" textLength="%s" lengthAdjust="spacingAndGlyphs">%s</text>`, px(t.x),
			px(t.w), xmlText(t.text))
	}
	s.WriteString("</g></svg>\n")
	return []byte(s.String())
}

func px(x float64) string { return strconv.FormatFloat(x, 'f', 1, 64) }

// xmlText escapes a text that show has made safe; XML knows two characters less.
func xmlText(s string) string {
	return html.EscapeString(strings.Map(func(r rune) rune {
		if r == 0xfffe || r == 0xffff {
			return '\uFFFD'
		}
		return r
	}, s))
}

// verdana are the widths of the printable ASCII characters from space on in Verdana of
// 11 pixels, in tenths of a pixel.
var verdana = [...]uint8{
	39, 43, 50, 90, 70, 118, 80, 30, 50, 50, 70, 90, 40, 50, 40, 50, // space to /
	70, 70, 70, 70, 70, 70, 70, 70, 70, 70, 50, 50, 90, 90, 90, 60, // 0 to ?
	110, 75, 75, 77, 85, 70, 63, 85, 83, 46, 50, 76, 61, 93, 82, 87, // @ to O
	66, 87, 76, 75, 68, 81, 75, 109, 75, 68, 75, 50, 50, 50, 90, 70, // P to _
	70, 66, 69, 57, 69, 66, 39, 69, 70, 30, 38, 65, 30, 107, 70, 67, // ` to o
	69, 69, 47, 57, 43, 70, 65, 90, 65, 65, 58, 70, 50, 70, 90, // p to ~
}

// textWidth is about the width of a text in pixels.
func textWidth(s string) float64 {
	n := 0
	for _, r := range s {
		switch {
		case r >= ' ' && int(r-' ') < len(verdana):
			n += int(verdana[r-' '])
		case r < 0x1100:
			n += 75
		default: // wide scripts and signs
			n += 115
		}
	}
	return float64(n) / 10
}
