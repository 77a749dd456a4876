package operating

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

const callSpec = `version: sloengine/v1
service: shop
slos:
  - {name: availability, objective: 99, indicator: {events: {valid: '{type="call"}', bad: '{outcome="failure"}'}}}
`

const callRule = `otlp: {metrics: [{metric: calls, type: call}]}
evaluator: {interval: 500ms}
checkpoint: {interval: 200ms}
`

// app is a process with a cumulative counter by route, as an SDK exports it.
type app struct {
	instance int
	start    time.Time
	calls    [3]int
}

func (a *app) export() string {
	var points []string
	for route, n := range a.calls {
		if n > 0 {
			points = append(points, fmt.Sprintf(`{"startTimeUnixNano":"%d","timeUnixNano":"%d","asInt":"%d","attributes":[{`+
				`"key":"http.route","value":{"stringValue":"/%d"}}]}`, a.start.UnixNano(), time.Now().UnixNano(), n, route))
		}
	}
	return fmt.Sprintf(`{"resourceMetrics":[{"resource":{"attributes":[{"key":"service.name",`+
		`"value":{"stringValue":"shop"}},{"key":"service.instance.id","value":{"intValue":"%d"}}]},`+
		`"scopeMetrics":[{"metrics":[{"name":"calls","sum":{"aggregationTemporality":2,"isMonotonic":true,`+
		`"dataPoints":[%s]}}]}]}]}`, a.instance, strings.Join(points, ","))
}

// Counters survive that the engine is killed before or after it stored them, that processes begin again, and that what
// they sent is sent again.
func TestMetricsOverKills(t *testing.T) {
	dir := t.TempDir()
	spec := e2etest.WriteFile(t, dir, "spec.yaml", callSpec)
	var p *e2etest.Process
	start := func() {
		var ok bool
		p, ok = e2etest.ServeIn(t, dir, spec, callRule)
		require.True(t, ok, p.Log)
	}
	start()
	client := &http.Client{Timeout: 5 * time.Second}
	post := func(body string) bool {
		res, err := client.Post(p.Base+"/v1/metrics", "application/json", strings.NewReader(body))
		if err != nil {
			return false
		}
		defer res.Body.Close()
		return res.StatusCode == http.StatusOK
	}
	send := func(body string) {
		testkit.Eventually(t, "the engine takes the metrics", func() bool { return post(body) })
	}
	const older = 1_000_000_000
	apps := []*app{{instance: 1, start: time.Now().Add(-time.Hour), calls: [3]int{older, 0, 0}}}
	send(apps[0].export()) // of before the engine
	want, kills, next := 0, 6, 2
	random := rand.New(rand.NewPCG(1, 2))
	for killed := 0; killed < kills; {
		a := apps[random.IntN(len(apps))]
		for range random.IntN(5) {
			a.calls[random.IntN(3)] += 2
			want += 2
		}
		switch body := a.export(); random.IntN(8) {
		case 0: // it begins again, or another one does
			send(body)
			if *a = (app{instance: a.instance, start: time.Now()}); len(apps) < 4 {
				apps = append(apps, &app{instance: next, start: time.Now()})
				next++
			}
		case 1, 2:
			stored := make(chan bool)
			go func() { stored <- post(body) }()
			if random.IntN(2) == 0 {
				testkit.Pause(time.Duration(random.IntN(3)) * time.Millisecond)
			}
			p.Kill()
			<-stored
			killed++
			start()
			send(body)
		default:
			send(body)
			send(body)
		}
	}
	for _, a := range apps {
		send(a.export())
	}
	testkit.Eventually(t, "every call counts once", func() bool { return e2etest.Counted(t, p, "availability") >= want })
	require.Equal(t, want, e2etest.Counted(t, p, "availability"))
	p.Stop(t)
	start()
	send(apps[0].export())
	apps[0].calls[2] += 5
	send(apps[0].export())
	testkit.Eventually(t, "the counters are known after a restart",
		func() bool { return e2etest.Counted(t, p, "availability") == want+5 })
	p.Stop(t)
}
