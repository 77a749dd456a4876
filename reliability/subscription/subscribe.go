package subscription

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/reliability/retry"
)

// Errors of Subscribe, beside *InvalidError and *ConfirmError.
var (
	ErrFull  = errors.New("there are too many subscriptions, of all or of this host")
	ErrKnown = errors.New("this address is subscribed already: remove the subscription first, by its token or with " +
		"status 410")
	ErrLimited  = errors.New("there are too many requests for subscriptions")
	ErrNotYet   = errors.New("subscriptions are not ready yet")
	ErrUnsaved  = errors.New("the subscription could not be saved")
	ErrNotFound = errors.New("there is no such subscription")
)

// InvalidError refuses a field.
type InvalidError struct{ Field, Text string }

func (e *InvalidError) Error() string { return e.Field + ": " + e.Text }

// ConfirmError means that a webhook did not confirm.
type ConfirmError struct{ Text string }

func (e *ConfirmError) Error() string { return "the address did not confirm: " + e.Text }

// challenge is the body of the request that a webhook has to confirm.
type challenge struct {
	Challenge string `json:"challenge"`
}

// Subscribe has a webhook confirm that it wants the documents, and adds it. client is the address that asks. The token
// ends the subscription.
func (w *Webhooks) Subscribe(ctx context.Context, client, to, secret string) (token string, err error) {
	if err := checkURL(to, w.opt.Private); err != nil {
		return "", &InvalidError{"url", err.Error()}
	}
	if err := checkSecret(secret); err != nil {
		return "", &InvalidError{"secret", err.Error()}
	}
	if err := w.admit(client, to); err != nil {
		w.series.refused.Inc()
		return "", err
	}
	select {
	case w.asking <- struct{}{}:
		defer func() { <-w.asking }()
	default:
		w.series.refused.Inc()
		return "", ErrLimited
	}
	if err := w.confirm(ctx, to, secret); err != nil {
		w.series.unconfirmed.Inc()
		return "", err
	}
	if token, err = w.add(to, secret); err != nil {
		w.series.refused.Inc()
		return "", err
	}
	w.series.confirmed.Inc()
	return token, nil
}

// confirm asks a webhook to answer with a text that only it receives.
func (w *Webhooks) confirm(ctx context.Context, to, secret string) error {
	text := rand.Text()
	body, err := json.Marshal(challenge{text})
	if err != nil {
		return fmt.Errorf("encode challenge: %w", err)
	}
	answer, err := w.post(ctx, to, secret, hash(text), body)
	if err != nil {
		return &ConfirmError{brief(err)}
	}
	if string(bytes.TrimSpace(answer)) != text {
		return &ConfirmError{"it has to answer with the text of the field challenge, and nothing else"}
	}
	return nil
}

// add adds a webhook that has confirmed. It is on disk afterwards.
func (w *Webhooks) add(to, secret string) (token string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.room(to); err != nil {
		return "", err
	}
	for i := range w.state.Webhooks {
		if w.state.Webhooks[i].URL == to {
			return "", ErrKnown
		}
	}
	token = rand.Text()
	id := hash(token)
	w.state.Webhooks = append(w.state.Webhooks, webhook{ID: id, URL: to, Secret: secret,
		Since: w.opt.Now().UTC(), Sent: w.state.Last})
	w.hooks[id] = &progress{}
	w.unsaved = true
	if w.save(); w.unsaved {
		w.remove(id)
		return "", ErrUnsaved
	}
	w.opt.Logger.Info("subscription added", "id", short(id), "host", hostOf(to))
	return token, nil
}

// Unsubscribe ends a subscription. It is on disk afterwards.
func (w *Webhooks) Unsubscribe(token string) error {
	id := hash(token)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.find(id) == nil {
		return ErrNotFound
	}
	w.remove(id)
	w.series.unsubscribed.Inc()
	w.unsaved = true
	if w.save(); w.unsaved {
		return ErrUnsaved // it is ended until the next start, and saved as soon as possible
	}
	w.opt.Logger.Info("subscription removed", "id", short(id))
	return nil
}

// Requests for subscriptions within an hour.
const (
	maxRequests  = 200
	maxPerClient = 20
)

// admission counts the requests of an hour.
type admission struct {
	since    time.Time
	requests int
	clients  map[string]int // by address, of IPv6 by network; at most maxRequests
}

// admit counts a request, and refuses it if the hour or the subscriptions are full.
func (w *Webhooks) admit(client, to string) error {
	if a, err := netip.ParseAddr(client); err == nil && a.Unmap().Is6() {
		if p, err := a.Prefix(64); err == nil {
			client = p.String()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.known {
		return ErrNotYet
	}
	a, now := &w.admitted, w.opt.Now()
	if age := now.Sub(a.since); a.clients == nil || age >= time.Hour || age < 0 {
		*a = admission{since: now, clients: map[string]int{}}
	}
	if a.requests >= maxRequests || a.clients[client] >= maxPerClient {
		return ErrLimited
	}
	a.requests++
	a.clients[client]++
	return w.room(to)
}

// room returns ErrFull if there is none for a webhook. w.mu is held.
func (w *Webhooks) room(to string) error {
	same := 0
	for i := range w.state.Webhooks {
		if hostOf(w.state.Webhooks[i].URL) == hostOf(to) {
			same++
		}
	}
	if len(w.state.Webhooks) >= maxWebhooks || same >= maxPerHost {
		return ErrFull
	}
	return nil
}

func hostOf(to string) string {
	u, err := url.Parse(to)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}

func checkURL(to string, private bool) error {
	if len(to) > maxURL {
		return fmt.Errorf("want at most %d bytes", maxURL)
	}
	if err := remote.CheckURL(to, ""); err != nil {
		return err
	}
	if u, err := url.Parse(to); err == nil && u.Scheme != "https" && !private {
		return errors.New("must begin with https://")
	}
	return nil
}

func checkSecret(secret string) error {
	if len(secret) < minSecret || len(secret) > maxSecret {
		return fmt.Errorf("want %d to %d bytes", minSecret, maxSecret)
	}
	return nil
}

func newRequest(ctx context.Context, to string, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "sloengine")
	return req, nil
}

// brief is an error without what others wrote. It is shown to outsiders.
func brief(err error) string {
	var status *remote.StatusError
	var private *remote.AddressError
	switch {
	case errors.As(err, &status):
		return "it answered " + status.Brief()
	case errors.As(err, &private):
		return "its address is not public"
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return "its certificate is not accepted"
	case errors.Is(err, context.DeadlineExceeded), retry.ClassOf(err) == retry.ClassTimeout:
		return "no answer in time"
	}
	return "no connection"
}
