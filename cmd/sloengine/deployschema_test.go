package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"

	"github.com/sloengine/sloengine/internal/testkit"
)

// TestManifestsFollowTheSchemas reads every manifest into the API types of Kubernetes and of the Prometheus operator,
// and those for KEDA into a type with the same keys. A key that
// they do not know, a key that is there twice, or a value of another type is an error.
func TestManifestsFollowTheSchemas(t *testing.T) {
	kinds := map[string]func() any{
		"apps/v1 Deployment":                      func() any { return &apps.Deployment{} },
		"apps/v1 StatefulSet":                     func() any { return &apps.StatefulSet{} },
		"autoscaling/v2 HorizontalPodAutoscaler":  func() any { return &autoscaling.HorizontalPodAutoscaler{} },
		"monitoring.coreos.com/v1 PodMonitor":     func() any { return &monitoring.PodMonitor{} },
		"monitoring.coreos.com/v1 PrometheusRule": func() any { return &monitoring.PrometheusRule{} },
		"monitoring.coreos.com/v1 ServiceMonitor": func() any { return &monitoring.ServiceMonitor{} },
		"networking.k8s.io/v1 NetworkPolicy":      func() any { return &networking.NetworkPolicy{} },
		"policy/v1 PodDisruptionBudget":           func() any { return &policy.PodDisruptionBudget{} },
		"v1 ConfigMap":                            func() any { return &core.ConfigMap{} },
		"v1 Service":                              func() any { return &core.Service{} },
	}
	other := map[string]string{
		"kustomize.config.k8s.io/v1beta1 Kustomization": "read by the other tests",
		"keda.sh/v1alpha1 ScaledObject":                 "followsKEDA",
	}
	seen := map[string]bool{}
	require.NoError(
		t, filepath.WalkDir(filepath.Join(deployDir, "kubernetes"), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			for _, doc := range bytes.Split(data, []byte("\n---\n")) {
				var m struct{ APIVersion, Kind string }
				require.NoError(t, yaml.Unmarshal(doc, &m), path)
				kind := m.APIVersion + " " + m.Kind
				seen[kind] = true
				if m.Kind == "ScaledObject" {
					followsKEDA(t, doc, path)
				}
				if other[kind] != "" {
					continue
				}
				require.Contains(t, kinds, kind, path)
				require.NoError(t, strictly(doc, kinds[kind]()), path)
			}
			return nil
		}))
	for kind := range kinds {
		require.True(t, seen[kind], "no manifest is a %s", kind)
	}
	for kind := range other {
		require.True(t, seen[kind], kind)
	}
}

// strictly reads a manifest as the API server does, which takes no number where it wants a text. UnmarshalStrict makes
// a text of it. It is asked first, because it finds keys in the wrong case.
func strictly(doc []byte, into any) error {
	if err := yaml.UnmarshalStrict(doc, into); err != nil {
		return err
	}
	raw, err := yaml.YAMLToJSONStrict(doc)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// TestPrometheusRuleIsGenerated holds the alerts about the engine against what generate writes. They do not depend on
// the spec.
func TestPrometheusRuleIsGenerated(t *testing.T) {
	dir := t.TempDir()
	require.Equal(t, 0, run(t.Context(), []string{"generate", "k8s", "-f", "../../testdata/specs/insurance.yaml", "--out",
		dir}, strings.NewReader(""), io.Discard, io.Discard))
	want, err := os.ReadFile(filepath.Join(dir, "k8s", "slo-sloengine-alerts.yaml"))
	require.NoError(t, err)
	testkit.Golden(t, filepath.Join(deployDir, "kubernetes", "prometheusrule.yaml"), want)
}
