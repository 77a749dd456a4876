package ingest

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/internal/every"
	"github.com/sloengine/sloengine/reliability/metric"
)

// ExpiresSoon is how long before its end a key that is in use counts as expiring. InUse is how
// long after its last request it still counts as used.
const (
	ExpiresSoon = 7 * 24 * time.Hour
	InUse       = 24 * time.Hour
)

// keyUse counts the requests that carry one key, so that an operator sees when the old one is no
// longer used. It outlives reloads.
type keyUse struct {
	requests *metrics.Counter
	last     atomic.Int64 // Unix seconds; 0: never since the start
	expiry   time.Time    // as exported; guarded by the lock under which tokens are activated
}

func (u *keyUse) note(now time.Time) {
	u.requests.Inc()
	if s := now.Unix(); u.last.Load() < s {
		u.last.Store(s)
	}
}

// nameAndKey joins the labels of a key. Names have no control characters.
const nameAndKey = "\x00"

func (k *key) series() string { return k.Name + nameAndKey + k.id() }

// count gives the keys of new tokens their counters, and takes away those of keys that are gone.
func (a *Auth) count(old, next *Tokens) {
	if next != nil {
		for _, k := range next.keys {
			use, known := a.uses.Lookup(k.series())
			if known && !use.expiry.Equal(k.expires) { // its gauge changes, or comes, or goes
				a.uses.Forget(k.series())
				known = false
			}
			if k.use = a.uses.Of(k.series()); !known {
				if use != nil {
					k.use.last.Store(use.last.Load())
				}
				a.export(k)
			}
		}
	}
	if old == nil {
		return
	}
	for _, k := range old.keys {
		if next == nil || !slices.ContainsFunc(next.keys, func(n *key) bool { return n.series() == k.series() }) {
			a.uses.Forget(k.series())
		}
	}
}

func (a *Auth) export(k *key) {
	use := k.use
	use.expiry = k.expires
	a.uses.Add(k.series(), func(g *metric.Group) {
		use.requests = g.Counter(metric.TokenRequests, k.Name, k.id())
		g.Read(metric.TokenLastUsedSeconds, func() float64 { return float64(use.last.Load()) }, k.Name, k.id())
		if !k.expires.IsZero() {
			g.Gauge(metric.TokenExpirySeconds, k.Name, k.id()).Set(float64(k.expires.Unix()))
		}
	})
}

// Key describes one secret of a token.
type Key struct {
	Token    string
	ID       string // the first digits of its hash
	Expires  time.Time
	LastUsed time.Time // zero: not since the start
	Requests uint64
}

// Expired reports whether the key is refused.
func (k *Key) Expired(now time.Time) bool { return !k.Expires.IsZero() && !now.Before(k.Expires) }

// Soon reports whether the key has expired or will soon.
func (k *Key) Soon(now time.Time) bool {
	return !k.Expires.IsZero() && k.Expires.Sub(now) < ExpiresSoon
}

// Used reports whether a request carried the key recently.
func (k *Key) Used(now time.Time) bool { return !k.LastUsed.IsZero() && now.Sub(k.LastUsed) < InUse }

// Keys lists the keys of all tokens in the order of the file.
func (a *Auth) Keys() (out []Key) {
	tokens := a.tokens.Load()
	if tokens == nil {
		return nil
	}
	for _, k := range tokens.keys {
		x := Key{Token: k.Name, ID: k.id(), Expires: k.expires, Requests: k.use.requests.Get()}
		if s := k.use.last.Load(); s > 0 {
			x.LastUsed = time.Unix(s, 0).UTC()
		}
		out = append(out, x)
	}
	return out
}

// How often expiries are looked at, and how often the log says the same again.
const (
	expiryEvery  = time.Minute
	expiryRepeat = 24 * time.Hour
)

// WatchExpiry logs keys that expire soon or have expired while requests carry them, until ctx
// ends: once, and again every day and when they expire.
func (a *Auth) WatchExpiry(ctx context.Context) error {
	said := map[string]time.Time{}
	for range every.Tick(ctx, expiryEvery) {
		a.logExpiry(a.now(), said)
	}
	return nil
}

func (a *Auth) logExpiry(now time.Time, said map[string]time.Time) {
	for _, k := range a.Keys() {
		if !k.Soon(now) || !k.Used(now) {
			continue
		}
		what := "a key that is in use expires soon"
		if k.Expired(now) {
			what = "a key that is in use has expired"
		}
		id := k.Token + nameAndKey + k.ID + what
		if at, ok := said[id]; ok && now.Sub(at) < expiryRepeat {
			continue
		}
		for other, at := range said { // of keys that are gone
			if now.Sub(at) >= expiryRepeat {
				delete(said, other)
			}
		}
		said[id] = now
		a.logger.Warn(what, "token", k.Token, "key", k.ID, "expires", k.Expires.Format(time.RFC3339), "last_used",
			k.LastUsed.Format(time.RFC3339))
	}
}
