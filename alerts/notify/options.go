package notify

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/prometheus/common/config"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/remote"
)

// Peer is one Alertmanager.
type Peer struct {
	Name string // label of its metrics; default: see SetName
	URL  string // without /api/v2/alerts, user, query and fragment
	HTTP config.HTTPClientConfig
}

// Settings may change while the notifier runs.
type Settings struct {
	Peers []Peer
	// ExternalLabels are added to every alert that lacks them. Alertmanager deduplicates the alerts of the engine and of a
	// Prometheus if both have the same external labels.
	ExternalLabels map[string]string
	Resend         time.Duration // between two messages about an alert that fires on. Default 1m.
	Timeout        time.Duration // of a request. Default 10s.
	Watchdog       alerts.Live   // always fires while the engine evaluates alerts; without a name: none
}

func (s *Settings) applyDefaults() {
	s.Resend = cmp.Or(s.Resend, time.Minute)
	s.Timeout = cmp.Or(s.Timeout, 10*time.Second)
	for i := range s.Peers {
		s.Peers[i].SetName()
		s.Peers[i].HTTP.FollowRedirects = false // a redirect would take the credentials elsewhere
	}
}

// SetName gives a peer without a name the host of its URL.
func (p *Peer) SetName() {
	if u, err := url.Parse(p.URL); err == nil && p.Name == "" {
		p.Name = u.Host
	}
}

func (s *Settings) validate() error {
	var errs []error
	names := map[string]bool{}
	for _, p := range s.Peers {
		if err := CheckURL(p.URL); err != nil {
			errs = append(errs, fmt.Errorf("alertmanager %s: %w", p.Name, err))
		}
		if names[p.Name] {
			errs = append(errs, fmt.Errorf("alertmanager %s: duplicate name", p.Name))
		}
		names[p.Name] = true
	}
	if s.Resend < 0 || s.Timeout < 0 {
		errs = append(errs, errors.New("resend and timeout must not be negative"))
	}
	return errors.Join(errs...)
}

// alertsPath is where an Alertmanager takes alerts, below its own path.
const alertsPath = "/api/v2/alerts"

// CheckURL says what is wrong with the address of an Alertmanager. The error does not hold the address, which may hold
// a secret.
func CheckURL(text string) error {
	if err := remote.CheckBaseURL(text, "basic_auth"); err != nil {
		return fmt.Errorf("url: %w", err)
	}
	if u, err := url.Parse(text); err == nil && strings.Contains(u.Path, "/api/") {
		return errors.New("url: must end before /api, as in http://alertmanager.example:9093")
	}
	return nil
}

// Options of a Notifier. Nothing is required.
type Options struct {
	Settings Settings
	Metrics  *Metrics         // default: unregistered
	Breakers *breaker.Metrics // default: unregistered
	Logger   *slog.Logger     // default: none
	Now      func() time.Time // default: time.Now
}

func (o *Options) applyDefaults() {
	o.Metrics = cmp.Or(o.Metrics, NewMetrics(metrics.NewSet()))
	o.Breakers = cmp.Or(o.Breakers, breaker.NewMetrics(metrics.NewSet()))
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
}
