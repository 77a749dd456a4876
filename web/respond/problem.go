package respond

import (
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/slo/spec"
)

// ProblemDocument is an error answer after RFC 9457. RequestID repeats the header
// X-Request-Id, if a middleware has set it.
type ProblemDocument struct {
	Type      string         `json:"type"`
	Title     string         `json:"title"`
	Status    int            `json:"status"`
	Detail    string         `json:"detail"`
	Instance  string         `json:"instance,omitempty"`
	RequestID string         `json:"request_id,omitempty"`
	Problems  []spec.Problem `json:"problems,omitempty"`
}

// Problem sends an error answer.
func Problem(c *gin.Context, status int, detail string, list []spec.Problem) {
	c.Header("Cache-Control", "no-store")
	c.Abort()
	JSON(c, status, "application/problem+json", ProblemDocument{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: strings.ToValidUTF8(detail, "\uFFFD"),
		Instance: c.Request.URL.Path, RequestID: c.Writer.Header().Get("X-Request-Id"), Problems: list,
	})
}
