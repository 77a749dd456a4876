package api

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"sync"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

// openAPISource is the document, without what the types of answers say.
//
//go:embed openapi.json
var openAPISource []byte

// openAPIParts are the top-level keys of the document, without the white space between values.
var openAPIParts = sync.OnceValues(func() (parts map[string]json.RawMessage, err error) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, openAPISource); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(compact.Bytes(), &parts); err != nil {
		return nil, err
	}
	var components map[string]map[string]any
	if err := json.Unmarshal(parts["components"], &components); err != nil {
		return nil, err
	}
	all := components["schemas"]
	for name, schema := range deriveSchemas() {
		if more := all[name]; more != nil {
			schema = extend(schema, more)
		}
		all[name] = schema
	}
	parts["components"], err = json.Marshal(components)
	return parts, err
})

// openAPI is the OpenAPI document with the server of this engine, and its version unless that
// is "".
func openAPI(opt site.Options, version string) ([]byte, error) {
	parts, err := openAPIParts()
	if err != nil {
		return nil, fmt.Errorf("read openapi.json: %w", err)
	}
	doc := maps.Clone(parts)
	if version != "" {
		var info map[string]any
		if err := json.Unmarshal(doc["info"], &info); err != nil {
			return nil, fmt.Errorf("read openapi.json: info: %w", err)
		}
		info["version"] = version
		if doc["info"], err = json.Marshal(info); err != nil {
			return nil, err
		}
	}
	server := opt.ExternalPath
	if server == "" {
		server = "/"
	}
	if doc["servers"], err = json.Marshal([]map[string]string{{"url": server}}); err != nil {
		return nil, err
	}
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
