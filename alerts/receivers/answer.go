package receivers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/alertmanager/notify"

	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/reliability/retry"
)

// maxError is how many bytes of an error are looked at.
const maxError = 1600

// answer is what the last request of a call was answered, which Alertmanager's library does not tell in full.
type answer struct {
	status int
	after  string // the header Retry-After
	lie    string // an error in an answer of 200; "" if there is none
}

type answerKey struct{}

// watch makes the client of a receiver note each answer in the context of its request.
func watch(c *http.Client) {
	if c != nil {
		c.Transport = &watcher{c.Transport}
	}
}

type watcher struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (w *watcher) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.RoundTripper.RoundTrip(r)
	if err != nil {
		return resp, err
	}
	head, err := io.ReadAll(io.LimitReader(resp.Body, remote.MaxAnswer))
	if cerr := resp.Body.Close(); err == nil {
		err = cerr
	}
	if err != nil && resp.StatusCode/100 != 2 { // otherwise the receiver has the message
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(head))
	if a, ok := r.Context().Value(answerKey{}).(*answer); ok {
		a.status, a.after, a.lie = resp.StatusCode, resp.Header.Get("Retry-After"), ""
		if resp.StatusCode/100 == 2 {
			a.lie = errorIn(head)
		}
	}
	return resp, nil
}

// errorIn finds an error in the body of a successful answer, as chat services send it: {"ok": false}, {"success":
// false}, {"error": ".."}, or the sentence of Microsoft Teams.
func errorIn(body []byte) string {
	if i := bytes.Index(body, []byte("returned HTTP error")); i >= 0 {
		return string(body)
	}
	var got struct {
		OK, Success *bool
		Error       any
	}
	if json.Unmarshal(body, &got) != nil {
		return ""
	}
	if got.OK != nil && !*got.OK || got.Success != nil && !*got.Success || got.Error != nil && got.Error != "" && got.Error != false {
		return string(body)
	}
	return ""
}

// failure is why a message was not delivered.
type failure struct {
	class  retry.Class
	brief  string // without what others wrote
	detail string
}

func (e *failure) Error() string           { return e.brief + e.detail }
func (e *failure) RetryClass() retry.Class { return e.class }

// newFailure says what the error of a call means. recoverable is what the library says of it.
func newFailure(err error, recoverable bool, a *answer, now time.Time) error {
	f := &failure{class: retry.ClassPermanent}
	if text := clean(err.Error()); text != "" {
		f.detail = ": " + text
	}
	var of *notify.ErrorWithReason
	limited := errors.As(err, &of) && of.Reason == notify.RateLimitedReason || a.status == http.StatusTooManyRequests || strings.Contains(a.lie, "error 429")
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		f.class, f.brief, f.detail = retry.ClassTimeout, "no answer in time", ""
	case limited:
		f.class, f.brief = retry.ClassOverload, "the receiver limits the rate"
	case a.status/100 == 3:
		f.class, f.brief, f.detail = retry.ClassBlocked, remote.Status(a.status), ": redirects are not followed, set the new address"
	case a.status == http.StatusUnauthorized || a.status == http.StatusForbidden || a.status == http.StatusNotFound || a.status == http.StatusMethodNotAllowed:
		f.class, f.brief = retry.ClassBlocked, remote.Status(a.status)
	case a.lie != "":
		f.brief = fmt.Sprintf("error in an answer of %d", a.status)
	case a.status >= 400:
		f.brief = remote.Status(a.status)
		if recoverable || retry.ClassOfStatus(a.status).Retryable() {
			f.class = retry.ClassOfStatus(a.status)
		}
	case recoverable && a.status == 0:
		f.class, f.brief = retry.ClassTransient, "no connection"
	case recoverable:
		f.class, f.brief = retry.ClassTransient, "the receiver did not accept the message"
	default:
		f.brief = "the message cannot be sent"
	}
	if after, ok := retry.ParseRetryAfter(a.after, now); ok && f.class.Retryable() {
		return retry.WithClass(retry.After(f, after), f.class)
	}
	return f
}

// brief is an error without what others wrote.
func brief(err error) string {
	var f *failure
	if errors.As(err, &f) {
		return f.brief
	}
	return "not sent"
}

var address = regexp.MustCompile(`\b([a-z][a-z0-9+.-]*://)(?:[^\s/@"']*@)?([^\s/?#"']*)[^\s"']*`)

// clean is remote.Text. Of addresses only the host stays, since the rest is often a secret.
func clean(s string) string {
	return remote.Text(address.ReplaceAllString(strings.ToValidUTF8(s[:min(len(s), maxError)], ""), "$1$2"))
}
