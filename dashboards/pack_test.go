package dashboards_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/dashboards"
)

func TestProvider(t *testing.T) {
	var got struct {
		APIVersion int `yaml:"apiVersion"`
		Providers  []struct {
			Name, Folder, Type string
			OrgID              int  `yaml:"orgId"`
			AllowUIUpdates     bool `yaml:"allowUiUpdates"`
			DisableDeletion    bool `yaml:"disableDeletion"`
			Interval           int  `yaml:"updateIntervalSeconds"`
			Options            struct {
				Path    string
				Folders bool `yaml:"foldersFromFilesStructure"`
			}
		}
	}
	dec := yaml.NewDecoder(strings.NewReader(dashboards.Provider))
	dec.KnownFields(true)
	require.NoError(t, dec.Decode(&got))
	require.Equal(t, 1, got.APIVersion)
	require.Len(t, got.Providers, 1)
	p := got.Providers[0]
	require.Equal(t, "sloengine", p.Name)
	require.Equal(t, "SLO", p.Folder)
	require.Equal(t, "file", p.Type)
	require.Equal(t, "/var/lib/grafana/dashboards/sloengine", p.Options.Path)
}

type configMap struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct {
		Name, Namespace     string
		Labels, Annotations map[string]string
	}
	Data map[string]string
}

func TestConfigMaps(t *testing.T) {
	for name, c := range inputs(t) {
		t.Run(name, func(t *testing.T) {
			ds := all(t, c.in, c.o)
			maps, err := dashboards.ConfigMaps(ds, "slo")
			require.NoError(t, err)
			require.Len(t, maps, len(ds))
			for i, m := range maps {
				var got configMap
				dec := yaml.NewDecoder(bytes.NewReader(m.YAML))
				dec.KnownFields(true)
				require.NoError(t, dec.Decode(&got), ds[i].UID)
				require.Equal(t, "v1", got.APIVersion)
				require.Equal(t, "ConfigMap", got.Kind)
				require.Equal(t, m.Name, got.Metadata.Name)
				require.Equal(t, m.Name+".yaml", m.FileName)
				require.Equal(t, "slo", got.Metadata.Namespace)
				require.Regexp(t, `^[a-z0-9]([a-z0-9-]{0,251}[a-z0-9])?$`, m.Name)
				require.Equal(t, map[string]string{"grafana_dashboard": "1"}, got.Metadata.Labels)
				require.Equal(t, map[string]string{ds[i].FileName: string(ds[i].JSON)}, got.Data, "the JSON comes back as it was")
			}
		})
	}
}

func TestConfigMapsAreSmallEnough(t *testing.T) {
	fits := dashboards.Dashboard{
		UID: "a", FileName: "a.json", JSON: bytes.Repeat([]byte("x"), dashboards.MaxConfigMapBytes-len("a.json"))}
	_, err := dashboards.ConfigMaps([]dashboards.Dashboard{fits}, "")
	require.NoError(t, err)
	fits.JSON = append(fits.JSON, 'x')
	maps, err := dashboards.ConfigMaps([]dashboards.Dashboard{fits, {UID: "b", FileName: "b.json"}}, "")
	require.ErrorContains(t, err, "dashboard a: 1048577 bytes")
	require.Len(t, maps, 1, "the others are made all the same")
	require.NotContains(t, string(maps[0].YAML), "namespace")
}
