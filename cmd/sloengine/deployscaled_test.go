package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/reliability/metric"
)

// autoscaler is what the examples for KEDA and for a HorizontalPodAutoscaler have in common, and what tells them apart.
type autoscaler struct {
	Kind string
	Spec struct {
		Target          struct{ Kind, Name string } `yaml:"scaleTargetRef"`
		MaxReplicas     int                         `yaml:"maxReplicas"`
		MaxReplicaCount int                         `yaml:"maxReplicaCount"`
		MinReplicas     int                         `yaml:"minReplicas"`
		MinReplicaCount int                         `yaml:"minReplicaCount"`
		Metrics         []struct {
			Pods struct{ Metric struct{ Name string } }
		}
		Triggers []struct{ Metadata map[string]string }
		Behavior scaleBehavior
		Advanced struct {
			HPA struct{ Behavior scaleBehavior } `yaml:"horizontalPodAutoscalerConfig"`
		}
	}
}

type scaleBehavior struct {
	ScaleDown struct {
		Window int `yaml:"stabilizationWindowSeconds"`
	} `yaml:"scaleDown"`
}

// The settings of the engines work as they are, and with the ownership that an autoscaler needs. Both autoscalers scale
// the StatefulSet, slowly, are in no kustomization, and read what exists.
func TestScaledManifests(t *testing.T) {
	const dir = "kubernetes/scaled/"
	set := manifests(t, "kubernetes")["statefulset.yaml"]
	kustomization := deployFile(t, dir+"kustomization.yaml")
	settings := manifest{}
	require.NoError(t, yaml.Unmarshal([]byte(deployFile(t, dir+"configmap-engine.yaml")), &settings))
	engine := settings.Data["engine.yaml"]
	load := func(text string) config.Source {
		t.Helper()
		name := filepath.Join(t.TempDir(), "engine.yaml")
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		c, err := config.Load(name)
		require.NoError(t, err)
		require.Len(t, c.Sources, 1)
		return c.Sources[0]
	}
	static := strings.Replace(engine, "ordinal: hostname", "ordinal: 2", 1)
	require.NotEqual(t, engine, static)
	require.Equal(t, 3, load(static).Kafka.Engines)
	group := regexp.MustCompile(`(?m)^ *(engines|ordinal): .*\n`).ReplaceAllString(engine, "") +
		"      ownership: group\n      group: sloengine\n"
	source := load(group).Kafka

	for _, name := range []string{"hpa.yaml", "keda.yaml"} {
		text := deployFile(t, dir+name)
		require.NotContains(t, kustomization, name, "an example that is applied on purpose")
		var a autoscaler
		require.NoError(t, yaml.Unmarshal([]byte(text), &a), name)
		require.Equal(t, []string{"StatefulSet", set.Metadata.Name}, []string{a.Spec.Target.Kind, a.Spec.Target.Name}, name)
		require.Equal(t, 12, a.Spec.MaxReplicas+a.Spec.MaxReplicaCount, name)
		require.Equal(t, 2, a.Spec.MinReplicas+a.Spec.MinReplicaCount, name)
		require.Equal(t, 1800, a.Spec.Behavior.ScaleDown.Window+a.Spec.Advanced.HPA.Behavior.ScaleDown.Window, name)
		require.Contains(t, text, "`ownership: group`", name)
		if a.Kind == "ScaledObject" {
			require.Equal(t, source.Group, a.Spec.Triggers[0].Metadata["consumerGroup"])
			require.Equal(t, source.Topics, []string{a.Spec.Triggers[0].Metadata["topic"]})
			continue
		}
		// The rule for prometheus-adapter in the comment makes the metric of a series that engines export.
		require.Equal(t, "HorizontalPodAutoscaler", a.Kind)
		comment := regexp.MustCompile(`(?m)^#   (.*)\n`).FindAllStringSubmatch(text, -1)
		var lines []string
		for _, l := range comment {
			lines = append(lines, l[1])
		}
		var adapter struct {
			Rules []struct {
				SeriesQuery string `yaml:"seriesQuery"`
				Name        struct{ As string }
			}
		}
		require.NoError(t, yaml.Unmarshal([]byte(strings.Join(lines, "\n")), &adapter))
		require.Len(t, adapter.Rules, 1)
		require.Equal(t, metric.KafkaSourceLag.Name+`{namespace!="",pod!=""}`, adapter.Rules[0].SeriesQuery)
		require.Equal(t, a.Spec.Metrics[0].Pods.Metric.Name, adapter.Rules[0].Name.As)
	}
}
