package main

import (
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/rules/series"
)

// The example that scales a user's service reads series that the engine exports, with labels that they have, and is in
// no kustomization.
func TestScaleByCapacity(t *testing.T) {
	text := deployFile(t, "kubernetes/scaled/scale-by-capacity.yaml")
	require.NotContains(t, deployFile(t, "kubernetes/scaled/kustomization.yaml"), "scale-by-capacity",
		"an example that is applied on purpose")
	var a autoscaler
	require.NoError(t, yaml.Unmarshal([]byte(text), &a))
	require.Equal(t, "ScaledObject", a.Kind)
	require.Equal(t, []string{"Deployment", "shop"}, []string{a.Spec.Target.Kind, a.Spec.Target.Name},
		"the user's service, never the engine")
	require.Len(t, a.Spec.Triggers, 2)
	exported := map[string][]string{}
	for _, f := range series.All() {
		exported[f.Name] = f.LabelNames()
	}
	seen := map[string]bool{}
	for _, trigger := range a.Spec.Triggers {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(trigger.Metadata["query"])
		require.NoError(t, err)
		parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
			if v, ok := n.(*parser.VectorSelector); ok {
				seen[v.Name] = true
				require.Contains(t, exported, v.Name)
				for _, m := range v.LabelMatchers {
					if m.Name != "__name__" {
						require.Contains(t, exported[v.Name], m.Name)
					}
				}
			}
			return nil
		})
	}
	require.Equal(t, map[string]bool{series.CapacityUtilization.Name: true, series.BurnRate.Name: true}, seen)
}
