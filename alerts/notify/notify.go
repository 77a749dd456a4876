package notify

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/retry"
)

// Notifier delivers alerts to all peers. It is safe for concurrent use.
type Notifier struct {
	opt     Options
	started time.Time
	news    atomic.Pointer[news] // nil before the first

	mu       sync.Mutex // guards the fields below
	settings Settings
	peers    []*peer
	changed  chan struct{} // closed when peers change
}

// news is a view of the alerts.
type news struct {
	view *state.View
	at   time.Time // of the last tick; zero before the first
}

// New checks the settings and reads certificates. It connects to nothing.
func New(o Options) (*Notifier, error) {
	o.applyDefaults()
	n := &Notifier{opt: o, started: o.Now(), changed: make(chan struct{})}
	apply, err := n.Prepare(o.Settings)
	if err != nil {
		return nil, err
	}
	apply()
	return n, nil
}

// Update tells all peers of the alerts as of a tick. It never waits.
func (n *Notifier) Update(v *state.View) { n.tell(&news{v, n.opt.Now()}) }

// Refresh is Update between two ticks, or while there are none: the watchdog still goes by the last Update. Neither may
// be called while the other runs.
func (n *Notifier) Refresh(v *state.View) {
	next := &news{view: v}
	if last := n.news.Load(); last != nil {
		next.at = last.at
	}
	n.tell(next)
}

func (n *Notifier) tell(next *news) {
	n.news.Store(next)
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.peers {
		select {
		case p.wake <- struct{}{}:
		default: // it will see this view anyway
		}
	}
}

// Prepare makes what other settings need, as far as it can fail, and returns what puts them in force. A peer that does
// not change goes on. A new or changed one receives everything.
func (n *Notifier) Prepare(s Settings) (apply func(), err error) {
	s.Peers = slices.Clone(s.Peers)
	s.applyDefaults()
	if err := s.validate(); err != nil {
		return nil, fmt.Errorf("notifications: %w", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	old := map[string]*peer{}
	if reflect.DeepEqual(s.common(), n.settings.common()) {
		for _, p := range n.peers {
			old[p.settings.Name] = p
		}
	}
	peers, clients := make([]*peer, len(s.Peers)), make([]*client, len(s.Peers))
	for i, settings := range s.Peers {
		if p := old[settings.Name]; p != nil && reflect.DeepEqual(p.settings, settings) {
			peers[i] = p
		} else if clients[i], err = newClient(settings, s.Timeout, n.opt.Now); err != nil {
			return nil, fmt.Errorf("notifications: %w", err)
		}
	}
	for i, c := range clients {
		if c == nil {
			continue
		}
		if peers[i], err = n.newPeer(s.Peers[i], c, &s); err != nil {
			return nil, fmt.Errorf("notifications: %w", err)
		}
	}
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.settings, n.peers = s, peers
		close(n.changed)
		n.changed = make(chan struct{})
	}, nil
}

// common is the part of the settings that all peers share.
type common struct {
	external        map[string]string
	resend, timeout time.Duration
	watchdog        *watchdog
}

func (s *Settings) common() common {
	return common{s.ExternalLabels, s.Resend, s.Timeout, newWatchdog(s.Watchdog, time.Time{})}
}

func (n *Notifier) newPeer(settings Peer, c *client, s *Settings) (*peer, error) {
	policy, err := retry.New(backoff)
	if err != nil {
		return nil, err
	}
	o := opening
	o.Name, o.Metrics, o.ProbeTimeout = breakerName(settings.Name), n.opt.Breakers, s.Timeout
	b, err := breaker.New(o)
	if err != nil {
		return nil, err
	}
	return &peer{
		settings: settings, client: c, external: sortedLabels(s.ExternalLabels), resend: s.Resend,
		watchdog: newWatchdog(s.Watchdog, n.started),
		news:     n.news.Load, wake: make(chan struct{}, 1), breaker: b, policy: policy,
		health: n.opt.Metrics.Health("alertmanager", settings.Name, settings.URL, n.opt.Logger, n.opt.Now),
		log:    n.opt.Logger, now: n.opt.Now,
		known: map[string]*entry{},
	}, nil
}

// sortedLabels leaves out labels without a value, which are none.
func sortedLabels(m map[string]string) []state.Label {
	var out []state.Label
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if m[name] != "" {
			out = append(out, state.Label{Name: name, Value: m[name]})
		}
	}
	return out
}

// breakerName keeps the breakers of peers apart from those of sinks.
func breakerName(peer string) string { return "alertmanager " + peer }

// Run delivers until ctx ends.
func (n *Notifier) Run(ctx context.Context) error {
	running := map[*peer]func(){} // each stops its peer and waits for it
	defer func() {
		for _, stop := range running {
			stop()
		}
	}()
	for {
		n.mu.Lock()
		peers, changed := n.peers, n.changed
		n.mu.Unlock()
		for p, stop := range running {
			if slices.Contains(peers, p) {
				continue
			}
			stop()
			delete(running, p)
			if name := p.settings.Name; !slices.ContainsFunc(peers, func(p *peer) bool { return p.settings.Name == name }) {
				n.opt.Metrics.Forget(name)
				n.opt.Breakers.Forget(breakerName(name))
			}
		}
		for _, p := range peers {
			if running[p] != nil {
				continue
			}
			running[p] = Start(ctx, p.run)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// Start runs the loop that delivers to one target. stop ends it and waits for it.
func Start(ctx context.Context, run func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// Status tells of each peer, in the order of the settings.
func (n *Notifier) Status() []Status {
	n.mu.Lock()
	peers := n.peers
	n.mu.Unlock()
	var out []Status
	for _, p := range peers {
		out = append(out, p.read())
	}
	return out
}

// watchdog is the alert that always fires.
type watchdog struct {
	labels      []state.Label
	annotations []alerts.Annotation
	starts      time.Time
}

func newWatchdog(l alerts.Live, starts time.Time) *watchdog {
	if l.Alert == "" {
		return nil
	}
	labels := maps.Clone(l.Labels)
	labels["alertname"] = l.Alert
	return &watchdog{labels: sortedLabels(labels), annotations: l.Texts.Render(labels, 1), starts: starts}
}

func (w *watchdog) message(ends time.Time) message {
	return message{labels: w.labels, annotations: w.annotations, starts: w.starts, ends: ends}
}

// Result is what became of a single alert at one peer.
type Result struct {
	Name, URL string
	Took      time.Duration
	Err       error
}

// SendOnce sends one alert to all peers, side by side and without retries. The error is about the settings.
func SendOnce(ctx context.Context, o Options, labels, annotations map[string]string, starts,
	ends time.Time) ([]Result, error) {
	o.applyDefaults()
	s := o.Settings
	s.Peers = slices.Clone(s.Peers)
	s.applyDefaults()
	if err := s.validate(); err != nil {
		return nil, fmt.Errorf("notifications: %w", err)
	}
	m := message{labels: sortedLabels(labels), starts: starts, ends: ends}
	for _, a := range sortedLabels(annotations) {
		m.annotations = append(m.annotations, alerts.Annotation(a))
	}
	body := append(m.appendTo([]byte{'['}, sortedLabels(s.ExternalLabels)), ']')
	out := make([]Result, len(s.Peers))
	var all sync.WaitGroup
	for i, p := range s.Peers {
		all.Go(func() {
			began := o.Now()
			c, err := newClient(p, s.Timeout, o.Now)
			if err == nil {
				err = c.post(ctx, body)
				c.http.CloseIdleConnections()
			}
			out[i] = Result{p.Name, p.URL, o.Now().Sub(began), err}
		})
	}
	all.Wait()
	return out, nil
}
