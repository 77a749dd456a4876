package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/common/config"

	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/reliability/retry"
)

// client posts to one Alertmanager.
type client struct {
	http    *http.Client
	url     string
	timeout time.Duration
	now     func() time.Time
}

func newClient(p Peer, timeout time.Duration, now func() time.Time) (*client, error) {
	c, err := config.NewClientFromConfig(p.HTTP, "alertmanager", config.WithUserAgent("sloengine"))
	if err != nil {
		return nil, fmt.Errorf("alertmanager %s: %w", p.Name, err)
	}
	return &client{http: c, url: strings.TrimRight(p.URL, "/") + alertsPath, timeout: timeout, now: now}, nil
}

// post sends a JSON array of alerts. Its error has a retry.Class.
func (c *client) post(ctx context.Context, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return retry.WithClass(err, retry.ClassBlocked)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return requestError(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, remote.MaxAnswer))
	if resp.StatusCode/100 == 2 {
		return nil // Alertmanager has the alerts, even if the end of its answer was lost
	}
	if err != nil {
		answer = nil
	}
	return statusError(resp, answer, c.now())
}

// requestError is about a request without an answer. Secrets that cannot be read need a person to fix them.
func requestError(err error) error {
	var of *url.Error
	if !errors.As(err, &of) {
		return err
	}
	class := retry.ClassOf(err)
	if strings.Contains(of.Err.Error(), "unable to read") { // common/config has no type for it
		class = retry.ClassBlocked
	}
	return retry.WithClass(of.Err, class) // the address is known
}

func statusError(resp *http.Response, answer []byte, now time.Time) error {
	e := &remote.StatusError{Status: resp.StatusCode, Class: remote.ClassOf(resp.StatusCode)}
	if resp.StatusCode/100 == 3 {
		e.Detail = "redirects are not followed, set url to the new address"
		if to, err := url.Parse(resp.Header.Get("Location")); err == nil && to.Host != "" {
			e.Detail += ", on " + remote.Text(to.Scheme+"://"+to.Host)
		}
	} else {
		e.Detail = remote.Text(string(answer))
	}
	if after, ok := retry.ParseRetryAfter(resp.Header.Get("Retry-After"), now); ok && e.Class.Retryable() {
		return retry.WithClass(retry.After(e, after), e.Class)
	}
	return e
}

// tooMuch reports whether an error is about the alerts of a request, so that fewer of them may be accepted.
func tooMuch(err error) bool {
	var e *remote.StatusError
	return errors.As(err, &e) && e.Class == retry.ClassPermanent
}

// brief is an error without foreign text.
func brief(err error) string {
	var e *remote.StatusError
	if errors.As(err, &e) {
		return e.Brief()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	switch retry.ClassOf(err) {
	case retry.ClassBlocked:
		return "its credentials cannot be read"
	case retry.ClassTimeout:
		return "no answer in time"
	}
	return "no connection"
}
