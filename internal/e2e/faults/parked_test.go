package faults

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

const parkedSpec = `version: sloengine/v1
service: %s
slos:
  - name: checkout
    objective: 99
    indicator:
      events: {valid: '{type="order"}', bad: '{outcome="%s"}'}
`

// attack is an engine whose spec is changed under its counts.
type attack struct {
	t    *testing.T
	dir  string
	spec string
	p    *e2etest.Process
}

func newAttack(t *testing.T) *attack {
	a := &attack{t: t, dir: t.TempDir()}
	a.spec = e2etest.WriteFile(t, a.dir, "spec.yaml", fmt.Sprintf(parkedSpec, "shop", "failure"))
	return a
}

func (a *attack) write(service, bad string) {
	e2etest.WriteFile(a.t, a.dir, "spec.yaml", fmt.Sprintf(parkedSpec, service, bad))
}

func (a *attack) start(more string) {
	a.t.Helper()
	p := e2etest.Serve(a.t, a.dir, a.spec,
		"rebuild: off\nevaluator: {interval: 50ms}\ncheckpoint: {interval: 200ms}\n"+more)
	a.p = p
}

func (a *attack) reload() string {
	a.t.Helper()
	status, answer := e2etest.Post(a.t, a.p.Base+"/-/reload", "", "")
	require.Equal(a.t, 200, status, answer)
	return answer
}

// send posts the events [from, to), a tenth of them bad, and says what became of them.
func (a *attack) send(from, to int) (total e2etest.Answered) {
	a.t.Helper()
	for from < to {
		var body strings.Builder
		end := min(to, from+5000)
		for i := from; i < end; i++ {
			outcome := "success"
			if i%10 == 0 {
				outcome = "failure"
			}
			fmt.Fprintf(&body, `{"id":"%d","service":"shop","type":"order","outcome":%q}`+"\n", i, outcome)
		}
		status, answer := e2etest.Post(a.t, a.p.Base+"/api/v1/events", "", body.String())
		require.Equal(a.t, 202, status, answer)
		var one e2etest.Answered
		require.NoError(a.t, json.Unmarshal([]byte(answer), &one))
		total.Accepted += one.Accepted
		total.Duplicates += one.Duplicates
		from = end
	}
	return total
}

type countedSLO struct {
	ID         string `json:"id"`
	Generation int    `json:"generation"`
	Budget     struct {
		Counts struct {
			Good int `json:"good"`
			Bad  int `json:"bad"`
		} `json:"counts"`
	} `json:"budget"`
}

// counts waits until the SLO shop/checkout has them in its window.
func (a *attack) counts(good, bad int) (c countedSLO) {
	a.t.Helper()
	require.Eventually(a.t, func() bool {
		var list struct {
			Items []countedSLO `json:"items"`
		}
		require.NoError(a.t, json.Unmarshal(e2etest.Get(a.t, a.p.Base+"/api/v1/slos"), &list))
		for _, c = range list.Items {
			if c.ID == "shop/checkout" && c.Budget.Counts.Good == good && c.Budget.Counts.Bad == bad {
				return true
			}
		}
		return false
	}, testkit.Patience, 50*time.Millisecond, "want %d good and %d bad, have %+v", good, bad, &c)
	return c
}

// TestSpecChangeLosesNothing is an attack by typing errors: 94,380 events are counted, the
// service is misspelt for one start, and a matcher for one reload. What was counted is there
// afterwards and resending all of it changes nothing, whatever is killed on the way.
func TestSpecChangeLosesNothing(t *testing.T) {
	t.Parallel()
	const n = 94_380
	a := newAttack(t)
	a.start("")
	require.Equal(t, n, a.send(0, n).Accepted)
	a.counts(n-n/10, n/10)
	a.p.Kill()

	a.write("shopp", "failure")
	a.start("")
	status, answer := e2etest.Post(t, a.p.Base+"/api/v1/events", "", `{"id":"x","service":"shop","type":"order"}`)
	require.Equal(t, 422, status, answer)
	e2etest.Rises(t, a.p, "sloengine_checkpoint_written_total", 2) // they hold the parked generation and nothing else does
	a.p.Kill()
	a.write("shop", "failure")
	a.start("")
	require.EqualValues(t, 1, a.counts(n-n/10, n/10).Generation)
	require.Zero(t, e2etest.Counter(t, a.p, "slo_events_total"), "Prometheus must not see 94,380 new events")
	require.Equal(t, n, a.send(0, n).Duplicates)
	a.counts(n-n/10, n/10)
	require.Zero(t, e2etest.Counter(t, a.p, "slo_events_total"))

	// The same by a reload with one changed matcher, and back.
	a.write("shop", "success")
	a.reload()
	require.EqualValues(t, 2, a.counts(0, 0).Generation)
	require.Equal(t, n, a.send(0, n).Duplicates, "a resend does not enter a later generation")
	require.Equal(t, 10, a.send(n, n+10).Accepted)
	a.counts(1, 9)
	a.p.Kill()
	a.start("")
	a.counts(1, 9)
	a.write("shop", "failure")
	a.reload()
	a.counts(n-n/10, n/10)
	require.Equal(t, n+10, a.send(0, n+10).Duplicates, "what the other generation counted is not counted again")
	require.Equal(t, 5, a.send(n+10, n+15).Accepted)
	a.counts(n-n/10+4, n/10+1)
	require.Equal(t, 5.0, e2etest.Counter(t, a.p, "slo_events_total"))
	require.Equal(t, 2.0, e2etest.Counter(t, a.p, "sloengine_fold_parked_generations"), "shopp, and the other matcher")
	require.Positive(t, e2etest.Counter(t, a.p, "sloengine_fold_parked_bytes"))
	a.p.Stop(t)
}

// TestEvictedCountsAgain: without room for parked generations what was counted is gone, and
// says so; sent again it counts once.
func TestEvictedCountsAgain(t *testing.T) {
	t.Parallel()
	const tight = "parked: {memory: 1}\n"
	a := newAttack(t)
	a.start(tight)
	require.Equal(t, 1000, a.send(0, 1000).Accepted)
	a.counts(900, 100)
	a.p.Kill()
	a.write("shopp", "failure")
	a.start(tight)
	require.Eventually(t, func() bool {
		return e2etest.Counter(t, a.p, "sloengine_fold_parked_evicted_total") == 1 &&
			strings.Contains(a.p.Log.String(), "parked counts evicted")
	}, testkit.Patience, 50*time.Millisecond, a.p.Log.String())
	require.Contains(t, a.p.Log.String(), "slos=shop/checkout")
	a.p.Kill()
	a.write("shop", "failure")
	a.start(tight)
	a.counts(0, 0)
	require.Equal(t, 1000, a.send(0, 1000).Accepted)
	a.counts(900, 100)
	a.p.Kill()
	a.start(tight)
	require.Equal(t, 1000, a.send(0, 1000).Duplicates)
	a.counts(900, 100)
	a.p.Stop(t)
}

// TestSpecChangeIsNamed: before, at and after a change of the spec everybody is told which
// SLOs start from zero, which are removed, and until when their counts are retained.
func TestSpecChangeIsNamed(t *testing.T) {
	t.Parallel()
	a := newAttack(t)
	a.start("")
	for _, line := range a.p.LinesWith("level=WARN") {
		require.Contains(t, line, "took longer than its interval", "a new engine has lost nothing, on a slow machine, too")
	}
	require.Equal(t, 100, a.send(0, 100).Accepted)
	next := e2etest.WriteFile(t, a.dir, "next.yaml", fmt.Sprintf(parkedSpec, "shopp", "failure"))
	diff := func(want int, args ...string) string {
		t.Helper()
		out, errOut, code := e2etest.Command(t, append([]string{"diff", "--running", "--url", a.p.Base}, args...)...)
		require.Equal(t, want, code, errOut)
		return out
	}
	month := time.Now().Add(30*24*time.Hour + 10*time.Minute).UTC().Format("2006-01-02T")
	out := diff(3, next)
	require.Contains(t, out, "shopp/checkout  starts from zero\n")
	require.Contains(t, out, "shop/checkout  is removed: its counts are retained until "+month)
	require.Equal(t, "Every SLO keeps its counts.\n", diff(0, a.spec))
	require.Contains(t, diff(3, "-o", "json", next), `"started": [`)
	a.p.Kill()

	a.write("shopp", "failure")
	a.start("")
	log := func(want ...string) {
		t.Helper()
		for _, w := range want {
			require.Eventually(t, func() bool {
				return strings.Contains(a.p.Log.String(), w)
			}, testkit.Patience, 20*time.Millisecond, "%s in\n%s", w, a.p.Log)
		}
	}
	log(`msg="SLOs start from zero" slos=shopp/checkout`,
		`msg="SLOs removed, their counts are parked" slos=shop/checkout retained_until=`+month)
	require.Contains(t, diff(3, e2etest.WriteFile(t, a.dir, "back.yaml", fmt.Sprintf(parkedSpec, "shop", "failure"))),
		"shop/checkout  resumes its parked counts\n")
	a.write("shop", "failure")
	answer := a.reload()
	require.Contains(t, answer,
		`"started":[],"resumed":["shop/checkout"],"parked":[{"id":"shopp/checkout","removed":true,"retained_until":"`+month)
	log(`msg="SLOs resume their parked counts" slos=shop/checkout`)
	require.NotContains(t, a.reload(), `"change"`, "the same spec once more changes nothing")

	a.write("shop", "success")
	require.Contains(
		t, a.reload(), `"started":["shop/checkout"],"resumed":[],"parked":[{"id":"shop/checkout","removed":false,`)
	log(`msg="SLO definitions changed, old counts are parked" slos=shop/checkout`)
	page := string(e2etest.Get(t, a.p.Base+"/engine"))
	require.Contains(t, page, "Archived counts")
	require.Contains(t, page, "<bdi>shopp/checkout</bdi>")
	require.Contains(t, page, "of 256.0 MiB")
	require.Contains(t, page, "New since restart")
	a.p.Stop(t)
}

// TestForgetCommand: what is forgotten counts again, exactly once, also after a kill.
func TestForgetCommand(t *testing.T) {
	t.Parallel()
	a := newAttack(t)
	a.start("")
	require.Equal(t, 1000, a.send(0, 1000).Accepted)
	a.counts(900, 100)
	forget := func(want int, text string, args ...string) {
		t.Helper()
		out, errOut, code := e2etest.Command(t, append([]string{"forget", "--url", a.p.Base}, args...)...)
		require.Equal(t, want, code, errOut)
		require.Contains(t, out+errOut, text)
	}
	forget(1, "404 Not Found: Nothing was done: nothing was counted for this service", "bank")
	forget(1, "409 Conflict: Nothing was done: the running spec has this service", "shop")
	forget(2, "takes exactly one SERVICE")
	a.counts(900, 100)
	forget(0, "forgot shop: 0 parked generations dropped, 1 generation restarted from zero", "shop", "--restart")
	a.counts(0, 0)
	a.p.Kill()
	a.start("")
	a.counts(0, 0)
	require.Equal(t, 1000, a.send(0, 1000).Accepted)
	require.Equal(t, 1000, a.send(0, 1000).Duplicates)
	a.counts(900, 100)

	// Of a service that the spec does not have any more, parked counts go.
	a.write("shopp", "failure")
	a.reload()
	forget(0, `"parked": 1`, "shop", "-o", "json")
	require.Eventually(t, func() bool {
		return e2etest.Counter(t, a.p, "sloengine_fold_parked_generations") == 0
	}, testkit.Patience, 20*time.Millisecond)
	a.p.Kill()
	a.write("shop", "failure")
	a.start("")
	a.counts(0, 0)
	require.Equal(t, 1000, a.send(0, 1000).Accepted)
	a.p.Kill()
	a.start("")
	require.Equal(t, 1000, a.send(0, 1000).Duplicates)
	a.counts(900, 100)
	a.p.Stop(t)
}
