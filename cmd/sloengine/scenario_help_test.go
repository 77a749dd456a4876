package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
)

// receiver is a sink over HTTP that can be down, slow or refuse, and remembers every
// event it took.
type receiver struct {
	address string
	mode    atomic.Int32
	slow    time.Duration

	mu      sync.Mutex
	server  *http.Server
	got     map[string]int
	arrived []time.Time // of each event, in order
	refused int         // events that came while it took none
}

// What a receiver does with a request.
const (
	takes   = iota
	refuses // 503
	hangs
	rejects // 422: never to be sent again
)

func newReceiver(t testing.TB) *receiver {
	t.Helper()
	r := &receiver{got: map[string]int{}}
	r.up(t)
	t.Cleanup(r.down)
	return r
}

// up listens, at the same address as before.
func (r *receiver) up(t testing.TB) {
	t.Helper()
	address := r.address
	if address == "" {
		address = "127.0.0.1:0"
	}
	var l net.Listener
	require.Eventually(t, func() (ok bool) {
		var err error
		l, err = net.Listen("tcp", address)
		return err == nil
	}, 60*time.Second, 10*time.Millisecond)
	r.address = l.Addr().String()
	server := &http.Server{Handler: r}
	r.mu.Lock()
	r.server = server
	r.mu.Unlock()
	go func() { _ = server.Serve(l) }()
}

// down closes the port and all connections: a process that died.
func (r *receiver) down() {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.server.Close()
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method == http.MethodGet {
		if r.mode.Load() != takes {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	var events []struct{ ID string }
	if err := json.Unmarshal(body, &events); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch mode := r.mode.Load(); mode {
	case hangs:
		select {
		case <-req.Context().Done():
		case <-time.After(time.Minute):
		}
		return
	case refuses, rejects:
		r.mu.Lock()
		r.refused += len(events)
		r.mu.Unlock()
		w.WriteHeader(map[int32]int{refuses: http.StatusServiceUnavailable, rejects: http.StatusUnprocessableEntity}[mode])
		return
	}
	time.Sleep(r.slow)
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for _, e := range events {
		r.got[e.ID]++
		r.arrived = append(r.arrived, now)
	}
}

// has is how many different events arrived.
func (r *receiver) has() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.got)
}

// peak is the most events that arrived within any three seconds, per second. Over one second it would count
// what a busy machine makes late together with what follows.
func (r *receiver) peak() (most int) {
	const seconds = 3
	r.mu.Lock()
	defer r.mu.Unlock()
	from := 0
	for i, at := range r.arrived {
		for at.Sub(r.arrived[from]) >= seconds*time.Second {
			from++
		}
		most = max(most, i-from+1)
	}
	return most / seconds
}

// answered adds up the answers of the engine.
type answered struct {
	Received, Accepted, Duplicates, Limited, Sampled, Rejected int
	DeadLettered                                               int `json:"dead_lettered"`
	safe                                                       []string
}

// sendAt sends events of the given ids and types at a rate, in about ten requests a second, and
// returns what became of them. An event that the engine asks to send again is sent again.
func sendAt(t testing.TB, p *process, service string, perSecond int, for_ time.Duration, event func(i int) (id, typ string)) (sum answered) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	sent := 0
	for began := time.Now(); ; {
		due := min(int(float64(perSecond)*time.Since(began).Seconds()), int(float64(perSecond)*for_.Seconds()))
		var body bytes.Buffer
		var ids []string
		for ; sent < due && len(ids) < 5000; sent++ { // a slow machine catches up in several requests
			id, typ := event(sent)
			ids = append(ids, id)
			fmt.Fprintf(&body, `{"id":%q,"service":%q,"type":%q,"attributes":{"uid":%q}}`+"\n", id, service, typ, id)
		}
		if len(ids) > 0 {
			res, err := http.Post(p.base+"/api/v1/events", "application/x-ndjson", &body)
			require.NoError(t, err)
			data, _ := io.ReadAll(res.Body)
			res.Body.Close()
			require.Equal(t, http.StatusAccepted, res.StatusCode, string(data))
			var a answered
			require.NoError(t, json.Unmarshal(data, &a))
			sum.Received += a.Received
			sum.Accepted += a.Accepted
			sum.Duplicates += a.Duplicates
			sum.Limited += a.Limited
			sum.Sampled += a.Sampled
			sum.DeadLettered += a.DeadLettered
			sum.Rejected += a.Rejected
			if a.Accepted+a.Duplicates == len(ids) {
				sum.safe = append(sum.safe, ids...)
			}
		}
		if sent == int(float64(perSecond)*for_.Seconds()) {
			return sum
		}
		<-tick.C
	}
}

// callAPI calls the API and decodes its answer.
func callAPI(t testing.TB, method, url, body string, into any) {
	t.Helper()
	req, err := http.NewRequest(method, url, bytes.NewReader([]byte(body)))
	require.NoError(t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Contains(t, []int{http.StatusOK, http.StatusCreated}, res.StatusCode, string(data))
	require.NoError(t, json.Unmarshal(data, into), string(data))
}

// deadLetterCount is how many dead letters there are.
func deadLetterCount(t testing.TB, p *process) int {
	t.Helper()
	var stats struct{ Count int }
	callAPI(t, http.MethodGet, p.base+"/api/v1/dlq/stats", "", &stats)
	return stats.Count
}

// replayAll replays dead letters until there are none.
func replayAll(t testing.TB, p *process) (replayed int) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline) && deadLetterCount(t, p) > 0; {
		var result struct{ Replayed, Failed int }
		callAPI(t, http.MethodPost, p.base+"/api/v1/dlq/replay", `{"all":true}`, &result)
		replayed += result.Replayed
	}
	require.Zero(t, deadLetterCount(t, p), "dead letters that no replay brings back")
	return replayed
}

// counted is the number of events that an indicator of the service counts, be they
// new traffic or replayed later.
func counted(t testing.TB, p *process, slo string) int {
	t.Helper()
	total := 0.0
	families := scrape(t, p)
	for _, m := range slices.Concat(families["slo_events_total"].GetMetric(), families["slo_backfilled_events_total"].GetMetric()) {
		if slices.ContainsFunc(m.Label, func(l *dto.LabelPair) bool { return l.GetName() == "slo" && l.GetValue() == slo }) {
			total += m.GetCounter().GetValue()
		}
	}
	return int(total)
}
