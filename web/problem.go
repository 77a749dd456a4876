package web

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/slo/spec"
)

// problem is an error answer after RFC 9457. RequestID repeats the header
// X-Request-Id, if a middleware has set it.
type problem struct {
	Type      string         `json:"type"`
	Title     string         `json:"title"`
	Status    int            `json:"status"`
	Detail    string         `json:"detail"`
	Instance  string         `json:"instance,omitempty"`
	RequestID string         `json:"request_id,omitempty"`
	Problems  []spec.Problem `json:"problems,omitempty"`
}

func (w *Web) problem(c *gin.Context, status int, detail string, list []spec.Problem) {
	c.Header("Cache-Control", "no-store")
	c.Abort()
	sendJSON(c, status, "application/problem+json", problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: strings.ToValidUTF8(detail, "\uFFFD"),
		Instance: c.Request.URL.Path, RequestID: c.Writer.Header().Get("X-Request-Id"), Problems: list,
	})
}

// Refuse answers a request with a problem.
func (w *Web) Refuse(c *gin.Context, status int, detail string) { w.problem(c, status, detail, nil) }

// sendJSON writes a value that can always be encoded.
func sendJSON(c *gin.Context, status int, typ string, v any) {
	var buf bytes.Buffer
	if err := json.NewEncoder(&buf).Encode(v); err != nil {
		// Only a float that is no number can get here; say so rather than send half a document.
		status = http.StatusInternalServerError
		typ = "application/problem+json"
		buf.Reset()
		buf.WriteString(`{"type":"about:blank","title":"Internal Server Error","status":500,"detail":"The answer could not be encoded."}` + "\n")
	}
	send(c, status, typ, buf.Bytes())
}

// forMachines reports whether an error should be a problem document rather than a page.
func forMachines(c *gin.Context) bool {
	p := c.Request.URL.Path
	for _, prefix := range []string{"/api/", "/-/", "/metrics", "/openapi.json"} {
		if strings.Contains(p, prefix) {
			return true
		}
	}
	return c.Request.Method != http.MethodGet && c.Request.Method != http.MethodHead
}

// NotFound answers what no route serves: a problem below /api, else a small page.
func (w *Web) NotFound(c *gin.Context) {
	if forMachines(c) {
		w.problem(c, http.StatusNotFound, "There is nothing at this address. /openapi.json lists what there is.", nil)
		return
	}
	w.message(c, http.StatusNotFound, "Nothing here", "There is no page at this address.")
}

// MethodNotAllowed answers a known address asked with an unknown method. The
// router has set the header Allow.
func (w *Web) MethodNotAllowed(c *gin.Context) {
	if forMachines(c) {
		w.problem(c, http.StatusMethodNotAllowed, "This address does not take "+c.Request.Method+"; the header Allow says what it takes.", nil)
		return
	}
	w.message(c, http.StatusMethodNotAllowed, "Not possible", "This page can only be read.")
}
