package dashboards

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// ProviderFile is the usual name of what Provider makes, to be put below
// Grafana's provisioning/dashboards.
const ProviderFile = "sloengine.yaml"

// ProviderOptions configure Provider. A zero field takes the default given with it.
type ProviderOptions struct {
	Name   string // of the provider: sloengine
	Folder string // in Grafana: SLO
	Path   string // on Grafana's disk, absolute: /var/lib/grafana/dashboards/sloengine
}

// Provider makes the file by which a Grafana loads dashboards from its own disk
// and keeps them as they are there.
func Provider(o ProviderOptions) ([]byte, error) {
	setDefault(&o.Name, "sloengine")
	setDefault(&o.Folder, "SLO")
	setDefault(&o.Path, "/var/lib/grafana/dashboards/sloengine")
	if !path.IsAbs(o.Path) {
		return nil, fmt.Errorf("provider of dashboards: path %q is not absolute", o.Path)
	}
	var b bytes.Buffer
	b.WriteString("# Made by sloengine. Belongs below provisioning/dashboards of Grafana.\napiVersion: 1\nproviders:\n")
	fmt.Fprintf(&b, "  - name: %s\n    orgId: 1\n    folder: %s\n    type: file\n", quote(o.Name), quote(o.Folder))
	b.WriteString("    disableDeletion: false\n    allowUiUpdates: false\n    updateIntervalSeconds: 30\n")
	fmt.Fprintf(&b, "    options:\n      path: %s\n      foldersFromFilesStructure: false\n", quote(o.Path))
	return b.Bytes(), nil
}

// MaxConfigMapBytes is how much data Kubernetes takes in one ConfigMap: 1 MiB,
// counting keys and values.
const MaxConfigMapBytes = 1 << 20

// ConfigMapOptions configure ConfigMaps. A zero field takes the default given with it.
type ConfigMapOptions struct {
	Namespace   string            // of the manifests; none
	Labels      map[string]string // grafana_dashboard: "1", as the Grafana chart's sidecar expects
	Annotations map[string]string // grafana_folder: SLO
}

// A ConfigMap is one manifest.
type ConfigMap struct {
	Name     string // of the object
	FileName string
	YAML     []byte
}

// ConfigMaps packs each dashboard into a ConfigMap of its own, named after its
// uid, so that a change of one dashboard touches one object. It fails on a
// dashboard that is too large for any ConfigMap.
func ConfigMaps(ds []Dashboard, o ConfigMapOptions) ([]ConfigMap, error) {
	if o.Labels == nil {
		o.Labels = map[string]string{"grafana_dashboard": "1"}
	}
	if o.Annotations == nil {
		o.Annotations = map[string]string{"grafana_folder": "SLO"}
	}
	var out []ConfigMap
	var errs []error
	for _, d := range ds {
		if n := len(d.FileName) + len(d.JSON); n > MaxConfigMapBytes {
			errs = append(errs, fmt.Errorf("dashboard %s: %d bytes are more than the %d that a ConfigMap takes", d.UID, n, MaxConfigMapBytes))
			continue
		}
		name := objectName(d.UID)
		var b bytes.Buffer
		b.WriteString("# Made by sloengine.\napiVersion: v1\nkind: ConfigMap\nmetadata:\n")
		fmt.Fprintf(&b, "  name: %s\n", quote(name))
		if o.Namespace != "" {
			fmt.Fprintf(&b, "  namespace: %s\n", quote(o.Namespace))
		}
		writeMap(&b, "  labels:", o.Labels)
		writeMap(&b, "  annotations:", o.Annotations)
		// A literal block keeps the JSON as it is: it has no line that begins with a
		// space less than its first, and no character that YAML refuses.
		fmt.Fprintf(&b, "data:\n  %s: |\n", quote(d.FileName))
		for line := range bytes.Lines(d.JSON) {
			b.WriteString("    ")
			b.Write(line)
		}
		out = append(out, ConfigMap{Name: name, FileName: name + ".yaml", YAML: b.Bytes()})
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

func writeMap(b *bytes.Buffer, title string, m map[string]string) {
	if len(m) == 0 {
		return
	}
	b.WriteString(title + "\n")
	for _, k := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(b, "    %s: %s\n", quote(k), quote(m[k]))
	}
}

// quote makes a YAML scalar; a JSON string is one.
func quote(s string) string {
	out, err := json.Marshal(s)
	if err != nil {
		return strconv.Quote(s)
	}
	return string(visible(out))
}

func setDefault(s *string, value string) {
	if *s == "" {
		*s = value
	}
}
