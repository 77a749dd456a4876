package admission

import (
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/reliability/ratelimit"
	"github.com/sloengine/sloengine/web/respond"
)

// ContextStatus is what the engine knows about a context of the rate limits.
type ContextStatus struct {
	Context   string               `json:"context"`
	PerSecond float64              `json:"per_second"`
	Current   float64              `json:"current"` // of the busiest value
	Hits      uint64               `json:"hits"`
	Offenders []ratelimit.Offender `json:"offenders"`
	Counter   *counterAnswer       `json:"counter,omitempty"` // of the value that was asked for
}

// counterAnswer is the counter of one value of a context.
type counterAnswer struct {
	ratelimit.Counter
	WindowSeconds float64 `json:"window_seconds"`
	ResetSeconds  float64 `json:"reset_seconds"`
}

// RateLimitPath is where the API tells about a context, by its name.
const RateLimitPath = "/api/v1/rate-limits/"

// RateLimitAPI answers for one context of the rate limits.
type RateLimitAPI struct {
	Rates     *RateLimits
	Redaction *Redaction
}

// Serve answers what the engine knows of the context in the path.
func (a *RateLimitAPI) Serve(c *gin.Context) {
	name := c.Param("context")
	got := ContextStatus{Context: name, Offenders: []ratelimit.Offender{}}
	known := false
	for _, l := range a.Rates.Limiter.Status() {
		if l.Layer == ratelimit.Context.String() && l.Rule == name {
			known, got.PerSecond, got.Current, got.Hits = true, l.PerSecond, l.Current, l.Hits
		}
	}
	if !known {
		respond.Problem(c, http.StatusNotFound, fmt.Sprintf("No context %q in limits.contexts", name), nil)
		return
	}
	for _, x := range a.Redaction.ShowOffenders(a.Rates.Limiter.Offenders()) {
		if x.Context == name {
			got.Offenders = append(got.Offenders, x)
		}
	}
	if value, ok := c.GetQuery("value"); ok {
		counter, err := a.Rates.Limiter.Counter(c.Request.Context(), time.Now(), name, value)
		if err != nil {
			respond.Problem(c, http.StatusServiceUnavailable, err.Error(), nil)
			return
		}
		got.Counter = &counterAnswer{Counter: *counter, WindowSeconds: counter.Window.Seconds(),
			ResetSeconds: counter.Reset.Seconds()}
	}
	c.Header("Cache-Control", "no-store")
	c.JSON(http.StatusOK, got)
}
