package web

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/web/public"
	"github.com/sloengine/sloengine/web/site"
	"github.com/stretchr/testify/require"
)

func TestBadgeGolden(t *testing.T) {
	b := newBench(t)
	publish(b.rep, withGroups, "insurance-unpaid/availability", "insurance-unpaid/throughput", "mdm/availability")
	for name, target := range map[string]string{
		"badge":        "/badge/mdm/availability.svg",
		"badge-group":  "/badge/insurance-unpaid/availability.svg?group.product=TRVL10",
		"badge-nodata": "/badge/insurance-unpaid/throughput.svg?group.product=TRVL10",
	} {
		rec := b.get(target)
		require.Equal(t, http.StatusOK, rec.Code, name)
		require.Equal(t, "image/svg+xml; charset=utf-8", rec.Header().Get("Content-Type"))
		require.Equal(t, "cross-origin", rec.Header().Get("Cross-Origin-Resource-Policy"), "pages of other sites may show it")
		got := rec.Body.String()
		testkit.Golden(t, filepath.Join("testdata", name+".svg"), got)
		svg := wellFormedXML(t, got)[0]
		require.Equal(t, "svg", svg.Name.Local)
	}
	require.Contains(t, b.get("/badge/mdm/availability.svg").Body.String(),
		`aria-label="mdm / availability: 99.870%, operational, this month"`)
	require.Contains(t, b.get("/badge/insurance-unpaid/throughput.svg?group.product=TRVL10").Body.String(),
		">no data</text>")
	require.Contains(t, b.get("/badge/insurance-unpaid/availability.svg?group.product=TRVL10").Body.String(),
		`fill="#8f5b00"`)

	b.now = noon.Add(10 * time.Minute)
	require.Contains(t, b.get("/badge/mdm/availability.svg").Body.String(), ">stale</text>")
}

// What a badge tells of a service level that is not public: that of one that is not there.
func TestBadgesKeepSecrets(t *testing.T) {
	may := false
	b := newBench(t, func(o *site.Options) {
		o.Allow = func(site.Permission) gin.HandlerFunc { return func(*gin.Context) {} }
		o.May = func(_ *gin.Context, p site.Permission) bool { return p == site.Read && may }
	})
	publish(b.rep, justPublic, "insurance-unpaid/availability")
	publish(b.rep, withGroups, "insurance-unpaid/quality")
	none := b.get("/badge/no/no.svg")
	require.Equal(t, http.StatusNotFound, none.Code)
	require.Equal(t, "no-store", none.Header().Get("Cache-Control"))
	require.Contains(t, none.Body.String(), ">unknown</text>")
	wellFormedXML(t, none.Body.String())
	secrets := []string{"/badge/mdm/availability.svg", "/badge/insurance-unpaid/availability.svg?group.product=MEDCARE"}
	for _, target := range append([]string{"/badge/insurance-unpaid/quality.svg?group.product=NOPE",
		"/badge/insurance-unpaid/quality.svg?group.other=MEDCARE"}, secrets...) {
		rec := b.get(target)
		require.Equal(t, http.StatusNotFound, rec.Code, target)
		require.Equal(t, none.Body.String(), rec.Body.String(), target)
		require.Equal(t, none.Header(), rec.Header(), target)
	}
	for _, target := range []string{"/badge/insurance-unpaid/availability.svg",
		"/badge/insurance-unpaid/quality.svg?group.product=MEDCARE"} {
		require.Equal(t, public.PublicAge, b.get(target).Header().Get("Cache-Control"), target)
	}
	require.NotContains(t, b.get("/badge/insurance-unpaid/availability.svg").Body.String(), "MEDCARE")
	for _, target := range []string{"/badge/mdm/availability", "/badge/mdm/availability.png", "/badge/mdm"} {
		require.Equal(t, http.StatusNotFound, b.get(target).Code, target)
	}

	may = true
	for _, target := range secrets {
		rec := b.get(target)
		require.Equal(t, http.StatusOK, rec.Code, target)
		require.Equal(t, "private, no-cache", rec.Header().Get("Cache-Control"), target)
		require.Empty(t, rec.Header().Get("Access-Control-Allow-Origin"))
		require.Equal(t, "same-origin", rec.Header().Get("Cross-Origin-Resource-Policy"))
	}

	// Without anybody to ask only an engine that is open to all shows them.
	open := newBench(t)
	require.Equal(t, http.StatusOK, open.get("/badge/mdm/availability.svg").Code)
	closed := newBench(t, func(o *site.Options) {
		o.Allow = func(site.Permission) gin.HandlerFunc { return func(*gin.Context) {} }
	})
	require.Equal(t, http.StatusNotFound, closed.get("/badge/mdm/availability.svg").Code)
}
