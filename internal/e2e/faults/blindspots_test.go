package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

// TestBlindSpotsOfARunningEngine: an engine that has seen four orders an hour for three days gives its usual week, by
// which the commands find that three failed orders take 45 minutes.
func TestBlindSpotsOfARunningEngine(t *testing.T) {
	t.Parallel()
	a := newAttack(t)
	a.start("")
	var body strings.Builder
	to := time.Now().UTC().Truncate(time.Hour)
	from := to.Add(-72 * time.Hour)
	for at := from; at.Before(to); at = at.Add(15 * time.Minute) {
		fmt.Fprintf(&body, `{"service":"shop","type":"order","id":"%d","time":%q}`+"\n", at.Unix(), at.Format(time.RFC3339))
	}
	all := "?backfill=true&covers=" + from.Format(time.RFC3339) + "/" + to.Format(time.RFC3339)
	status, answer := e2etest.Post(t, a.p.Base+"/api/v1/events"+all, "", body.String())
	require.Equal(t, 202, status, answer)
	a.p.Stop(t)
	a.start("") // a forecast is otherwise as old as a minute
	const sentence = "an outage under 45m is invisible, and so is an error rate under 76% for an hour (4 events an hour)"
	require.Eventually(t, func() bool {
		out, errOut, code := e2etest.Command(t, "blindspots", "-f", a.spec, "--running", a.p.Base)
		require.Zero(t, code, errOut)
		return out == "shop/checkout, hours in UTC\n  at any time: "+sentence+"\n"
	}, testkit.Patience, 100*time.Millisecond)

	out, errOut, code := e2etest.Command(t, "check", "-f", a.spec, "--running", a.p.Base)
	require.Zero(t, code, errOut)
	require.Contains(t, out, "spec.yaml:4:11: warning: blind spot, at any time (UTC): "+sentence)
	out, errOut, code = e2etest.Command(t, "check", "-f", a.spec, "--running", a.p.Base, "--fail-on", "warning")
	require.Equal(t, 3, code, out+errOut)
	out, errOut, code = e2etest.Command(t, "check", "-f", a.spec)
	require.Zero(t, code, errOut)
	require.NotContains(t, out, "blind spot")
	a.p.Stop(t)
	_, errOut, code = e2etest.Command(t, "check", "-f", a.spec, "--running", a.p.Base)
	require.Equal(t, 1, code, errOut)
	require.Contains(t, errOut, "engine not reachable (--running)")
}
