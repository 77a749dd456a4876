package public

import (
	"encoding/xml"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBadgeWidths(t *testing.T) {
	require.Len(t, verdana, 95)
	require.InDelta(t, 63, textWidth("availability"), 4)
	require.Greater(t, textWidth("WWWW"), 2*textWidth("iiii"))
	require.InDelta(t, 23, textWidth("可用"), 0.1)
	body := string(badgeText{Left: "a", Right: strings.Repeat("9", 10), Label: "x", Fill: badgeOK}.SVG())
	var svg struct {
		Width float64 `xml:"width,attr"`
	}
	require.NoError(t, xml.Unmarshal([]byte(body), &svg))
	require.InDelta(t, 12+6.6+12+70, svg.Width, 0.2)
	require.NotContains(t, string(badgeText{Left: "\ufffe<&\"'", Label: "\uffff", Fill: badgeOK}.SVG()), "\ufffe")
}
