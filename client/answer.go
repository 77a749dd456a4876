package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/retry"
)

// answer is what a server says about a request, also inside a problem.
type answer struct {
	Received        int               `json:"received"`
	Accepted        int               `json:"accepted"`
	Duplicates      int               `json:"duplicates"`
	Limited         int               `json:"limited"`
	Sampled         int               `json:"sampled"`
	DeadLettered    int               `json:"dead_lettered"`
	Rejected        int               `json:"rejected"`
	Errors          []event.ItemError `json:"errors"`
	ErrorsTruncated bool              `json:"errors_truncated"`

	Title  string `json:"title"`
	Detail string `json:"detail"`
	Code   string `json:"code"`

	after time.Duration // Retry-After, 0 if there was none
}

// check refuses an answer that cannot be about a request of n events: a proxy's login
// page must not pass for an acknowledgement.
func (a *answer) check(n int) error {
	sum := a.Accepted + a.Duplicates + a.Limited + a.Sampled + a.DeadLettered + a.Rejected
	if a.Received != n || sum != n {
		return fmt.Errorf("the answer is about %d events, %d of them decided, but %d were sent", a.Received, sum, n)
	}
	for i := range a.Errors {
		if at := a.Errors[i].Index; at < 0 || at >= n {
			return fmt.Errorf("it names event %d of %d", at, n)
		}
	}
	return nil
}

// StatusError is an answer that refuses a request as a whole.
type StatusError struct {
	Status int
	Code   string // of the problem, such as "disk_full"; "" if the answer is none of sloengine's
	Detail string
	// RetryAfter is what the server asked for; 0 if it didn't.
	RetryAfter time.Duration
}

// Error says what the server answered.
func (e *StatusError) Error() string {
	return fmt.Sprintf("the server answered %d %s: %s", e.Status, http.StatusText(e.Status), e.Detail)
}

// RetryClass is that of the status.
func (e *StatusError) RetryClass() retry.Class {
	switch {
	case e.Code == codeDeadlinePassed:
		return retry.ClassTimeout
	case e.Status < 400:
		return retry.ClassPermanent
	}
	return retry.ClassOfStatus(e.Status)
}

// blocks reports whether the server refuses this client rather than these events: a
// wrong token or address. The events are kept until somebody puts that right.
func (e *StatusError) blocks() bool {
	return e.RetryClass() == retry.ClassPermanent && !e.halves()
}

// halves reports whether something in the request is at fault, which sending less at
// a time singles out.
func (e *StatusError) halves() bool {
	switch e.Status {
	case http.StatusBadRequest:
		return e.Code != "bad_query" && e.Code != "bad_deadline"
	case http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// codeDeadlinePassed is the problem code of a request that came after its deadline.
const codeDeadlinePassed = "deadline_passed"

// judge turns an answer to a request of n events into what it says about them, or
// into the reason why nothing was taken.
func judge(resp *http.Response, data []byte, n int) (*answer, error) {
	a := &answer{}
	parsed := json.Unmarshal(data, a)
	if after, ok := retry.ParseRetryAfter(resp.Header.Get("Retry-After"), time.Now()); ok {
		a.after = after
	}
	switch resp.StatusCode {
	case http.StatusAccepted, http.StatusUnprocessableEntity:
		if parsed == nil {
			parsed = a.check(n)
		}
		if parsed == nil {
			return a, nil
		}
	}
	if resp.StatusCode/100 == 2 {
		if parsed == nil {
			parsed = fmt.Errorf("status %d", resp.StatusCode)
		}
		err := fmt.Errorf("not the answer of a sloengine server: %w: %s", parsed, excerpt(data))
		return nil, retry.WithClass(err, retry.ClassTransient)
	}
	e := &StatusError{Status: resp.StatusCode, Code: a.Code, Detail: a.Detail, RetryAfter: a.after}
	switch {
	case resp.StatusCode/100 == 3:
		e.Detail = fmt.Sprintf("it redirects to %.200q; set URL to the address that answers", resp.Header.Get("Location"))
	case e.Detail == "" && a.Title != "":
		e.Detail = a.Title
	case e.Detail == "":
		e.Detail = "is this a sloengine server? " + excerpt(data)
	}
	if e.Detail = strings.ToValidUTF8(e.Detail, ""); len(e.Detail) > 500 {
		e.Detail = strings.ToValidUTF8(e.Detail[:500], "") + "..."
	}
	if e.RetryClass().Retryable() && a.after > 0 {
		return nil, retry.WithClass(retry.After(e, a.after), e.RetryClass())
	}
	return nil, e
}

func excerpt(data []byte) string {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(data[:min(len(data), 200)]), "")), " ")
	return fmt.Sprintf("%q", text)
}

// RejectedError is what SendStrict returns for events that the server refused for
// good. The others were taken, unless another error stands beside it.
type RejectedError struct {
	Items []event.ItemError // the index counts the events of the call
}

// Error names the first event.
func (e *RejectedError) Error() string {
	first := &e.Items[0]
	text := fmt.Sprintf("event %d (id %q): %s: %s", first.Index, first.ID, first.Code, first.Detail)
	if n := len(e.Items) - 1; n > 0 {
		text += fmt.Sprintf(" (and %d more)", n)
	}
	return text
}

// RetryClass is permanent.
func (e *RejectedError) RetryClass() retry.Class { return retry.ClassPermanent }

var (
	// ErrClosed is returned, and counted, after Close.
	ErrClosed = errors.New("the client is closed")

	errSomeLater = retry.WithClass(errors.New("the server wants some events again later"), retry.ClassOverload)
	errBusy      = retry.WithClass(errors.New("all of MaxInFlight requests are under way"), retry.ClassOverload)
	errNewToken  = retry.WithClass(errors.New("the token has changed meanwhile"), retry.ClassOverload)
)
