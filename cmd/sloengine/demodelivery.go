package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/cmd/sloengine/demo"
)

// demoArchive is the folder of the demo's file sink.
const demoArchive = "archive"

// demoSinks are a sink that works, whose calls give the engine's own objective for delivery data.
const demoSinks = `sinks:
  - name: archive
    file: {dir: %q, max_bytes: 1MiB, keep: 1, fsync: never}
`

// demoWarehouse is a sink whose receiver has outages. Few retries make dead letters of what is sent in the first
// moments of one; then the breaker opens, and everything else waits.
const demoWarehouse = `  - name: warehouse
    http: {url: %[1]q, health_url: %[1]q}
    start: newest
    batch: {items: 200, wait: 1s}
    retry: {max_retries: 1, base: 200ms, cap: 1s}
    breaker: {consecutive: {failures: 4, open: 15s, probes: 1}, rate: off}
    timeout: 2s
`

// demoLimits are about web pages only, so no other event of the demo meets a limit, and the history does not either.
// They are exceeded for seconds, so that no alert on the engine fires for it.
const demoLimits = `limits:
  global: off
  default: off
  types: [{match: page.ping, limit: 60, window: 10s, on_exceeded: aggregate}]
  contexts: [{name: client, from: ["attribute:client"], limit: 60, window: 10s, on_exceeded: sample, sample_rate: 0.1}]
`

// demoReceivers have no integrations: their messages are shown at /silences.
const demoReceivers = `notifications:
  receivers: [{name: oncall}, {name: team}]
  preview: true
  default: team
  routes: {critical: oncall, warning: team, recovery: team}
  timing: {critical: {group_wait: 10s}, warning: {group_wait: 30s}, recovery: {group_wait: 10s}}
`

// settings gives the demo sinks, rate limits and receivers, unless its settings have some.
func (d *demoRun) settings(c *config.Config) error {
	if c.Auth.TokensFile != "" || c.Web.ConfigFile != "" {
		return cli.Usagef(
			"demo sends its traffic without tokens and TLS (remove auth.tokens_file and web.config_file from the settings)")
	}
	text := fmt.Sprintf(demoSinks, filepath.Join(d.dir, demoArchive))
	if d.warehouse.wanted.Load() {
		text += fmt.Sprintf(demoWarehouse, d.warehouse.url)
	}
	own, err := config.Read("demo", []byte(text+demoLimits+demoReceivers))
	if err != nil {
		return err
	}
	if len(c.Sinks) == 0 {
		c.Sinks = own.Sinks
	}
	if c.Limits == nil {
		c.Limits = own.Limits
	}
	if n := &c.Notifications; n.Receivers == "" && len(n.Alertmanagers) == 0 {
		send := n.Send
		*n, n.Send = own.Notifications, send
	}
	return nil
}

// warehouse is a system that the demo delivers events to. It refuses them at times.
type warehouse struct {
	url    string
	wanted atomic.Bool // the settings have its sink
	model  atomic.Pointer[demo.Model]
}

// openWarehouse starts the warehouse on a port of its own. The sink is wanted at once if the folder has a demo already.
func (d *demoRun) openWarehouse() (stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open demo warehouse: %w", err)
	}
	d.warehouse.url = "http://" + l.Addr().String() + "/events"
	if _, err := os.Stat(d.stateFile()); err == nil {
		d.warehouse.wanted.Store(true)
	}
	srv := &http.Server{Handler: &d.warehouse, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = srv.Serve(l) }() // until Close
	return func() { _ = srv.Close() }, nil
}

func (w *warehouse) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	if m := w.model.Load(); m != nil && m.WarehouseDown(time.Now()) {
		http.Error(rw, "warehouse is in maintenance", http.StatusServiceUnavailable)
	}
}

// deliver adds the sink of the warehouse once the history is stored: it starts at the newest event, so the history is
// not sent to it.
func (d *demoRun) deliver(ctx context.Context, base *url.URL) error {
	if d.warehouse.wanted.Swap(true) {
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base.JoinPath("/-/reload").String(), http.NoBody)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("add the demo's sink: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 1000))
		return fmt.Errorf("add the demo's sink: %s: %s", res.Status, text)
	}
	return nil
}
