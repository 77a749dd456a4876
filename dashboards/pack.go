package dashboards

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sloengine/sloengine/slo/yamlgen"
)

// ProviderFile is the usual name of the file that Provider holds, to be put below provisioning/dashboards of Grafana.
const ProviderFile = "sloengine.yaml"

// Provider is the file by which Grafana loads dashboards from its own disk and keeps them as they are there.
const Provider = `# Made by sloengine. Belongs below provisioning/dashboards of Grafana.
apiVersion: 1
providers:
  - name: "sloengine"
    orgId: 1
    folder: "SLO"
    type: file
    disableDeletion: false
    allowUiUpdates: false
    updateIntervalSeconds: 30
    options:
      path: "/var/lib/grafana/dashboards/sloengine"
      foldersFromFilesStructure: false
`

// MaxConfigMapBytes is how much data Kubernetes takes in one ConfigMap: 1 MiB,
// counting keys and values.
const MaxConfigMapBytes = 1 << 20

// A ConfigMap is one manifest.
type ConfigMap struct {
	Name     string // of the object
	FileName string
	YAML     []byte
}

// ConfigMaps packs each dashboard into a ConfigMap of its own, named after its
// uid, so that a change of one dashboard touches one object. The sidecar of the
// Grafana chart finds them by their label. The namespace may be empty. It fails
// on a dashboard that is too large for any ConfigMap.
func ConfigMaps(ds []Dashboard, namespace string) ([]ConfigMap, error) {
	var out []ConfigMap
	var errs []error
	for _, d := range ds {
		if n := len(d.FileName) + len(d.JSON); n > MaxConfigMapBytes {
			errs = append(errs, fmt.Errorf("dashboard %s: %d bytes are more than the %d that a ConfigMap takes", d.UID, n, MaxConfigMapBytes))
			continue
		}
		name := objectName(d.UID)
		var m, meta, data yamlgen.Map
		m.Text("apiVersion", "v1")
		m.Text("kind", "ConfigMap")
		meta.Set("name", yamlgen.Quoted(name))
		if namespace != "" {
			meta.Set("namespace", yamlgen.Quoted(namespace))
		}
		meta.Set("labels", yamlgen.Strings(map[string]string{"grafana_dashboard": "1"}, yamlgen.Quoted))
		meta.Set("annotations", yamlgen.Strings(map[string]string{"grafana_folder": "SLO"}, yamlgen.Quoted))
		m.Set("metadata", meta.Node())
		data.Set(d.FileName, yamlgen.Block(string(d.JSON)))
		m.Set("data", data.Node())
		out = append(out, ConfigMap{Name: name, FileName: name + ".yaml", YAML: yamlgen.Document("Made by sloengine.", m.Node())})
	}
	return out, errors.Join(errs...)
}

// objectName makes a uid a name that Kubernetes takes.
func objectName(uid string) string {
	name := []byte(strings.ToLower(uid))
	for i, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			name[i] = '-'
		}
	}
	return "dashboard-" + strings.Trim(string(name), "-")
}
