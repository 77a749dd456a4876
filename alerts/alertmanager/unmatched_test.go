package alertmanager

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts"
)

func TestUnmatchedRoutes(t *testing.T) {
	in := insurance(t)
	groups := alerts.Rules(in, alerts.Options{})
	find := func(text string) (out []string) {
		found, err := Unmatched("am.yml", []byte(text), in, groups)
		require.NoError(t, err)
		for _, p := range found {
			out = append(out, p.String())
		}
		return out
	}
	require.Equal(t, []string{
		`am.yml:6:18: warning: no alert matches this route: severity="critical" (alerts have the severities P1, none, page,` +
			` ticket)`,
		`am.yml:9:20: warning: no alert matches this route: severity=~"page|warning", service="nobody" (alerts have the ` +
			`severities P1, none, page, ticket)`,
		`am.yml:11:14: warning: no alert matches this route: alertname="Old" (remove the route, or change its matchers)`,
	}, find(`
route:
  receiver: a
  routes:
    - {matchers: ['severity=~"page|P1"', 'product="MED"', 'cluster="eu"']}
    - {matchers: [severity="critical"], routes: [{matchers: [x="y"]}]}
    - matchers: [severity=~"page|warning"]
      routes: [{matchers: [service="mdm"]},
        {matchers: [service="nobody"]}]
    - match: {alertname: Watchdog}
    - match: {alertname: Old}
receivers: [{name: a}]
`))
	require.Equal(t, []string{
		`am.yml:4:35: warning: routes.recovery: no alert matches it: none has the severity info (remove it)`,
		`am.yml:5:21: warning: services.nobody.critical: no alert matches it: none has the severity P1 or page (remove it)`,
	}, find(`version: sloengine/receivers/v1
receivers: [{name: a, webhook: {url: "http://a/"}}]
default: a
routes: {critical: a, warning: a, recovery: a}
services: {nobody: {critical: a}, mdm: {critical: a, warning: a}}
`))
	_, err := Unmatched("am.yml", []byte("default: a\n"), in, groups)
	require.ErrorContains(t, err, "version")
	_, err = Unmatched("am.yml", []byte("route: {matchers: ['a b']}\n"), in, groups)
	require.ErrorContains(t, err, "am.yml:1:20: ")
}
