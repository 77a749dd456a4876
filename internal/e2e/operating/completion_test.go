package operating

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

const completionSpec = `version: sloengine/v1
service: shop
slos:
  - name: orders
    objective: 99
    window: 1d
    group_by: [product]
    indicator:
      completion:
        started: '{type="created"}'
        finished: '{type="shipped"}'
        failed: '{type="dead_letter"}'
        key: order_id
        stage: stage
        within: 15m
`

// TestCompletionSurvivesKills kills the engine again and again while work starts and ends, and sends what was not
// acknowledged once more. Each piece of work counts once, in its group, and what has not ended is in flight.
func TestCompletionSurvivesKills(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(7, 7))
	dir := t.TempDir()
	specFile := e2etest.WriteFile(t, dir, "spec.yaml", completionSpec)
	now := time.Now().Add(-time.Minute).UTC()
	var events []string
	add := func(typ, key string, at time.Time, more string) {
		events = append(events,
			fmt.Sprintf(`{"id":"%s-%s","service":"shop","type":%q,"time":%q,"attributes":{"order_id":%q%s}}`, typ, key, typ,
				at.Format(time.RFC3339Nano), key, more))
	}
	good, bad, open := map[string]float64{}, map[string]float64{}, map[string]float64{}
	for i := range 600 {
		key, product := fmt.Sprintf("order-%04d", i), string(rune('A'+i%3))
		start := now.Add(-time.Duration(rnd.IntN(600)) * time.Second)
		add("created", key, start, fmt.Sprintf(`,"product":%q,"stage":"INIT"`, product))
		switch rnd.IntN(4) {
		case 0:
			open[product]++
		case 1:
			add("dead_letter", key, start.Add(10*time.Second), "")
			bad[product]++
		default:
			add("shipped", key, start.Add(20*time.Second), "")
			good[product]++
		}
	}
	// ends come before starts, too
	rnd.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })

	client := &http.Client{Timeout: 30 * time.Second}
	send := func(p *e2etest.Process, batch []string) bool {
		var body bytes.Buffer
		for _, e := range batch {
			fmt.Fprintln(&body, e)
		}
		res, err := client.Post(p.Base+"/api/v1/events", "application/x-ndjson", &body)
		if err != nil {
			return false
		}
		defer res.Body.Close()
		var answer struct{ Accepted, Duplicates int }
		return res.StatusCode == http.StatusAccepted && json.NewDecoder(res.Body).Decode(&answer) == nil &&
			answer.Accepted+answer.Duplicates == len(batch)
	}
	const rounds = 6
	from := 0
	for round := range rounds {
		p := e2etest.Serve(t, dir, specFile, e2etest.CrashSettings)
		until := len(events) * (round + 1) / rounds
		for from < until {
			batch := events[from:min(from+1+rnd.IntN(60), until)]
			if rnd.IntN(8) == 0 && round < rounds-1 {
				go func() { testkit.Pause(time.Duration(rnd.IntN(5)) * time.Millisecond); p.Kill() }()
				if send(p, batch) {
					from += len(batch)
				}
				<-p.Done
				break // the rest comes after the restart
			}
			require.True(t, send(p, batch), p.Log.String())
			from += len(batch)
		}
		p.Kill()
		<-p.Done
	}
	p := e2etest.Serve(t, dir, specFile, e2etest.CrashSettings)
	for from < len(events) {
		batch := events[from:min(from+200, len(events))]
		require.True(t, send(p, batch), p.Log.String())
		from += len(batch)
	}
	require.True(t, send(p, events), "all of it again changes nothing")

	require.EventuallyWithT(t, func(c *assert.CollectT) {
		families := e2etest.Scrape(t, p)
		counts := map[string]map[string]float64{"good": {}, "bad": {}, "INIT": {}}
		for _, name := range []string{"slo_events_total", "slo_in_flight"} {
			if families[name] == nil {
				continue
			}
			for _, m := range families[name].Metric {
				product, kind := "", ""
				for _, l := range m.Label {
					switch l.GetName() {
					case "product":
						product = l.GetValue()
					case "result", "slo_stage":
						kind = l.GetValue()
					}
				}
				if n := m.GetCounter().GetValue() + m.GetGauge().GetValue(); n > 0 {
					counts[kind][product] = n
				}
			}
		}
		require.Equal(c, map[string]map[string]float64{"good": good, "bad": bad, "INIT": open}, counts)
	}, testkit.Patience, 200*time.Millisecond)

	res, err := client.Get(p.Base + "/api/v1/slos/shop/orders?group.product=A")
	require.NoError(t, err)
	defer res.Body.Close()
	var answer struct {
		Work struct {
			Stages []struct {
				Stage string
				Open  float64
			}
			Items []struct{ Key string }
		} `json:"in_flight"`
	}
	require.NoError(t, json.NewDecoder(res.Body).Decode(&answer))
	require.Len(t, answer.Work.Stages, 1)
	require.Equal(t, open["A"], answer.Work.Stages[0].Open)
	require.NotEmpty(t, answer.Work.Items)
	p.Stop(t)
}

// TestWorkBeyondMaxInFlight: with room for two pieces of work, the third start is not tracked. That is said everywhere
// until a piece ends.
func TestWorkBeyondMaxInFlight(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	specFile := e2etest.WriteFile(
		t, dir, "spec.yaml", strings.Replace(completionSpec, "within: 15m", "within: 15m\n        max_in_flight: 2", 1))
	p := e2etest.Serve(t, dir, specFile, "evaluator: {interval: 50ms}\n")
	send := func(typ string, keys ...string) {
		t.Helper()
		body := ""
		for _, key := range keys {
			body += fmt.Sprintf(
				`{"service":"shop","type":%q,"attributes":{"order_id":%q,"product":"A","stage":"INIT"}}`+"\n", typ, key)
		}
		status, answer := e2etest.Post(t, p.Base+"/api/v1/events", "", body)
		require.Equal(t, http.StatusAccepted, status, answer)
	}
	crowded := func(c *assert.CollectT, want bool) {
		assert.Equal(
			c, want, strings.Contains(string(e2etest.Get(t, p.Base+"/-/ready")), `"part":"slo","name":"shop/orders"`))
		assert.Equal(c, want, strings.Contains(string(e2etest.Get(t, p.Base+"/engine")),
			"slo shop/orders: work in flight has reached max_in_flight (2); 1 start event not tracked"))
		assert.Equal(c, want, strings.Contains(string(e2etest.Get(t, p.Base+"/api/v1/engine")),
			`"crowded":[{"slo":"shop/orders","max_in_flight":2,"untracked":1}]`))
	}
	send("created", "a", "b")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Contains(c, string(e2etest.Get(t, p.Base+"/api/v1/slos/shop/orders?group.product=A")), `"open":2`)
		crowded(c, false)
	}, testkit.Patience, 50*time.Millisecond)
	send("created", "c")
	require.EventuallyWithT(t, func(c *assert.CollectT) { crowded(c, true) }, testkit.Patience, 50*time.Millisecond)
	require.Equal(t, 1.0, e2etest.Counter(t, p, "sloengine_fold_untracked_starts_total"))
	require.Contains(t, p.Log.String(), `level=WARN msg="SLO reached max_in_flight`)
	send("shipped", "a")
	require.EventuallyWithT(t, func(c *assert.CollectT) { crowded(c, false) }, testkit.Patience, 50*time.Millisecond)
	require.Contains(t, p.Log.String(), "SLO is below max_in_flight again")
	p.Stop(t)
}
