package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	autoscaling "k8s.io/api/autoscaling/v2"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// scaledObject has the keys of a ScaledObject of KEDA 2 without its status. KEDA's own type is not imported, because
// its module is the whole operator with the clients of all clouds.
type scaledObject struct {
	meta.TypeMeta `json:",inline"`
	Metadata      meta.ObjectMeta `json:"metadata"`
	Spec          struct {
		ScaleTargetRef struct {
			APIVersion             string `json:"apiVersion"`
			Kind                   string `json:"kind"`
			Name                   string `json:"name"`
			EnvSourceContainerName string `json:"envSourceContainerName"`
		} `json:"scaleTargetRef"`
		PollingInterval       *int32 `json:"pollingInterval"`
		InitialCooldownPeriod *int32 `json:"initialCooldownPeriod"`
		CooldownPeriod        *int32 `json:"cooldownPeriod"`
		IdleReplicaCount      *int32 `json:"idleReplicaCount"`
		MinReplicaCount       *int32 `json:"minReplicaCount"`
		MaxReplicaCount       *int32 `json:"maxReplicaCount"`
		Advanced              struct {
			RestoreToOriginalReplicaCount bool `json:"restoreToOriginalReplicaCount"`
			HorizontalPodAutoscalerConfig struct {
				Name     string                                       `json:"name"`
				Behavior *autoscaling.HorizontalPodAutoscalerBehavior `json:"behavior"`
			} `json:"horizontalPodAutoscalerConfig"`
			ScalingModifiers struct {
				Formula          string                       `json:"formula"`
				Target           string                       `json:"target"`
				ActivationTarget string                       `json:"activationTarget"`
				MetricType       autoscaling.MetricTargetType `json:"metricType"`
			} `json:"scalingModifiers"`
		} `json:"advanced"`
		Fallback *struct {
			FailureThreshold int32  `json:"failureThreshold"`
			Replicas         int32  `json:"replicas"`
			Behavior         string `json:"behavior"`
		} `json:"fallback"`
		Triggers []struct {
			Type              string                       `json:"type"`
			Name              string                       `json:"name"`
			UseCachedMetrics  bool                         `json:"useCachedMetrics"`
			Metadata          map[string]string            `json:"metadata"`
			MetricType        autoscaling.MetricTargetType `json:"metricType"`
			AuthenticationRef *struct {
				Name string `json:"name"`
				Kind string `json:"kind"`
			} `json:"authenticationRef"`
		} `json:"triggers"`
	} `json:"spec"`
}

// triggerKeys are the metadata that the triggers of the examples need, and may have. KEDA does not refuse other keys:
// it ignores them.
var triggerKeys = map[string]struct{ needed, optional []string }{
	"kafka": {
		[]string{"bootstrapServers", "consumerGroup", "topic", "lagThreshold"},
		[]string{"activationLagThreshold", "offsetResetPolicy", "allowIdleConsumers", "scaleToZeroOnInvalidOffset",
			"excludePersistentLag", "limitToPartitionsWithLag", "partitionLimitation", "version", "sasl", "tls", "unsafeSsl"},
	},
	"prometheus": {
		[]string{"serverAddress", "query", "threshold"},
		[]string{"activationThreshold", "queryParameters", "namespace", "customHeaders", "ignoreNullValues", "unsafeSsl",
			"timeout", "authModes"},
	},
}

// followsKEDA holds a manifest to the keys and types of a ScaledObject, and its triggers to the keys that their scalers
// read.
func followsKEDA(t *testing.T, doc []byte, path string) {
	t.Helper()
	var o scaledObject
	require.NoError(t, strictly(doc, &o), path)
	s := o.Spec
	require.NotEmpty(t, o.Metadata.Name, path)
	require.NotEmpty(t, s.ScaleTargetRef.Name, path)
	require.NotNil(t, s.MinReplicaCount, path)
	require.NotNil(t, s.MaxReplicaCount, path)
	require.LessOrEqual(t, *s.MinReplicaCount, *s.MaxReplicaCount, path)
	require.NotEmpty(t, s.Triggers, path)
	for _, trigger := range s.Triggers {
		known, ok := triggerKeys[trigger.Type]
		require.True(t, ok, "%s: the keys of a trigger %q are not in triggerKeys", path, trigger.Type)
		for _, key := range known.needed {
			require.NotEmpty(t, trigger.Metadata[key], "%s: %s", path, key)
		}
		for key := range trigger.Metadata {
			require.Contains(t, append(known.needed, known.optional...), key, path)
		}
		require.Contains(t, []autoscaling.MetricTargetType{"", autoscaling.AverageValueMetricType,
			autoscaling.ValueMetricType}, trigger.MetricType, path)
	}
}
