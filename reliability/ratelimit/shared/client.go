package shared

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/sloengine/sloengine/reliability/redisconn"
)

const (
	defaultPrefix  = "{sloengine}"
	defaultTimeout = 100 * time.Millisecond
)

// Tune sets the options that a client for limits needs and leaves all others, such as address,
// password and database: it does not retry, since a charge whose answer was lost would be made twice.
// timeout is that of the Link; 0 means its default.
func Tune(o *redisconn.Options, timeout time.Duration) {
	timeout = cmp.Or(timeout, defaultTimeout)
	o.Retries = 0
	o.DialTimeout, o.Timeout, o.WriteTimeout = 5*timeout, 10*timeout, timeout // the context ends the first two earlier
}

var probeScript = redisconn.NewScript(`
redis.call('TIME')
return redis.call('SET', KEYS[1], ARGV[1], 'PX', 60000)`)

// ping makes the calls that the limits need: run a script and write. A replica, or a server that is
// full, fails.
func ping(ctx context.Context, client *redisconn.Client, prefix string) error {
	if _, err := probeScript.Run(ctx, client, []string{prefix + ":probe"}, time.Now().Unix()); err != nil {
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
