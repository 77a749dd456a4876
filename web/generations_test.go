package web

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/web/api"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
	"github.com/stretchr/testify/require"
)

func someGenerations() []fold.Generation {
	return []fold.Generation{
		{ID: "shop/checkout", Service: "shop", Definition: "ab", Generation: 2, Groups: 3,
			Until: noon.Add(30 * 24 * time.Hour)},
		{ID: "shop/old", Former: []string{"shop/older"}, Service: "shop", Definition: "cd", Generation: 1, Groups: 1,
			Number: 4, Parked: noon.Add(-time.Hour), Until: noon.Add(7 * 24 * time.Hour), Bytes: 2048},
	}
}

// generations holds what is told and forgotten of counts to the contract.
func (k *contract) generations(b *bench) {
	defer func(opt site.Options, eng status.Engine) { b.web.Opt, b.eng = opt, eng }(b.web.Opt, b.eng)
	const list, forget = "/api/v1/generations", "/api/v1/forget"
	k.answer(b, http.MethodGet, list, 501)
	k.sent(b, forget, `{"service":"shop"}`, 501)
	failure := error(nil)
	b.web.Opt.Generations = func(context.Context) ([]fold.Generation, error) { return someGenerations(), failure }
	b.web.Opt.Forget = func(_ context.Context, r counting.ForgetRequest) (counting.Forgotten, error) {
		return counting.Forgotten{Service: r.Service, Parked: 1}, failure
	}
	k.answer(b, http.MethodGet, list, 200)
	for body, status := range map[string]int{`{"service":"shop"}`: 200, `{"service":"shop","restart":true}`: 200,
		`{}`: 400, `{"service":""}`: 400, `{"service":"shop","all":true}`: 400, `{"service":1}`: 400} {
		k.sent(b, forget, body, status)
	}
	k.sent(b, forget, `{"service":"shop"}`, 403, "Sec-Fetch-Site", "cross-site")
	k.sent(b, forget, `{"service":"shop"}`, 415, "Content-Type", "text/plain")
	k.sent(b, forget, strings.Repeat(" ", site.MaxBody+1), 413)
	for err, status := range map[error]int{counting.ErrNothingCounted: 404, counting.ErrServiceInUse: 409,
		counting.ErrSpecChanged: 409, errors.New("busy"): 503} {
		failure = err
		k.sent(b, forget, `{"service":"shop"}`, status)
	}
	k.answer(b, http.MethodGet, list, 503)
	k.sent(b, api.RebuildPath, `{"all":true}`, 501)
	b.web.Opt.Rebuild = func(_ context.Context, r counting.RebuildRequest) (counting.RebuildAnswer, error) {
		return counting.RebuildAnswer{SLOs: append([]string{}, r.SLOs...), Activated: []string{}}, failure
	}
	for err, status := range map[error]int{nil: 200, counting.ErrUnknownSLO: 404, counting.ErrNoRebuild: 404,
		counting.ErrRebuildOff: 409, counting.ErrSpecChanged: 409, errors.New("busy"): 503} {
		failure = err
		k.sent(b, api.RebuildPath, `{"slos":["shop/checkout"],"cancel":true}`, status)
	}
	for _, body := range []string{`{}`, `{"all":true,"slos":["shop/checkout"]}`, `{"slos":"shop/checkout"}`} {
		k.sent(b, api.RebuildPath, body, 400)
	}
	k.sent(b, api.RebuildPath, `{"all":true}`, 403, "Sec-Fetch-Site", "cross-site")
	k.sent(b, api.RebuildPath, `{"all":true}`, 415, "Content-Type", "text/plain")
	k.sent(b, api.RebuildPath, strings.Repeat(" ", site.MaxBody+1), 413)

	// A reload that changed what is counted says how.
	b.web.Opt.Reload = func(context.Context) error {
		b.eng.Spec.Change = &counting.SpecChange{At: noon, Started: []string{"shop/new"}, Resumed: []string{},
			Parked: []counting.ParkedSLO{{ID: "shop/old", Removed: true, Until: noon}}}
		return nil
	}
	require.Contains(k.t, string(k.answer(b, http.MethodPost, "/-/reload", 200)), `"started":["shop/new"]`)
	b.web.Opt.Reload = func(context.Context) error { return nil }
	require.NotContains(k.t, string(k.answer(b, http.MethodPost, "/-/reload", 200)), `"change"`)
	k.answer(b, http.MethodGet, "/api/v1/engine", 200)
}

// TestForgetIsAudited: whoever forgets counts must be allowed to, and leaves a line.
func TestForgetIsAudited(t *testing.T) {
	var lines []string
	b := newBench(t, func(o *site.Options) {
		o.Allow = func(p site.Permission) gin.HandlerFunc {
			return func(c *gin.Context) {
				if c.GetHeader("X-May") != string(p) {
					c.AbortWithStatus(http.StatusUnauthorized)
				}
			}
		}
		o.Audit = func(_ *gin.Context, action, detail string, err error) {
			lines = append(lines, auditLine(action, detail, err))
		}
		o.Forget = func(_ context.Context, r counting.ForgetRequest) (counting.Forgotten, error) {
			return counting.Forgotten{Service: r.Service, Parked: 2, Restarted: 1}, nil
		}
	})
	post := func(permission string) int {
		return b.send("/api/v1/forget", `{"service":"sh\nop","restart":true}`, "X-May", permission).Code
	}
	require.Equal(t, http.StatusUnauthorized, post("read"))
	require.Empty(t, lines)
	require.Equal(t, http.StatusOK, post("operate"))
	require.Equal(t, []string{`forget service="sh\nop" restart=true parked=2 restarted=1`}, lines)
}

// TestEnginePageShowsParkedCounts: with their end and their size, and with hostile names escaped.
func TestEnginePageShowsParkedCounts(t *testing.T) {
	parked := someGenerations()[1:]
	b := newBench(t, func(o *site.Options) { o.Parked = func() []fold.Generation { return parked } })
	b.eng.Parked = counting.ParkedStatus{Generations: 1, Bytes: 2048, LimitBytes: 1 << 20}
	b.eng.Spec.Change = &counting.SpecChange{At: noon.Add(-time.Hour), Started: []string{"shop/checkout"},
		Parked: []counting.ParkedSLO{{ID: "shop/old", Removed: true, Until: noon}}}
	page := b.get("/engine").Body.String()
	for _, want := range []string{"2.0 KiB of 1.0 MiB", "<bdi>shop/old</bdi>", `datetime="2026-11-27T`,
		"New since restart</dt><dd>1", "Removed</dt><dd>1"} {
		require.Contains(t, page, want)
	}
	const bad = "<script>alert(1)</script>"
	parked = []fold.Generation{{ID: bad}}
	b.eng.Spec.Change.Started, b.eng.Spec.Change.Resumed = []string{bad, "b", "c", "d", "e", "f", "g"}, []string{bad}
	page = b.get("/engine").Body.String()
	require.NotContains(t, page, bad)
	require.Contains(t, page, "and 2 more")
	parked = nil
	require.Contains(t, b.get("/engine").Body.String(), "They resume when it returns")
}
