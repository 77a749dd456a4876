package api

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

//go:embed openapi.json
var openAPISource []byte

// openAPI is the OpenAPI document with the server of this engine, and its version unless that
// is "".
func openAPI(opt site.Options, version string) ([]byte, error) {
	var doc map[string]any
	if err := json.Unmarshal(openAPISource, &doc); err != nil {
		return nil, fmt.Errorf("read openapi.json: %w", err)
	}
	if info, ok := doc["info"].(map[string]any); ok && version != "" {
		info["version"] = version
	}
	server := opt.ExternalPath
	if server == "" {
		server = "/"
	}
	doc["servers"] = []any{map[string]any{"url": server}}
	return json.Marshal(doc)
}

func (api *Handler) apiDocument(c *gin.Context) {
	doc := api.openapiBare // anybody may ask for it
	if api.Opt.May(c, site.Read) {
		doc = api.openapi
	}
	if respond.NotModified(c, site.View{}.Tag(string(doc))) {
		return
	}
	respond.Send(c, http.StatusOK, "application/json", doc)
}
