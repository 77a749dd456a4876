package client

import (
	"context"
	"fmt"
	"time"

	"github.com/sloengine/sloengine/reliability/retry"
)

// holdLeast is the shortest wait before a batch that is held in memory is tried again.
const holdLeast = 10 * time.Millisecond

// sendQueue sends batches of the queue until ctx has ended.
func (c *Client) sendQueue(ctx context.Context) {
	for {
		b := c.q.next(ctx)
		if b == nil {
			return
		}
		c.sendQueued(ctx, b)
	}
}

// sendQueued sends one batch, puts it into the spool, or holds it until one of the two
// works. When ctx ends before, the batch goes back into the queue.
func (c *Client) sendQueued(ctx context.Context, b *queued) {
	var wait time.Duration
	for n := 0; ; n++ {
		rest := b.batch
		if c.spool == nil || c.unavailable() == nil {
			rest, _ = c.deliver(ctx, b.batch) // whatever the reason, what is left is tried again
		}
		if rest == nil {
			c.q.done(b, c.d.poster.Copies(b.Body))
			return
		}
		if rest != b.batch {
			b.batch, b.pinned = rest, true
		}
		if c.spool != nil && c.spool.put(b.batch, spoolWait) == nil {
			c.m.spooled.Add(b.Len())
			c.q.done(b, false)
			return
		}
		b.pinned = true
		wait = max(c.d.sender.Policy.Delay(n, wait), holdLeast)
		if !retry.Sleep(ctx, wait) || c.d.ready(ctx) != nil {
			c.q.putBack(b)
			return
		}
	}
}

// relieve moves batches from memory to the spool while more than half of the memory is
// used, so that a burst, or a slow server, doesn't fill it.
func (c *Client) relieve(ctx context.Context) {
	for {
		select {
		case <-c.q.pressure:
		case <-ctx.Done():
			return
		}
		for ctx.Err() == nil {
			if _, pressed := c.q.state(); !pressed {
				break
			}
			b := c.q.take()
			if b == nil {
				break
			}
			if err := c.spool.put(b.batch, spoolWait); err != nil {
				b.pinned = true
				c.q.putBack(b)
				retry.Sleep(ctx, time.Second)
				continue
			}
			c.m.spooled.Add(b.Len())
			c.q.done(b, false)
		}
	}
}

// Close refuses new events, waits for calls in progress, sends what is queued as long as
// ctx allows (at most Options.Timeout if it has no deadline), puts the rest into the
// spool, and stops. The error says how many events were lost by that; they are counted
// too. What is in the spool is sent by the next client on its folder.
func (c *Client) Close(ctx context.Context) error {
	c.callsMu.Lock()
	again := c.closed
	c.closed = true
	c.callsMu.Unlock()
	if again {
		return nil
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.o.Timeout)
		defer cancel()
	}
	done := make(chan error, 1)
	go func() { done <- c.shutdown(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	t := time.NewTimer(closeGrace)
	defer t.Stop()
	select {
	case err := <-done:
		return err
	case <-t.C:
		return fmt.Errorf("close client: the spool's disk is not responding: %w", context.Cause(ctx))
	}
}

// closeGrace is how long Close waits for the disk beyond its context.
const closeGrace = time.Second

func (c *Client) shutdown(ctx context.Context) error {
	c.waitCalls(ctx) // they may still queue what they couldn't send
	c.q.close()
	fctx := ctx
	if c.spool != nil {
		if at, ok := ctx.Deadline(); ok {
			var cancel context.CancelFunc
			fctx, cancel = context.WithDeadline(ctx, at.Add(-reserve(ctx)))
			defer cancel()
		}
	}
	_ = c.q.flush(fctx) // what is left is dealt with below
	c.stopQueue()
	c.queueDone.Wait()
	lost := c.drain()
	if c.spool != nil {
		c.stopReplay()
		c.replayDone.Wait()
		c.stopSpool()
		c.spoolDone.Wait()
		c.spool.close()
		c.m.spoolLimit.Add(-c.o.Spool.MaxBytes)
	}
	c.d.poster.Close()
	if lost > 0 {
		return fmt.Errorf("close client: %d events lost: the server did not accept them in time", lost)
	}
	return nil
}

// waitCalls waits for Send's callers, who wait no longer than Options.Timeout.
func (c *Client) waitCalls(ctx context.Context) {
	done := make(chan struct{})
	go func() { c.calls.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// drain empties the queue, which nobody sends any more.
func (c *Client) drain() (lost int) {
	for {
		b := c.q.take()
		if b == nil {
			return lost
		}
		err, why := ErrClosed, Stopped
		if c.spool != nil {
			if err = c.spool.put(b.batch, spoolWait); err != nil {
				why = spoolReason(err)
			}
		}
		if err == nil {
			c.m.spooled.Add(b.Len())
		} else {
			lost += b.Len()
			c.r.lost(b.batch, why, err)
		}
		c.q.done(b, false)
	}
}
