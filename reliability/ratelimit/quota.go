package ratelimit

import (
	"fmt"
	"strings"
	"time"
)

// plan returns the treatment of the event: that of its type, overridden by the values of the rule
// if a context is over its limit.
func (k *Ticket) plan() plan {
	p := k.policy.rules[k.rule].plan
	if k.Verdict.Layer == Context {
		p = p.over(&k.policy.rules[k.Verdict.Rule].own)
	}
	return p
}

// Throttle is by how much to delay a ticket with a verdict to Throttle before it is
// decided again, and for how long in all before it is refused.
func (k *Ticket) Throttle() (delay, maxWait time.Duration) {
	p := k.plan()
	return p.delay, p.maxWait
}

// AggregateFields are the attributes that the event is to be merged with sums of.
func (k *Ticket) AggregateFields() []string { return k.plan().fields }

// RetryAfter is Wait in whole seconds, rounded up and at least 1, as for the header.
func (k *Ticket) RetryAfter() int { return max(ceilSeconds(k.Wait), 1) }

func ceilSeconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// RuleName is the rule that decided, "" if the event passed: "global", "(default)", a
// type or pattern, or the name of a context.
func (k *Ticket) RuleName() string {
	if k.Verdict.Action == Pass {
		return ""
	}
	return k.policy.rules[k.Verdict.Rule].name
}

// Quota is how far the tightest of a request's limits is used up.
type Quota struct {
	Layer Layer
	Rule  string // its name
	// Limit events are free in Window. Of a token bucket these are its burst, and how
	// long that takes to fill.
	Limit, Remaining int64
	Window           time.Duration
	Reset            time.Duration // until there is room again, or all of the limit at the latest
}

// Quota returns the limit of the request, as decided last at now, that is the tightest: of those
// that were exceeded the one with the longest wait, else the one with the fewest events left. It is
// false if the Store does not report room, or all events are exempt.
func (t *Tickets) Quota(now time.Time) (Quota, bool) {
	var in *Ticket
	var tightest *Charge
	for i := range t.List {
		k := &t.List[i]
		if k.Skip || k.Exempt || in != nil && in.Over != 0 && (k.Over == 0 || k.Wait <= in.Wait) {
			continue
		}
		if k.Over != 0 {
			in, tightest = k, k.worst(t)
			continue
		}
		charges := t.Charges(i)
		for j := range charges {
			c := &charges[j]
			if c.Cap != 0 && (tightest == nil || c.Left < tightest.Left || c.Left == tightest.Left && c.Layer > tightest.Layer) {
				in, tightest = k, c
			}
		}
	}
	if tightest == nil {
		return Quota{}, false
	}
	l := tightest.Limit
	q := Quota{
		Layer: tightest.Layer, Rule: in.policy.rules[tightest.Rule].name,
		Limit: int64(tightest.Cap), Remaining: int64(tightest.Left), Window: l.Window,
	}
	if tightest.Cap == 0 { // the store only reports that it is over
		q.Limit = l.N
		if l.Algorithm == TokenBucket {
			q.Limit = l.Burst
		}
	}
	q.Reset = q.Window
	switch {
	case in.Over != 0:
		q.Remaining, q.Reset = 0, in.Wait
	case l.Algorithm == FixedWindow:
		q.Reset = l.Window - time.Duration(now.UnixNano()%int64(l.Window))
	}
	if l.Algorithm == TokenBucket {
		fill := func(n int64) time.Duration {
			return time.Duration(min(float64(n)*float64(l.Window)/float64(l.N), float64(MaxWindow)))
		}
		q.Window = fill(q.Limit)
		if in.Over == 0 {
			q.Reset = fill(q.Limit - q.Remaining)
		}
	}
	return q, true
}

// worst is the charge that decided about a ticket over a limit.
func (k *Ticket) worst(t *Tickets) *Charge {
	charges := t.charges[k.first:k.end]
	var w *Charge
	for j := range charges {
		if c := &charges[j]; k.Over&(1<<j) != 0 && (w == nil || c.Layer > w.Layer) {
			w = c
		}
	}
	return w
}

// PolicyHeader is the value of RateLimit-Policy, after
// draft-ietf-httpapi-ratelimit-headers-11. The registered units are of requests, so
// events go into a parameter of our own. A window that is no whole number of seconds
// is left out, the draft has no way to say it.
func (q Quota) PolicyHeader() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s;q=%d", sfString(q.Rule), q.Limit)
	if q.Window >= time.Second && q.Window%time.Second == 0 {
		fmt.Fprintf(&b, ";w=%d", q.Window/time.Second)
	}
	b.WriteString(`;sloengine-unit="events"`)
	return b.String()
}

// Header is the value of RateLimit, after the same draft.
func (q Quota) Header() string {
	return fmt.Sprintf("%s;r=%d;t=%d", sfString(q.Rule), q.Remaining, ceilSeconds(q.Reset))
}

// sfString makes a String of RFC 9651: printable ASCII; any other byte becomes a ?.
func sfString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r > '~':
			b.WriteByte('?')
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
