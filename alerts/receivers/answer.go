package receivers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/reliability/mail"
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
	body   string // of a refusal that the library does not see
}

// Error is seen where a library does not pass on the context of its call, which an answer is noted in.
func (a *answer) Error() string { return a.body }

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
	got := answer{status: resp.StatusCode, after: resp.Header.Get("Retry-After")}
	if resp.StatusCode/100 == 2 {
		got.lie = errorIn(head)
	}
	if a, ok := r.Context().Value(answerKey{}).(*answer); ok {
		*a = got
	} else if resp.StatusCode/100 != 2 {
		got.body = string(head)
		return nil, &got
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
	if got.OK != nil && !*got.OK || got.Success != nil && !*got.Success ||
		got.Error != nil && got.Error != "" && got.Error != false {
		return string(body)
	}
	return ""
}

// outcome is what a failure says of the receiver and of the message.
type outcome int

const (
	unreachable outcome = iota + 1 // the receiver does not answer, or its gateway says so: the message is sent again
	again                          // it fails with this message, perhaps not for long: the message is sent again
	limited                        // it asks for less: nothing is sent for a while
	refused                        // it does not take this message, and may take others
	blocked                        // it takes nothing until the settings change
)

// failure is why a message was not delivered.
type failure struct {
	class   retry.Class
	outcome outcome
	brief   string // without what others wrote
	detail  string
}

func (e *failure) Error() string           { return e.brief + e.detail }
func (e *failure) RetryClass() retry.Class { return e.class }

// outcomeOf is that of an error of a call.
func outcomeOf(err error) outcome {
	var f *failure
	if errors.As(err, &f) {
		return f.outcome
	}
	return unreachable
}

// timedOut is the failure of a call that did not end in time.
func timedOut(detail string) *failure {
	return &failure{class: retry.ClassTimeout, outcome: unreachable, brief: "no answer in time", detail: detail}
}

var teamsError = regexp.MustCompile(`HTTP error (\d{3})`)

// newFailure says what the error of a call means. recoverable is what the library says of it, which counts for errors
// without an answer.
func newFailure(err error, recoverable bool, a *answer, now time.Time) error {
	var code *textproto.Error // of a mail server
	var unseen *answer
	if errors.As(err, &unseen) {
		a, err = unseen, unseen
	}
	status := a.status
	if m := teamsError.FindStringSubmatch(a.lie); m != nil { // Microsoft Teams tells it in a sentence
		status, _ = strconv.Atoi(m[1])
	}
	if strings.Contains(a.lie, "rate") && strings.Contains(a.lie, "limited") { // Slack's ratelimited and rate_limited
		status = http.StatusTooManyRequests
	}
	f := &failure{brief: remote.Status(status)}
	if text := clean(err.Error()); text != "" {
		f.detail = ": " + text
	}
	set := func(class retry.Class, o outcome) { f.class, f.outcome = class, o }
	switch {
	case errors.As(err, &code):
		f.brief = fmt.Sprintf("the mail server refuses the message (%d)", code.Code)
		if set(smtpOutcome(code.Code)); f.outcome == blocked {
			f.brief = fmt.Sprintf("the mail server refuses user name or password (%d)", code.Code)
		}
	case errors.Is(err, context.DeadlineExceeded) && status < 300:
		f = timedOut("")
	case remote.ClassOf(status) == retry.ClassBlocked:
		if status/100 == 3 {
			f.detail = ": redirects are not followed, set the new address"
		}
		set(retry.ClassBlocked, blocked)
	case status == http.StatusTooManyRequests:
		f.brief = "the receiver limits the rate"
		set(retry.ClassOverload, limited)
	case status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout:
		set(retry.ClassTransient, unreachable)
	case status >= 400 && retry.ClassOfStatus(status).Retryable():
		set(retry.ClassOfStatus(status), again)
	case status >= 400:
		set(retry.ClassPermanent, refused)
	case a.lie != "":
		f.brief = fmt.Sprintf("error in an answer of %d", a.status)
		set(retry.ClassPermanent, refused)
	case status == 0 && (recoverable || retry.ClassOf(err) == retry.ClassTransient):
		f.brief = "no connection"
		set(retry.ClassTransient, unreachable)
	case recoverable:
		f.brief = "the receiver did not accept the message"
		set(retry.ClassTransient, again)
	default:
		f.brief = "the message cannot be sent"
		set(retry.ClassPermanent, refused)
	}
	if after, ok := retry.ParseRetryAfter(a.after, now); ok && f.class.Retryable() {
		return retry.WithClass(retry.After(f, after), f.class)
	}
	return f
}

// smtpOutcome is what the answer of a mail server means.
func smtpOutcome(code int) (retry.Class, outcome) {
	switch class, down := mail.ClassOf(code); {
	case class == retry.ClassBlocked:
		return class, blocked
	case down:
		return class, unreachable
	case class == retry.ClassPermanent:
		return class, refused
	default:
		return class, again
	}
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
