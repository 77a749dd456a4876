package web

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"
)

//go:embed openapi.json
var openAPISource []byte

// openAPI is the OpenAPI document with the version and the server of this engine.
func openAPI(opt Options) ([]byte, error) {
	var doc map[string]any
	if err := json.Unmarshal(openAPISource, &doc); err != nil {
		return nil, fmt.Errorf("read openapi.json: %w", err)
	}
	if info, ok := doc["info"].(map[string]any); ok && opt.Version.Version != "" {
		info["version"] = opt.Version.Version
	}
	server := opt.ExternalPath
	if server == "" {
		server = "/"
	}
	doc["servers"] = []any{map[string]any{"url": server}}
	return json.Marshal(doc)
}

func (w *Web) apiDocument(c *gin.Context) {
	if fresh(c, view{}.tag(string(w.openapi))) {
		return
	}
	send(c, http.StatusOK, "application/json", w.openapi)
}
