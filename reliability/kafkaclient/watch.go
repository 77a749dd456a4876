package kafkaclient

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sloengine/sloengine/reliability/retry"
)

// watch sees every connection and request of a client. The client itself retries forever with a wrong password, and
// does not report it elsewhere.
type watch struct {
	series *series // nil: not exported

	mu      sync.Mutex
	failure error         // of the last attempt to connect, nil if it succeeded
	changed chan struct{} // closed and replaced with each attempt
}

var (
	_ kgo.HookBrokerConnect           = (*watch)(nil)
	_ kgo.HookBrokerDisconnect        = (*watch)(nil)
	_ kgo.HookBrokerE2E               = (*watch)(nil)
	_ kgo.HookBrokerThrottle          = (*watch)(nil)
	_ kgo.HookProduceRecordBuffered   = (*watch)(nil)
	_ kgo.HookProduceRecordUnbuffered = (*watch)(nil)
)

// Failure is why the last attempt to connect to a broker failed, as a *remote.BrokerError, or nil if it succeeded.
func (c *Client) Failure() error {
	c.watch.mu.Lock()
	defer c.watch.mu.Unlock()
	return c.watch.failure
}

// Watch returns a context that also ends when an attempt to connect fails for a reason that an operator has to fix,
// such as a wrong password, with which the client itself would retry. The failure is its cause. stop has to be
// called.
func (c *Client) Watch(ctx context.Context) (watched context.Context, stop func()) {
	watched, cancel := context.WithCancelCause(ctx)
	var group sync.WaitGroup
	group.Go(func() {
		if err := c.blocked(watched); err != nil {
			cancel(err)
		}
	})
	return watched, func() { cancel(nil); group.Wait() }
}

// blocked returns the failure of Watch, or nil once ctx ends. Attempts before the call do not count.
func (c *Client) blocked(ctx context.Context) error {
	w := c.watch
	for {
		w.mu.Lock()
		next := w.changed
		w.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil
		case <-next:
		}
		if err := c.Failure(); err != nil && retry.ClassOf(err) == retry.ClassBlocked {
			return err
		}
	}
}

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (w *watch) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	w.mu.Lock()
	w.failure = Explain(err)
	close(w.changed)
	w.changed = make(chan struct{})
	w.mu.Unlock()
	if s := w.series; s != nil {
		if err != nil {
			s.connectsFailed.Inc()
		} else {
			s.connects.Inc()
		}
	}
}

// OnBrokerDisconnect implements kgo.HookBrokerDisconnect.
func (w *watch) OnBrokerDisconnect(kgo.BrokerMetadata, net.Conn) {
	if w.series != nil {
		w.series.disconnects.Inc()
	}
}

// OnBrokerE2E implements kgo.HookBrokerE2E.
func (w *watch) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	if w.series == nil {
		return
	}
	kind := kindOf(key)
	w.series.seconds[kind].Update(e2e.DurationE2E().Seconds())
	if e2e.Err() != nil {
		w.series.failures[kind].Inc()
	}
}

// OnBrokerThrottle implements kgo.HookBrokerThrottle.
func (w *watch) OnBrokerThrottle(_ kgo.BrokerMetadata, d time.Duration, _ bool) {
	if w.series != nil {
		w.series.throttled.Add(d.Seconds())
	}
}

// OnProduceRecordBuffered implements kgo.HookProduceRecordBuffered.
func (w *watch) OnProduceRecordBuffered(r *kgo.Record) {
	if w.series != nil {
		w.series.bufferedRecords.Add(1)
		w.series.bufferedBytes.Add(size(r))
	}
}

// OnProduceRecordUnbuffered implements kgo.HookProduceRecordUnbuffered.
func (w *watch) OnProduceRecordUnbuffered(r *kgo.Record, _ error) {
	if w.series != nil {
		w.series.bufferedRecords.Add(-1)
		w.series.bufferedBytes.Add(-size(r))
	}
}

// size is the size of a record's content, in bytes.
func size(r *kgo.Record) float64 {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return float64(n)
}
