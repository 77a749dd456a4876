package e2etest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/stretchr/testify/require"
)

// CrashSpec has one group per event, so that every single one can be looked up.
const CrashSpec = `version: sloengine/v1
service: crash
slos:
  - name: each
    objective: 99
    window: 1d
    group_by: [uid]
    max_groups: 100000
    indicator:
      events: {valid: '{type="t"}', bad: '{outcome="failure"}'}
`

// CrashSettings writes checkpoints often, so that kills hit them.
const CrashSettings = `checkpoint: {interval: 60ms, log: 64KiB}
log: {segment: 1MiB}
evaluator: {interval: 200ms}
disk: {low_water: 1MiB}
`

// Oracle stands outside the victim. It issues ids and records what became of
// them as far as a client can know.
type Oracle struct {
	Mu      sync.Mutex
	Rnd     *rand.Rand
	issued  int
	Acked   map[string]bool // a 202 came back
	Unknown []string        // sent, but no answer came: counted or not
}

// Random is a number below n.
func (o *Oracle) Random(n int) int {
	o.Mu.Lock()
	defer o.Mu.Unlock()
	return o.Rnd.IntN(n)
}

// Stored is how many ids were acknowledged. Of those in doubt few are stored.
func (o *Oracle) Stored() int {
	o.Mu.Lock()
	defer o.Mu.Unlock()
	return len(o.Acked)
}

// batch makes a request: new ids, and now and then old ones again.
func (o *Oracle) batch() (ids []string, body []byte) {
	o.Mu.Lock()
	defer o.Mu.Unlock()
	for range 1 + o.Rnd.IntN(12) {
		o.issued++
		ids = append(ids, fmt.Sprintf("e%06d", o.issued))
	}
	if n := len(o.Unknown); n > 0 && o.Rnd.IntN(2) == 0 {
		i := o.Rnd.IntN(n)
		ids = append(ids, o.Unknown[i])
	}
	if o.Rnd.IntN(4) == 0 {
		for id := range o.Acked {
			ids = append(ids, id)
			break
		}
	}
	var b bytes.Buffer
	for _, id := range ids {
		fmt.Fprintf(&b, `{"id":%q,"service":"crash","type":"t","attributes":{"uid":%q}}`+"\n", id, id)
	}
	return ids, b.Bytes()
}

func (o *Oracle) record(ids []string, acked bool) {
	o.Mu.Lock()
	defer o.Mu.Unlock()
	for _, id := range ids {
		switch {
		case acked:
			o.Acked[id] = true
		case !o.Acked[id]:
			o.Unknown = append(o.Unknown, id)
		}
	}
}

// Load sends until the victim is gone.
func (o *Oracle) Load(p *Process, client *http.Client) {
	for {
		select {
		case <-p.Done:
			return
		default:
		}
		ids, body := o.batch()
		res, err := client.Post(p.Base+"/api/v1/events", "application/x-ndjson", bytes.NewReader(body))
		if err != nil {
			o.record(ids, false)
			continue
		}
		var answer struct{ Received, Accepted, Duplicates int }
		err = json.NewDecoder(res.Body).Decode(&answer)
		res.Body.Close()
		// The status alone is the promise; a cut-off answer promises nothing.
		o.record(ids, res.StatusCode == http.StatusAccepted && err == nil && answer.Accepted+answer.Duplicates == len(ids))
	}
}

// LoadPaced sends until the victim is gone, now and then faster than the limit. What
// became a dead letter is acknowledged too.
func (o *Oracle) LoadPaced(p *Process, client *http.Client) {
	for {
		select {
		case <-p.Done:
			return
		case <-time.After(8 * time.Millisecond):
		}
		ids, body := o.batch()
		res, err := client.Post(p.Base+"/api/v1/events", "application/x-ndjson", bytes.NewReader(body))
		if err != nil {
			o.record(ids, false)
			continue
		}
		var a Answered
		err = json.NewDecoder(res.Body).Decode(&a)
		res.Body.Close()
		o.record(ids, res.StatusCode == http.StatusAccepted && err == nil &&
			a.Accepted+a.Duplicates+a.DeadLettered == len(ids))
	}
}

// CrashIDs bounds the acknowledged ids of one round: each of them is a group, and those beyond
// max_groups could not be looked up.
const CrashIDs = 95_000

// RequireKilled fails if the engine ended in any other way than by a kill or an
// orderly stop: a start that was refused is a failure of the engine.
func RequireKilled(t *testing.T, p *Process) {
	t.Helper()
	<-p.Done
	st := p.Cmd.ProcessState
	if st.ExitCode() != 0 && st.String() != "signal: killed" {
		t.Fatalf("ended with %s:\n%s", st, p.Log)
	}
}

// CountsByID reads the counter of every group, once a report holds them all. The
// first report and a scrape of up to 95,000 groups take a busy machine a while.
func CountsByID(t *testing.T, p *Process) map[string]float64 {
	t.Helper()
	var out map[string]float64
	require.Eventually(t, func() bool {
		family := Scrape(t, p)["slo_events_total"]
		if family == nil {
			return false
		}
		out = map[string]float64{}
		for _, m := range family.Metric {
			for _, l := range m.Label {
				if l.GetName() == "uid" && m.Counter.GetValue() > 0 {
					out[l.GetValue()] += m.Counter.GetValue()
				}
			}
		}
		return len(out) > 0
	}, testkit.Patience, 200*time.Millisecond, p.Log.String())
	return out
}

// CountedOnce fails if an id counts more than once or was never sent.
func CountedOnce(t *testing.T, counts map[string]float64, sent map[string]bool) {
	t.Helper()
	for id, n := range counts {
		if n != 1 || !sent[id] {
			t.Fatalf("%s is counted %v times, sent: %v", id, n, sent[id])
		}
	}
}
