package operating

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/metric"
)

const viewSpec = `version: sloengine/v1
service: shop
types: [order]
slos:
  - {name: availability, objective: 99, window: 7d, group_by: [country],
      indicator: {events: {valid: '{type="order"}', bad: '{outcome="failure"}'}}}
  - {name: latency, objective: %s, window: 7d, indicator: {latency: {valid: '{type="order"}', threshold: 1s}}}
  - {name: throughput, objective: 50, window: 7d, indicator: {throughput: {valid: '{type="order"}', at_least: 5,
      per: 10s}}}
slas:
  - {name: all, window: 7d, components: {availability: {slo: availability, weight: 60},
      latency: {slo: latency, weight: 40}}}
`

// viewed is a view as its API shows it.
type viewed struct {
	t     *testing.T
	base  string
	token string
}

func (v viewed) get(path string, into any) (status int, body string) {
	v.t.Helper()
	req, err := http.NewRequest(http.MethodGet, v.base+path, nil)
	require.NoError(v.t, err)
	if v.token != "" {
		req.Header.Set("Authorization", "Bearer "+v.token)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(v.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(v.t, err)
	if into != nil {
		require.NoError(v.t, json.Unmarshal(text, into), string(text))
	}
	return res.StatusCode, string(text)
}

// viewedSLO is what the test needs of one SLO.
type viewedSLO struct {
	Report struct{ Time time.Time }
	SLO    struct {
		Raw struct {
			Counts struct{ Good, Bad, Valid uint64 }
		} `json:"raw_budget"`
		Coverage float64
	}
	Engines []struct {
		Engine string
		Stale  bool
		Counts *struct{ Valid uint64 }
	}
}

func (v viewed) slo(path string) (x viewedSLO) {
	if status, body := v.get("/api/v1/slos/shop/"+path, nil); status == http.StatusOK {
		require.NoError(v.t, json.Unmarshal([]byte(body), &x))
	}
	return x
}

// states are those of the engines, in order.
func (v viewed) states() (out []string) {
	var e struct{ Fleet []struct{ State string } }
	v.get("/api/v1/engine", &e)
	for _, f := range e.Fleet {
		out = append(out, f.State)
	}
	return out
}

// TestView: one view over three engines with tokens. One is killed and comes back, and one gets another spec.
func TestView(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const token, foreign = "0123456789abcdef0123456789abcdef", "ffffffffffffffff0123456789abcdef"
	spec := e2etest.WriteFile(t, dir, "spec.yaml", fmt.Sprintf(viewSpec, "90"))
	e2etest.WriteFile(t, dir, "token", token)
	tokens := e2etest.WriteFile(
		t, dir, "tokens.yaml", "- {name: all, token_file: token, services: ['*'], allow: [send, read, annotate, operate]}\n")
	settings := "evaluator: {interval: 200ms}\nauth: {tokens_file: '" + tokens + "'}\n"

	var engines []*e2etest.Process
	var urls []string
	for i := range 3 {
		home := filepath.Join(dir, fmt.Sprint("e", i))
		require.NoError(t, os.MkdirAll(home, 0o755))
		p := e2etest.Serve(t, home, spec, settings)
		engines, urls = append(engines, p), append(urls, p.Base)
	}
	post := func(p *e2etest.Process, path, typ, body string, want int, header ...string) {
		t.Helper()
		req, err := http.NewRequest(http.MethodPost, p.Base+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", typ)
		req.Header.Set("Authorization", "Bearer "+token)
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		require.NoError(t, err)
		require.Equal(t, want, res.StatusCode, string(text))
	}
	send := func(p *e2etest.Process, good, bad int) {
		t.Helper()
		var b strings.Builder
		for i := range good + bad {
			outcome := "success"
			if i >= good {
				outcome = "failure"
			}
			fmt.Fprintf(
				&b, `{"service":"shop","type":"order","outcome":%q,"duration_ms":20,"attributes":{"country":"fi"}}`+"\n", outcome)
		}
		post(p, "/api/v1/events", "application/x-ndjson", b.String(), 202)
	}
	config := e2etest.WriteFile(t, dir, "view.yaml", settings)
	args := []string{"view", "-f", spec, "--engines", strings.Join(urls, ","), "--web.listen-address", "127.0.0.1:0", "-c",
		config, "--timeout", "2s"}

	// Without a token no engine answers, and the view says why.
	p, ok := e2etest.Start(
		t, nil, append(slices.Clone(args), "--token-file", e2etest.WriteFile(t, dir, "foreign", foreign))...)
	require.True(t, ok, p.Log)
	v := viewed{t, p.Base, token}
	testkit.Eventually(t, "the reason is named", func() bool {
		_, body := v.get("/api/v1/engine", nil)
		return strings.Contains(body, "401 Unauthorized")
	})
	status, body := v.get("/-/ready", nil)
	require.Equal(t, 503, status, body)
	p.Stop(t)

	p = e2etest.Ready(t, append(args, "--token-file", filepath.Join(dir, "token"))...)
	v = viewed{t, p.Base, token}
	send(engines[0], 30, 1)
	send(engines[1], 20, 2)
	send(engines[2], 10, 3)
	testkit.Eventually(t, "all events are counted", func() bool {
		return v.slo("availability?group.country=fi").SLO.Raw.Counts.Valid == 66
	})
	x := v.slo("availability?group.country=fi")
	require.Equal(t, uint64(6), x.SLO.Raw.Counts.Bad)
	require.Len(t, x.Engines, 3)
	require.Equal(t, []string{"ok", "ok", "ok"}, v.states())

	// A failing trace of an engine.
	const failed = `{"service":"shop","type":"order","outcome":"failure","attributes":{"country":"fi"}}`
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	post(engines[2], "/api/v1/events", "application/json", failed, 202, "traceparent", "00-"+trace+"-00f067aa0ba902b7-01")
	testkit.Eventually(t, "the trace is in the view", func() bool {
		_, body := v.get("/api/v1/slos/shop/availability?group.country=fi", nil)
		return strings.Contains(body, trace)
	})
	_, body = v.get("/slo?id=shop/availability&group.country=fi", nil)
	require.Contains(t, body, trace)

	// The annotations of the engines, each once. They are added to an engine.
	const deployed = `{"text":"v2 deployed","kind":"deployment","service":"shop","at":%q}`
	at := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	for _, e := range engines[:2] {
		post(e, "/api/v1/annotations", "application/json", fmt.Sprintf(deployed, at), 200)
	}
	noted := func() string { _, body := v.get("/api/v1/annotations?service=shop", nil); return body }
	testkit.Eventually(t, "the annotation is in the view", func() bool { return strings.Contains(noted(), "v2 deployed") })
	require.Equal(t, 1, strings.Count(noted(), `"id"`), noted())
	_, body = v.get("/slo?id=shop/availability&group.country=fi", nil)
	require.Contains(t, body, "deployment: v2 deployed")
	post(p, "/api/v1/annotations", "application/json", fmt.Sprintf(deployed, at), 501)
	require.Equal(t, 401, func() int {
		s, _ := viewed{t, p.Base, ""}.get("/api/v1/slos", nil)
		return s
	}(), "the view has tokens of its own")

	// One is killed: named everywhere, its last counts stay as stale ones, and its events are missing.
	engines[1].Kill()
	testkit.Eventually(t, "the engine is missing", func() bool {
		return slices.Equal(v.states(), []string{"ok", "missing", "ok"})
	})
	testkit.Eventually(t, "its events are missing", func() bool {
		return v.slo("availability?group.country=fi").SLO.Raw.Counts.Valid == 45
	})
	x = v.slo("availability?group.country=fi")
	var own viewedSLO
	testkit.Eventually(t, "the engine evaluates later than the view did", func() bool {
		own = viewed{t, engines[0].Base, token}.slo("availability?group.country=fi")
		return own.Report.Time.After(x.Report.Time)
	})
	require.Less(t, x.SLO.Coverage, 0.7*own.SLO.Coverage, "two of three observed it")
	require.True(t, x.Engines[1].Stale)
	require.Equal(t, uint64(22), x.Engines[1].Counts.Valid)
	name := strings.TrimPrefix(urls[1], "http://")
	status, body = v.get("/-/ready", nil)
	require.Equal(t, 200, status)
	require.Contains(t, body, `{"part":"engine","name":"`+name+`","reason":"its events are not in the numbers`)
	_, body = v.get("/", nil)
	require.Contains(t, body, "1 of 3 engines is missing")
	require.Contains(t, p.Log.String(), `msg="engine is missing, its events are not in the sums" engine=`+name)
	_, body = v.get("/api/v1/slos/shop/availability/history?group.country=fi", nil)
	require.Contains(t, body, `"good":40`)

	home := filepath.Join(dir, "e1")
	again, ok := e2etest.Start(t, nil, "serve", "-f", spec, "--data-dir", filepath.Join(home, "data"),
		"--web.listen-address", name, "-c", filepath.Join(home, "engine.yaml"))
	require.True(t, ok, again.Log)
	testkit.Eventually(t, "it is back", func() bool {
		return v.slo("availability?group.country=fi").SLO.Raw.Counts.Valid == 67
	})
	require.Contains(t, p.Log.String(), `msg="engine answers again" engine=`+name)

	// The spec changes on one engine, then on the others and the view.
	e2etest.WriteFile(t, dir, "spec.yaml", fmt.Sprintf(viewSpec, "95"))
	post(engines[2], "/-/reload", "application/json", "", 200)
	testkit.Eventually(t, "the other spec is named", func() bool {
		return slices.Equal(v.states(), []string{"ok", "ok", "other_spec"})
	})
	_, body = v.get("/engine", nil)
	require.Contains(t, body, "other spec")
	post(engines[0], "/-/reload", "application/json", "", 200)
	post(again, "/-/reload", "application/json", "", 200)
	require.NoError(t, p.Cmd.Process.Signal(syscall.SIGHUP))
	testkit.Eventually(t, "all have the new spec", func() bool {
		return slices.Equal(v.states(), []string{"ok", "ok", "ok"}) &&
			v.slo("availability?group.country=fi").SLO.Raw.Counts.Valid == 67
	})
	require.Contains(t, p.Log.String(), "reloaded")
	testkit.Eventually(t, "all changes of the spec are annotated", func() bool {
		return strings.Count(noted(), `"kind":"spec"`) > 0 && strings.Contains(noted(), "v2 deployed")
	})
	e2etest.WriteFile(t, dir, "spec.yaml", "version: nonsense\n")
	post(p, "/-/reload", "application/json", "", 422)
	_, body = v.get("/", nil)
	require.Contains(t, body, "The last reload failed")

	// Its own metrics are there, the series of the engines are not.
	_, body = v.get("/metrics", nil)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	require.NoError(t, err)
	for _, part := range metric.Parts() {
		if part.Title == "View of several engines" {
			for _, f := range part.Families {
				require.NotNil(t, families[f.Name], f.Name)
				checkFamily(t, f, families[f.Name])
			}
		}
	}
	for name := range families {
		require.False(t, strings.HasPrefix(name, "slo_") || strings.HasPrefix(name, "sla_"), name)
	}
	for _, e := range []*e2etest.Process{p, engines[0], again, engines[2]} {
		e.Stop(t)
	}
}
