package subscription

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/internal/every"
	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/health"
	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/reliability/retry"
)

// StateVersion is the version of the file.
const StateVersion = 1

// Bounds of the subscriptions.
const (
	maxWebhooks = 1000 // in all
	maxPerHost  = 20   // of one host and port
	maxURL      = 512  // bytes
	minSecret   = 16   // bytes
	maxSecret   = 128  // bytes
	maxItems    = 200  // documents at a time

	maxSending = 16 // deliveries at a time
	maxAsking  = 4  // challenges at a time
	timeout    = 10 * time.Second
	checkEvery = time.Second
	// giveUp is how long attempts fail until a webhook is removed.
	giveUp = 7 * 24 * time.Hour
)

// backoff between the attempts to reach a webhook.
var backoff = retry.Options{Base: 10 * time.Second, Cap: time.Hour, Jitter: retry.Equal, MaxRetries: retry.Unlimited}

// Item is a document. Subscribers receive Body once for each Version, and the newest only if they were not reachable.
type Item struct {
	ID, Version string
	Body        json.RawMessage
}

// Options of Webhooks. File is required.
type Options struct {
	File    string
	Files   fsys.FS          // default: of the system
	Private bool             // webhooks may have private addresses and no TLS
	Set     *metrics.Set     // default: unregistered
	Logger  *slog.Logger     // default: none
	Now     func() time.Time // default: time.Now
}

func (o *Options) applyDefaults() {
	o.Files = cmp.Or(o.Files, fsys.OS())
	o.Set = cmp.Or(o.Set, metrics.NewSet())
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
}

// Webhooks are the subscriptions. The methods may be called from several goroutines.
type Webhooks struct {
	opt     Options
	client  *http.Client
	policy  *retry.Policy
	sending chan struct{} // holds one for each delivery under way
	asking  chan struct{} // holds one for each challenge under way
	series  *series

	mu       sync.Mutex // guards the fields below. It is not held during a request
	state    state
	hooks    map[string]*progress // by ID
	items    []Item               // the newest, by the number of their change
	known    bool                 // items are
	unsaved  bool
	file     fsys.StateFile[state]
	saving   health.Log
	admitted admission
}

// state is the file.
type state struct {
	Version  int               `json:"version"`
	Last     uint64            `json:"last"` // number of the latest change
	Items    map[string]change `json:"items"`
	Webhooks []webhook         `json:"webhooks"`
}

// change is the newest version of an item.
type change struct {
	Version string `json:"version"`
	Number  uint64 `json:"number"`
}

// webhook is a subscription.
type webhook struct {
	ID      string    `json:"id"` // the hash of its token
	URL     string    `json:"url"`
	Secret  string    `json:"secret"`
	Since   time.Time `json:"since"`
	Sent    uint64    `json:"sent"`             // changes up to this number are delivered
	Failing time.Time `json:"failing,omitzero"` // first attempt that failed since the last success
}

// progress is what a restart forgets of a webhook.
type progress struct {
	busy     bool
	failures int
	next     time.Time
	wait     time.Duration
}

// New reads the file. It refuses one of a newer version, and moves a broken one aside. It sends nothing.
func New(o Options) (*Webhooks, error) {
	o.applyDefaults()
	policy, err := retry.New(backoff)
	if err != nil {
		return nil, err
	}
	w := &Webhooks{
		opt: o, client: remote.PublicClient(o.Private), policy: policy, sending: make(chan struct{}, maxSending),
		asking: make(chan struct{}, maxAsking), hooks: map[string]*progress{},
		file: fsys.StateFile[state]{
			Files: o.Files, Name: o.File, What: "subscriptions", Newest: StateVersion, Logger: o.Logger,
			Damaged: "subscriptions are unreadable, starting without them",
		},
		saving: health.Log{
			Tracker: health.Tracker{Now: o.Now}, Logger: o.Logger,
			Broken: "saving subscriptions failed", Works: "saving subscriptions works again",
		},
	}
	if w.state, err = w.file.Load((*state).check); err != nil {
		return nil, err
	}
	if w.state.Items == nil {
		w.state.Items = map[string]change{}
	}
	for i := range w.state.Webhooks {
		w.hooks[w.state.Webhooks[i].ID] = &progress{}
	}
	w.series = newSeries(o.Set, w)
	return w, nil
}

// check finds damage of a file.
func (s *state) check() error {
	ids := map[string]bool{}
	for i := range s.Webhooks {
		h := &s.Webhooks[i]
		if ids[h.ID] || checkURL(h.URL, true) != nil || checkSecret(h.Secret) != nil || h.Sent > s.Last {
			return fmt.Errorf("webhooks[%d] is not valid", i)
		}
		ids[h.ID] = true
	}
	return nil
}

// UnsavedSince is since when the file lags behind; zero if it does not.
func (w *Webhooks) UnsavedSince() time.Time { return w.saving.Failure().Since }

// Run sends changes until ctx ends. read returns the documents; false means that they are not known at the moment. A
// request on its way is not cut off, so that it is known whether it was received.
func (w *Webhooks) Run(ctx context.Context, read func(context.Context) ([]Item, bool)) error {
	var group sync.WaitGroup
	defer func() {
		group.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.save()
	}()
	for range every.Tick(ctx, checkEvery) {
		w.step(ctx, &group, read)
	}
	return nil
}

// step begins the deliveries that are due.
func (w *Webhooks) step(ctx context.Context, group *sync.WaitGroup, read func(context.Context) ([]Item, bool)) {
	if items, ok := read(ctx); ok {
		w.update(items)
	}
	w.mu.Lock()
	due := w.due()
	w.save()
	w.mu.Unlock()
	for _, id := range due {
		select {
		case w.sending <- struct{}{}:
		case <-ctx.Done():
			return
		}
		group.Go(func() {
			defer func() { <-w.sending }()
			w.send(ctx, id)
		})
	}
}

// update numbers the changes. Documents that are gone are forgotten: when they come back, that is a change.
func (w *Webhooks) update(items []Item) {
	items = slices.Clone(items[:min(len(items), maxItems)])
	w.mu.Lock()
	defer w.mu.Unlock()
	next := map[string]change{}
	for _, x := range items {
		c := w.state.Items[x.ID]
		if c.Version != x.Version {
			w.state.Last++
			c = change{x.Version, w.state.Last}
			w.unsaved = true
		}
		next[x.ID] = c
	}
	w.unsaved = w.unsaved || len(next) != len(w.state.Items)
	order.By(items, func(a, b *Item) int { return cmp.Compare(next[a.ID].Number, next[b.ID].Number) })
	w.state.Items, w.items, w.known = next, items, true
}

// due marks webhooks that have something to receive now as busy. w.mu is held.
func (w *Webhooks) due() (ids []string) {
	now := w.opt.Now()
	for i := range w.state.Webhooks {
		h := &w.state.Webhooks[i]
		p := w.hooks[h.ID]
		if !w.known || h.Sent == w.state.Last || p.busy || now.Before(p.next) {
			continue
		}
		p.busy = true
		ids = append(ids, h.ID)
	}
	return ids
}

// find is the webhook of an ID, or nil. w.mu is held.
func (w *Webhooks) find(id string) *webhook {
	for i := range w.state.Webhooks {
		if w.state.Webhooks[i].ID == id {
			return &w.state.Webhooks[i]
		}
	}
	return nil
}

// send sends a webhook its changes, in the order in which they happened, until ctx ends.
func (w *Webhooks) send(ctx context.Context, id string) {
	for {
		w.mu.Lock()
		h, p := w.find(id), w.hooks[id]
		if h == nil { // unsubscribed meanwhile
			w.mu.Unlock()
			return
		}
		if ctx.Err() != nil {
			p.busy = false
			w.mu.Unlock()
			return
		}
		i := slices.IndexFunc(w.items, func(x Item) bool { return w.state.Items[x.ID].Number > h.Sent })
		if i < 0 {
			w.unsaved = w.unsaved || h.Sent != w.state.Last
			h.Sent, p.busy = w.state.Last, false
			w.mu.Unlock()
			return
		}
		item, number, to := w.items[i], w.state.Items[w.items[i].ID].Number, *h
		w.mu.Unlock()
		_, err := w.post(context.WithoutCancel(ctx), to.URL, to.Secret, hash(id, item.ID, item.Version), item.Body)
		if !w.note(id, number, err) {
			return
		}
	}
}

// post makes a signed request.
func (w *Webhooks) post(ctx context.Context, url, secret, key string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := newRequest(ctx, url, body)
	if err != nil {
		return nil, errors.New("invalid URL") // its text may hold a secret
	}
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set(remote.SignatureHeader, remote.Sign([]byte(secret), body, w.opt.Now()))
	return remote.Post(w.client, req)
}

// note notes how an attempt went. It is true if the next change may follow.
func (w *Webhooks) note(id string, number uint64, err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	h, p := w.find(id), w.hooks[id]
	if h == nil {
		return false
	}
	w.unsaved = true
	if err == nil {
		w.series.sent.Inc()
		h.Sent, h.Failing = number, time.Time{}
		p.failures, p.next, p.wait = 0, time.Time{}, 0
		return true
	}
	w.series.failed.Inc()
	now := w.opt.Now()
	if h.Failing.IsZero() {
		h.Failing = now
	}
	var status *remote.StatusError
	gone := errors.As(err, &status) && status.Status == http.StatusGone
	if gone || now.Sub(h.Failing) >= giveUp {
		w.remove(id)
		w.series.removed(gone).Inc()
		w.opt.Logger.Info("subscription removed", "id", short(id), "failing_since", h.Failing, "err", brief(err))
		return false
	}
	p.wait = w.policy.Delay(min(p.failures, 32), p.wait)
	p.failures++
	p.busy, p.next = false, now.Add(p.wait)
	if p.failures == 1 {
		w.opt.Logger.Info("delivery to a subscriber failed, trying again for a week", "id", short(id), "err", brief(err))
	}
	return false
}

// remove forgets a webhook. w.mu is held.
func (w *Webhooks) remove(id string) {
	w.state.Webhooks = slices.DeleteFunc(slices.Clone(w.state.Webhooks), func(h webhook) bool { return h.ID == id })
	delete(w.hooks, id)
}

// save writes the file if it lags behind. w.mu is held.
func (w *Webhooks) save() {
	if !w.unsaved {
		return
	}
	w.state.Version = StateVersion
	err := w.file.Save(w.state)
	w.saving.Note(err, "file", w.opt.File)
	w.unsaved = err != nil
}

// short is an ID for the log.
func short(id string) string { return id[:min(len(id), 8)] }

// hash stands for texts where they need not be read.
func hash(parts ...string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", parts))
	return hex.EncodeToString(sum[:16])
}
