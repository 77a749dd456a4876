package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sloengine/sloengine/reliability/retry"
)

// Waits between attempts to listen.
const (
	minListenWait = 200 * time.Millisecond
	maxListenWait = 30 * time.Second
)

// aliveEvery is how often a silent connection is asked whether it is alive.
const aliveEvery = 30 * time.Second

// Listen calls wake for each notification on a channel, and after each new connection, since notifications may have
// been missed before. It connects again until ctx ends. report is called with each failure, as a *remote.BrokerError,
// and with nil once notifications come.
func Listen(ctx context.Context, o Options, channel string, wake func(), report func(error)) {
	delay := minListenWait
	for ctx.Err() == nil {
		began := time.Now()
		err := listen(ctx, o, channel, wake, report)
		if ctx.Err() != nil {
			return
		}
		report(Explain(err))
		if time.Since(began) > maxListenWait { // it was good for a while
			delay = minListenWait
		}
		if !retry.Sleep(ctx, delay) {
			return
		}
		delay = min(2*delay, maxListenWait)
	}
}

func listen(ctx context.Context, o Options, channel string, wake func(), report func(error)) error {
	conn, err := Dial(ctx, o)
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(end)
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		return err
	}
	report(nil)
	wake()
	for {
		wait, cancel := context.WithTimeout(ctx, aliveEvery)
		_, err := conn.WaitForNotification(wait)
		silent := wait.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err == nil:
			wake()
		case silent:
			ask, cancel := context.WithTimeout(ctx, DefaultConnectTimeout)
			err := conn.Ping(ask)
			cancel()
			if err != nil {
				return err
			}
		default:
			return err
		}
	}
}
