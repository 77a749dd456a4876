package shared

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	defaultPrefix  = "{sloengine}"
	defaultTimeout = 100 * time.Millisecond
	// hanging is how many calls may be left behind at once by callers who gave up.
	hanging = 16
)

// Tune sets the options that a client for limits needs and leaves all others, such as address,
// password and database: calls end with their context instead of after seconds, and the client does
// not retry, since a charge whose answer was lost would be made twice. timeout is that of the Link;
// 0 means its default. Other clients work as well, but leave goroutines behind for as long as their
// own timeouts are.
func Tune(o *redis.UniversalOptions, timeout time.Duration) {
	timeout = cmp.Or(timeout, defaultTimeout)
	o.ContextTimeoutEnabled = true
	o.MaxRetries = -1
	o.DialerRetries = 1
	o.DialTimeout = 5 * timeout
	o.ReadTimeout, o.WriteTimeout = 10*timeout, 10*timeout // the context ends them earlier
}

// caller makes calls that end with their context, even if the client does not.
type caller struct {
	client redis.UniversalClient
	slots  chan struct{}
}

func newCaller(client redis.UniversalClient) caller {
	return caller{client, make(chan struct{}, hanging)}
}

// do calls f and returns when f does or ctx ends. f must touch nothing that its caller
// uses after an error: it may still be running.
func (c caller) do(ctx context.Context, f func(context.Context) error) error {
	if ctx.Done() == nil {
		return f(ctx)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case c.slots <- struct{}{}:
	default:
		return errCrowded
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-c.slots }()
		done <- f(ctx)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		select {
		case err := <-done: // both at once
			return err
		default:
			return ctx.Err()
		}
	}
}

var probeScript = redis.NewScript(`
redis.call('TIME')
return redis.call('SET', KEYS[1], ARGV[1], 'PX', 60000)`)

// ping makes the calls that the limits need: run a script and write. A replica, or a server that is
// full, fails.
func (c caller) ping(ctx context.Context, prefix string) error {
	err := c.do(ctx, func(ctx context.Context) error {
		return probeScript.Run(ctx, c.client, []string{prefix + ":probe"}, time.Now().Unix()).Err()
	})
	if err != nil {
		return fmt.Errorf("probe of Redis: %w", err)
	}
	return nil
}

var prefixPattern = regexp.MustCompile(`^[!-~]{1,100}$`)

// checkPrefix gives p, by default {sloengine}, with braces around it if it has none: they
// keep all keys in one slot of a cluster.
func checkPrefix(p string) (string, error) {
	p = cmp.Or(p, defaultPrefix)
	if !prefixPattern.MatchString(p) {
		return "", fmt.Errorf("invalid key prefix %q (want 1 to 100 printable ASCII characters without spaces)", p)
	}
	open := strings.IndexByte(p, '{')
	if open >= 0 && strings.IndexByte(p[open+1:], '}') > 0 {
		return p, nil
	}
	if strings.ContainsAny(p, "{}") {
		return "", fmt.Errorf("invalid key prefix %q: empty braces (want a hash tag such as {sloengine})", p)
	}
	return "{" + p + "}", nil
}

var errNoClient = errors.New("option Client is required")
