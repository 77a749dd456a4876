package respond

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/metric"
)

// Bounds of what is sent to readers.
const (
	DefaultBytes = 32 << 20
	MinBytes     = 1 << 20

	maxRenders   = 4               // responses that are made at the same time
	renderWait   = 5 * time.Second // for one of those places, then 503
	keptShare    = 4               // of the budget, for responses that are kept for the next reader
	crowdedShare = 4               // of the budget, from which on readers get a response that is a little old
	crowdedAge   = 5 * time.Second // how old
	keptAge      = time.Minute     // after which a response is not requested again
	keptMost     = 256             // responses
)

// response is an answer as it is sent. It is made once and never changed; any number of
// readers may be at different places of it.
type response struct {
	status int
	header http.Header
	body   []byte
	made   time.Time
	refs   int // readers, and once for each key that it is kept under; guarded by responses.mu
}

// Cache holds the bytes of all responses that are being made, sent or kept. They have
// one budget: readers who take nothing cost no more than that, however many they are.
type Cache struct {
	limit   int64
	now     func() time.Time
	wait    time.Duration // writeWait, but for tests
	renders chan struct{}
	metrics *responseMetrics

	mu    sync.Mutex
	used  int64
	bytes int64 // of those that are kept
	kept  map[string]*response
	keys  []string // of kept, the oldest first
}

type responseMetrics struct{ made, shared, refused, cut *metrics.Counter }

func NewCache(limit int64, now func() time.Time, set *metrics.Set) *Cache {
	r := &Cache{limit: limit, now: now, wait: writeWait, renders: make(chan struct{}, maxRenders),
		kept: map[string]*response{}}
	count := func(result string) *metrics.Counter {
		return metric.WebResponses.Counter(set, result)
	}
	r.metrics = &responseMetrics{count("made"), count("shared"), count("refused"), count("cut")}
	metric.WebResponseBytes.Read(set, func() float64 {
		r.mu.Lock()
		defer r.mu.Unlock()
		return float64(r.used)
	})
	metric.WebResponseLimitBytes.Read(set, func() float64 { return float64(limit) })
	return r
}

// reserve takes bytes from the budget. What is kept gives way. A response that has
// nothing beside it may be larger than the budget.
func (r *Cache) reserve(n, own int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used+n > r.limit {
		r.forget(len(r.keys))
	}
	if r.used+n > r.limit && r.used > own {
		return false
	}
	r.used += n
	return true
}

func (r *Cache) give(n int64) {
	r.mu.Lock()
	r.used -= n
	r.mu.Unlock()
}

// find returns what is kept under a key, for the caller to release.
func (r *Cache) find(key string) *response {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.kept[key]
	if p != nil {
		p.refs++
	}
	return p
}

// findRecent is find for responses that say how it is now, and not how it was in a report.
// While few bytes are in flight it finds nothing: everybody gets the present figures.
func (r *Cache) findRecent(key string) *response {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.kept[key]
	if p == nil || r.used < r.limit/crowdedShare || r.now().Sub(p.made) > crowdedAge {
		return nil
	}
	p.refs++
	return p
}

// keep holds a response for others who ask with one of the keys. The oldest give way.
func (r *Cache) keep(p *response, keys ...string) {
	size := int64(len(p.body))
	if size > r.limit/keptShare {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	old := 0
	for _, key := range r.keys {
		if r.now().Sub(r.kept[key].made) <= keptAge && r.bytes+size <= r.limit/keptShare && len(r.keys)-old < keptMost {
			break
		}
		old++
		r.drop(key)
	}
	r.keys = append(r.keys[:0], r.keys[old:]...)
	for _, key := range keys {
		if was := r.kept[key]; was != nil {
			r.bytes -= int64(len(was.body))
			r.releaseLocked(was)
		} else {
			r.keys = append(r.keys, key)
		}
		p.refs++
		r.bytes += size
		r.kept[key] = p
	}
}

// forget lets go of the n oldest. The caller holds the lock.
func (r *Cache) forget(n int) {
	for _, key := range r.keys[:n] {
		r.drop(key)
	}
	r.keys = append(r.keys[:0], r.keys[n:]...)
}

func (r *Cache) drop(key string) {
	p := r.kept[key]
	delete(r.kept, key)
	r.bytes -= int64(len(p.body))
	r.releaseLocked(p)
}

// release lets go of a response. Its bytes go back to the budget with the last reader.
func (r *Cache) release(p *response) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.releaseLocked(p)
}

func (r *Cache) releaseLocked(p *response) {
	if p.refs--; p.refs == 0 {
		r.used -= int64(len(p.body))
	}
}

// unshared are the headers of a request that no response depends on; all others tell
// readers apart.
var unshared = map[string]bool{
	"Accept-Language": true, "Cache-Control": true, "Connection": true, "Dnt": true, "If-Modified-Since": true,
	"If-None-Match": true,
	"Keep-Alive":    true, "Pragma": true, "Priority": true, "Referer": true, "Te": true,
	"Traceparent": true, "Tracestate": true,
	"Upgrade-Insecure-Requests": true, "User-Agent": true, "X-Forwarded-For": true,
	"X-Real-Ip": true, "X-Request-Id": true,
}

// requestKey says all that a response can depend on besides the state of the engine: two
// readers with the same key have shown the same credentials.
func requestKey(req *http.Request) string {
	var b strings.Builder
	add := func(s string) { b.WriteString(strconv.Itoa(len(s)) + ":" + s) }
	b.WriteString(req.Method)
	if req.TLS != nil {
		b.WriteString("s")
	}
	add(req.Host)
	add(req.URL.Path)
	add(req.URL.RawQuery)
	for _, name := range slices.Sorted(maps.Keys(req.Header)) {
		if unshared[name] || strings.HasPrefix(name, "Sec-") {
			continue
		}
		add(name)
		b.WriteString(strconv.Itoa(len(req.Header[name])))
		for _, v := range req.Header[name] {
			add(v)
		}
	}
	return b.String()
}
