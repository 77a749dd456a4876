package post

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/retry"
)

// Tally is what the server decided about events.
type Tally struct {
	Accepted     int `json:"accepted"`
	Duplicates   int `json:"duplicates"`
	Limited      int `json:"limited"`
	Sampled      int `json:"sampled"`
	DeadLettered int `json:"dead_lettered"`
	Rejected     int `json:"rejected"`
}

// Sum is the number of events that are decided.
func (t *Tally) Sum() int {
	return t.Accepted + t.Duplicates + t.Limited + t.Sampled + t.DeadLettered + t.Rejected
}

// Answer is what a server says about a request, also inside a problem document.
type Answer struct {
	Received int `json:"received"`
	Tally
	Errors          []event.ItemError `json:"errors"`
	ErrorsTruncated bool              `json:"errors_truncated"`
	Unlisted        []event.Run       `json:"unlisted,omitempty"` // rejected, beyond Errors

	Title  string `json:"title"`
	Detail string `json:"detail"`
	Code   string `json:"code"`

	RetryAfter time.Duration `json:"-"` // 0: the server did not ask for a pause
}

// check refuses an answer that cannot be about a request of n events: a proxy's login page must not pass for an
// acknowledgement.
func (a *Answer) check(n int) error {
	if a.Received != n || a.Sum() != n {
		return fmt.Errorf("sent %d events, but the response accounts for %d received and %d decided", n, a.Received, a.Sum())
	}
	for i := range a.Errors {
		if at := a.Errors[i].Index; at < 0 || at >= n {
			return fmt.Errorf("sent %d events, but an error refers to event %d", n, at)
		}
	}
	for _, run := range a.Unlisted {
		if run.From < 0 || run.To < run.From || run.To >= n {
			return fmt.Errorf("sent %d events, but unlisted errors refer to the events %d to %d", n, run.From, run.To)
		}
	}
	return nil
}

// StatusError is an answer that decides about no event.
type StatusError struct {
	Status int
	Code   string // of the problem document, such as "disk_full"; "" if it is not an answer of sloengine
	Detail string
	// RetryAfter is the pause that the server asked for, 0 for none.
	RetryAfter time.Duration
}

// Error says what the server answered.
func (e *StatusError) Error() string {
	return fmt.Sprintf("the server returned %d %s: %s", e.Status, http.StatusText(e.Status), e.Detail)
}

// RetryClass is that of the status. A success that is not an answer of sloengine comes from something in between, which
// may pass. A redirect does not pass.
func (e *StatusError) RetryClass() retry.Class {
	switch {
	case e.Code == codeDeadlinePassed:
		return retry.ClassTimeout
	case e.Status/100 == 2:
		return retry.ClassTransient
	case e.Status < 400:
		return retry.ClassPermanent
	}
	return retry.ClassOfStatus(e.Status)
}

// DeadlinePassed reports whether the request arrived after its deadline: the server works, and had no chance to do
// more.
func (e *StatusError) DeadlinePassed() bool { return e.Code == codeDeadlinePassed }

const codeDeadlinePassed = "deadline_passed"

// judge turns an answer to a request of n events into what it says about them, or into the reason why nothing was
// accepted.
func judge(resp *http.Response, data []byte, n int) (*Answer, error) {
	a := &Answer{}
	invalid := json.Unmarshal(data, a)
	if after, ok := retry.ParseRetryAfter(resp.Header.Get("Retry-After"), time.Now()); ok {
		a.RetryAfter = after
	}
	detail := cmp.Or(a.Detail, a.Title)
	switch resp.StatusCode {
	case http.StatusAccepted, http.StatusUnprocessableEntity:
		if invalid == nil {
			invalid = a.check(n)
		}
		if invalid == nil {
			return a, nil
		}
		detail = cmp.Or(detail, fmt.Sprintf("invalid answer: %v: %s", invalid, excerpt(data)))
	}
	switch {
	case resp.StatusCode/100 == 3:
		detail = fmt.Sprintf("redirected to %.200q (set URL to the redirect target)", resp.Header.Get("Location"))
	case detail == "":
		detail = "is this a sloengine server? " + excerpt(data)
	}
	if detail = strings.ToValidUTF8(detail, ""); len(detail) > 500 {
		detail = strings.ToValidUTF8(detail[:500], "") + "..."
	}
	e := &StatusError{Status: resp.StatusCode, Code: a.Code, Detail: detail, RetryAfter: a.RetryAfter}
	if e.RetryClass().Retryable() && a.RetryAfter > 0 {
		return nil, retry.WithClass(retry.After(e, a.RetryAfter), e.RetryClass())
	}
	return nil, e
}

func excerpt(data []byte) string {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(data[:min(len(data), 200)]), "")), " ")
	return fmt.Sprintf("%q", text)
}
