package client

import (
	"context"
	"errors"
	"time"
)

// Observe runs f and sends e with the time it took and how it went: a failure if f
// returns an error or panics. The event is handed over as by Send, also when ctx has
// ended meanwhile. The error is f's; with Options.FailClosed, or FailOnError, that of
// Send is joined to it. A panic of f goes on after the event is sent.
func (c *Client) Observe(ctx context.Context, e Event, f func() error) (err error) {
	began := time.Now()
	returned := false
	defer func() {
		e.Duration, e.HasDuration = time.Since(began), true
		e.Outcome = Success
		if err != nil || !returned {
			e.Outcome = Failed
		}
		if serr := c.Send(ctx, e); serr != nil {
			err = errors.Join(err, serr)
		}
	}()
	err = f()
	returned = true
	return err
}
