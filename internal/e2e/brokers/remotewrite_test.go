package brokers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/nettest"
)

// writtenTo runs Debian's Prometheus as a receiver of remote write, until the test, or stop, ends it.
func writtenTo(t *testing.T, dir, address string) (stop func()) {
	config := e2etest.WriteFile(t, dir, "prometheus.yml", "scrape_configs: []\n")
	cmd := exec.Command("prometheus", "--config.file", config, "--storage.tsdb.path", filepath.Join(dir, "tsdb"),
		"--web.enable-remote-write-receiver", "--web.listen-address", address)
	log, err := os.OpenFile(filepath.Join(dir, "prometheus.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	stop = func() {
		_ = cmd.Process.Signal(os.Interrupt) // it saves what it has
		_ = cmd.Wait()
		log.Close()
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	testkit.Eventually(t, "Prometheus is ready", func() bool {
		res, err := http.Get("http://" + address + "/-/ready")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	return stop
}

type rawSeries struct {
	Metric map[string]string
	Values [][2]any
}

func (r *rawSeries) at(i int) time.Time {
	return time.UnixMilli(int64(r.Values[i][0].(float64) * 1000))
}

// rawSamples are all samples of the series that match.
func rawSamples(t *testing.T, address, selector string) []rawSeries {
	var answer struct {
		Data struct{ Result []rawSeries }
	}
	body := e2etest.Get(t, "http://"+address+"/api/v1/query?query="+url.QueryEscape(selector+"[1h]"))
	require.NoError(t, json.Unmarshal(body, &answer), "%s", body)
	return answer.Data.Result
}

// While the receiver is down and the engine is killed, no sample is lost, none comes twice, and what a Prometheus has
// at the end is what /metrics says.
func TestRemoteWriteOutage(t *testing.T) {
	t.Parallel()
	needPrometheus(t)
	dir := t.TempDir()
	address := nettest.FreeAddress(t)
	spec := e2etest.WriteFile(t, dir, "spec.yaml",
		"version: sloengine/v1\nservice: shop\nslos: [{name: orders, objective: 99, "+
			"indicator: {events: {valid: '{type=\"order\"}', bad: '{outcome=\"failure\"}'}}}]\n")
	settings := fmt.Sprintf("evaluator: {interval: 1s}\nnotifications: {instance: one}\nremote_write:\n"+
		"  - {name: prom, url: 'http://%s/api/v1/write', interval: 1s, labels: {cluster: test}, headers: {X-Scope-OrgID: "+
		"team}}\n", address)
	p := e2etest.Serve(t, dir, spec, settings)
	send := func(n int) {
		t.Helper()
		for range n {
			status, answer := e2etest.Post(t, p.Base+"/api/v1/events", "",
				`{"service":"shop","type":"order","outcome":"success"}`)
			require.Equal(t, http.StatusAccepted, status, answer)
		}
	}
	const counter = `slo_events_total{slo_id="shop/orders",result="good"}`
	stop := writtenTo(t, dir, address)
	send(3)
	testkit.Eventually(t, "the receiver has the first events", func() bool {
		got := rawSamples(t, address, counter)
		return len(got) == 1 && got[0].Values[len(got[0].Values)-1][1] == "3"
	})
	stop()
	send(4)
	testkit.Eventually(t, "samples wait", func() bool {
		m := e2etest.Scrape(t, p)
		return e2etest.Sum(m["sloengine_remote_write_failing"]) == 1 &&
			e2etest.Sum(m["sloengine_remote_write_lag_seconds"]) > 3
	})
	killed := time.Now()
	p.Kill()
	p = e2etest.Serve(t, dir, spec, settings)
	restarted := time.Now()
	send(5)
	stop = writtenTo(t, dir, address)
	defer stop()
	testkit.Eventually(t, "the receiver has everything", func() bool {
		got := rawSamples(t, address, counter)
		return len(got) == 1 && got[0].Values[len(got[0].Values)-1][1] == "12" &&
			e2etest.Sum(e2etest.Scrape(t, p)["sloengine_remote_write_queue_bytes"]) == 0
	})
	m := e2etest.Scrape(t, p)
	require.Zero(t, e2etest.Sum(m["sloengine_remote_write_dropped_samples_total"]))
	require.EqualValues(t, 12, e2etest.Sum(m["slo_events_total"], "slo_id", "shop/orders", "result", "good"))
	got := rawSamples(t, address, counter)
	require.Equal(t, map[string]string{"__name__": "slo_events_total", "slo_id": "shop/orders", "result": "good",
		"job":      "sloengine",
		"instance": "one", "cluster": "test", "service": got[0].Metric["service"], "slo": got[0].Metric["slo"]},
		got[0].Metric)
	last := 0.0
	for i := range got[0].Values {
		value, err := strconv.ParseFloat(got[0].Values[i][1].(string), 64)
		require.NoError(t, err)
		require.GreaterOrEqual(t, value, last, "a counter")
		if last = value; i == 0 {
			continue
		}
		from, to := got[0].at(i-1), got[0].at(i)
		require.True(t, to.After(from))
		if gap := to.Sub(from); gap > 1900*time.Millisecond {
			require.True(t, from.After(killed.Add(-2*time.Second)) && to.Before(restarted.Add(3*time.Second)),
				"a gap of %s from %s, and the engine was down from %s to %s", gap, from, killed, restarted)
		}
	}
	// Every series of an SLO that /metrics has is there, with its value.
	testkit.Eventually(t, "values are those of /metrics", func() bool {
		have := map[string]string{}
		for _, r := range rawSamples(t, address, `{__name__=~"sl[oa]_.+",cluster="test"}`) {
			for _, added := range []string{"job", "instance", "cluster"} {
				delete(r.Metric, added)
			}
			have[fmt.Sprint(r.Metric)] = r.Values[len(r.Values)-1][1].(string)
		}
		n := 0
		for name, f := range e2etest.Scrape(t, p) {
			if !strings.HasPrefix(name, "slo_") && !strings.HasPrefix(name, "sla_") || f.GetType() == dto.MetricType_HISTOGRAM {
				continue
			}
			for _, of := range f.Metric {
				labels := map[string]string{"__name__": name}
				for _, l := range of.Label {
					if l.GetValue() != "" {
						labels[l.GetName()] = l.GetValue()
					}
				}
				value, err := strconv.ParseFloat(have[fmt.Sprint(labels)], 64)
				if want := of.GetCounter().GetValue() + of.GetGauge().GetValue(); err != nil ||
					value != want && name != "slo_coverage_ratio" { // which grows with each second
					return false
				}
				n++
			}
		}
		return n > 3
	})
}
