package shared

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sloengine/sloengine/internal/every"
	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/redisconn"
	"github.com/sloengine/sloengine/reliability/retry"
)

// lookEvery is how often an instance looks for breakers that others opened.
const lookEvery = 500 * time.Millisecond

// Destinations are shared by the instances that deliver to them. When the breaker of one instance opens, those of the
// others open for the rest of its time, and when one finds the destination healthy, all of them probe at once. While
// Redis is not reachable, each breaker is local to its instance.
type Destinations struct {
	link     *Link
	instance string // distinguishes the openings of this instance from those of others

	mu   sync.Mutex
	list []*Destination // those with a breaker
}

// NewDestinations needs a name of this instance that no other one has.
func NewDestinations(link *Link, instance string) *Destinations {
	return &Destinations{link: link, instance: instance}
}

// Destination is one of them. It implements dispatch.Sharing.
type Destination struct {
	all     *Destinations
	name    string
	budget  retry.BudgetOptions
	breaker atomic.Pointer[breaker.Breaker] // set by Join

	mu     sync.Mutex
	tell   *breaker.State // a transition that Redis does not know yet
	until  time.Time      // of the opening to be published
	reason string
	number uint64 // of the own openings
	seen   string // the opening that Redis had at the last look
}

var _ dispatch.Sharing = (*Destination)(nil)

// Of returns a destination. Instances that use the same name have its breaker and its budget in common, and should have
// the same options.
func (d *Destinations) Of(name string, budget retry.BudgetOptions) (*Destination, error) {
	if !namePattern.MatchString(name) {
		return nil, fmt.Errorf("invalid destination %q (1 to 64 of a-z, 0-9, '.', '_' and '-', not starting with '.')", name)
	}
	if _, err := retry.NewBudget(budget); err != nil {
		return nil, err
	}
	return &Destination{all: d, name: name, budget: budget}, nil
}

// Run polls for the findings of other instances until ctx ends. It always returns nil.
func (d *Destinations) Run(ctx context.Context) error {
	for range every.Later(ctx, lookEvery) {
		d.mu.Lock()
		list := append([]*Destination(nil), d.list...)
		d.mu.Unlock()
		for _, one := range list {
			if ctx.Err() != nil || one.look(ctx) != nil {
				break // the link says why, and tries again
			}
		}
	}
	return nil
}

// othersReason begins the reasons of transitions that came from another instance, which are not published
// again.
const othersReason = "another engine: "

// Join implements dispatch.Sharing.
func (d *Destination) Join(b *breaker.Breaker) (leave func()) {
	d.breaker.Store(b)
	d.all.mu.Lock()
	d.all.list = append(d.all.list, d)
	d.all.mu.Unlock()
	return func() {
		d.all.mu.Lock()
		defer d.all.mu.Unlock()
		for i, one := range d.all.list {
			if one == d {
				d.all.list = append(d.all.list[:i:i], d.all.list[i+1:]...)
				return
			}
		}
	}
}

// Changed implements dispatch.Sharing. The next look publishes it to Redis.
func (d *Destination) Changed(_, to breaker.State, reason string) {
	if strings.HasPrefix(reason, othersReason) || to == breaker.HalfOpen {
		return
	}
	var until time.Time
	if b := d.breaker.Load(); to == breaker.Open && b != nil {
		until = time.Now().Add(b.Status().RetryAfter)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.number++
	d.tell, d.until, d.reason = &to, until, reason
}

func (d *Destination) key(kind string) string {
	return d.all.link.o.Prefix + ":" + kind + ":" + d.name
}

// look publishes the findings of the local breaker to Redis, and passes those of others to the
// breaker.
func (d *Destination) look(ctx context.Context) error {
	d.mu.Lock()
	tell, left, seen := d.tell, time.Until(d.until), d.seen
	own := fmt.Sprintf("%s\n%d\n%s", d.all.instance, d.number, d.reason)
	d.mu.Unlock()
	args := []any{"", 0, seen}
	switch {
	case tell != nil && *tell == breaker.Open && left > 0:
		args = []any{own, left.Milliseconds() + 1, seen}
	case tell != nil && *tell == breaker.Closed:
		args = []any{"", -1, seen}
	}
	var by string
	var rest time.Duration
	err := d.all.link.call(ctx, 0, func(ctx context.Context) error {
		answer, err := openingScript.Run(ctx, d.all.link.client, []string{d.key("b")}, args...)
		got := redisconn.Strings(answer)
		if err != nil || len(got) != 2 {
			return err
		}
		ms, err := strconv.ParseInt(got[1], 10, 64)
		by, rest = got[0], time.Duration(ms)*time.Millisecond
		return err
	})
	if err != nil {
		d.all.link.without()
		return err
	}
	d.mu.Lock()
	if d.tell == tell {
		d.tell = nil
	}
	d.seen = by
	d.mu.Unlock()
	parts := strings.SplitN(by, "\n", 3)
	switch {
	case by != "" && by != seen && len(parts) == 3 && parts[0] != d.all.instance:
		d.breaker.Load().Trip(rest, othersReason+parts[2])
	case by == "" && seen != "" && tell == nil:
		d.breaker.Load().Release(othersReason + "the destination works again, or its open time is over")
	}
	return nil
}

// openingScript takes an opening and for how long, in milliseconds (0: none, negative: the destination works), and the
// opening that the caller saw last. It returns the current opening and its remaining time. An opening that the caller
// has not seen stays: it is newer than the caller's finding.
var openingScript = redisconn.NewScript(`
local left = tonumber(ARGV[2])
local by = redis.call('GET', KEYS[1])
if not by or by == ARGV[3] then
  if left < 0 and by then
    redis.call('DEL', KEYS[1])
    by = false
  elseif left > 0 then
    redis.call('SET', KEYS[1], ARGV[1], 'PX', left)
    by = ARGV[1]
  end
end
if not by then return {'', '0'} end
return {by, tostring(redis.call('PTTL', KEYS[1]))}`)

// Budget implements dispatch.Sharing.
func (d *Destination) Budget(own *retry.Budget) dispatch.Budget { return &sharedBudget{d: d, own: own} }

// sharedBudget is a token bucket in Redis that the first attempts of all instances pay into. Only a retry asks Redis:
// the earnings of first attempts are added up until then.
type sharedBudget struct {
	d      *Destination
	own    *retry.Budget // while Redis is not reachable
	earned atomic.Int64  // first attempts that are not in the bucket yet

	mu     sync.Mutex
	status retry.BudgetStatus
}

// Earn counts a first attempt.
func (b *sharedBudget) Earn() {
	b.earned.Add(1)
	b.own.Earn()
}

// Spend takes a retry out of the common bucket, or out of the instance's own while Redis is not reachable.
func (b *sharedBudget) Spend() (ok bool, wait time.Duration) {
	o := b.own.Options()
	firsts := b.earned.Swap(0)
	var left float64
	l := b.d.all.link
	err := l.call(context.Background(), 0, func(ctx context.Context) error {
		answer, err := budgetScript.Run(ctx, l.client, []string{b.d.key("r")}, float64(firsts)*o.Ratio, o.MinPerSecond,
			o.Burst)
		got := redisconn.Strings(answer)
		if err != nil || len(got) != 2 {
			return err
		}
		ok = got[0] == "1"
		left, err = strconv.ParseFloat(got[1], 64)
		return err
	})
	if err != nil {
		b.earned.Add(firsts)
		l.without()
		return b.own.Spend()
	}
	if !ok && o.MinPerSecond > 0 {
		wait = time.Duration((1 - left) / o.MinPerSecond * float64(time.Second))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status.Left = left
	if ok {
		b.status.Spent++
	} else {
		b.status.Denied++
	}
	return ok, wait
}

// Status returns the retries of this instance, and those left for all instances at its last retry.
func (b *sharedBudget) Status() retry.BudgetStatus {
	own := b.own.Status()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.status.Spent+b.status.Denied == 0 {
		return own
	}
	return retry.BudgetStatus{Left: b.status.Left, Spent: own.Spent + b.status.Spent, Denied: own.Denied + b.status.Denied}
}

// budgetScript takes the earnings, the earnings per second, and the most that can be saved up. It returns 1 if there
// was a retry to take, and the rest. A bucket that is not used for an hour is forgotten.
var budgetScript = redisconn.NewScript(`
local earned, minimum, burst = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local tokens, last = burst, now
local value = redis.call('GET', KEYS[1])
if value then
  local t, at = string.match(value, '^(%S+) (%S+)$')
  tokens, last = tonumber(t), math.min(tonumber(at), now)
end
tokens = math.min(tokens + earned + minimum * (now - last) / 1000000, burst)
local ok = '0'
if tokens >= 1 - 1e-9 then
  tokens, ok = math.max(tokens - 1, 0), '1'
end
redis.call('SET', KEYS[1], string.format('%.9f %.0f', tokens, now), 'PX', 3600000)
return {ok, string.format('%.9f', tokens)}`)
