package httpsink

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/reliability/retry"
)

// maxAnswer is how much of an answer is read, in bytes.
const maxAnswer = 1 << 20

// answer is what a receiver said.
type answer struct {
	status int
	after  time.Duration // Retry-After, if wait
	wait   bool
	body   *remote.Verdict // nil: it has no such form
	// location is where a redirect leads, for its error.
	location string
}

func (a *answer) ok() bool { return a.status/100 == 2 }

func (a *answer) parse(contentType string, raw []byte) {
	if len(raw) <= maxAnswer {
		a.body = remote.ParseVerdict(contentType, raw)
	}
}

// result turns the answer about n events into a Result.
func (a *answer) result(n int) dispatch.Result {
	switch {
	case a.ok() && a.body == nil:
		return dispatch.Result{}
	case a.ok():
		return a.single(n, nil)
	case a.status == http.StatusUnprocessableEntity && a.body != nil && len(a.body.Errors) > 0:
		// All were refused, each for its own reason.
		return a.single(n, a.err())
	}
	return dispatch.Result{Err: a.err()}
}

// single gives every event its own error; those that are not listed get rest. Of an
// answer that lists only some of the refused, the others are not known: they are all
// sent again, and resending accepted events does no harm.
func (a *answer) single(n int, rest error) dispatch.Result {
	bad := make(map[int]error, len(a.body.Errors))
	for _, p := range a.body.Errors {
		if p.Index == nil || *p.Index < 0 || *p.Index >= n || p.Code == "" {
			continue
		}
		err := fmt.Errorf("refused: %s: %s", clip(p.Code), clip(p.Detail))
		if p.Retryable {
			bad[*p.Index] = a.later(retry.WithClass(err, retry.ClassOverload))
		} else {
			bad[*p.Index] = retry.Permanent(err)
		}
	}
	if a.body.Truncated {
		rest = errors.New("the response does not name all refused events")
	}
	if rest != nil {
		for i := range n {
			if bad[i] == nil {
				bad[i] = rest
			}
		}
	}
	return failures(bad, n)
}

func (a *answer) err() error {
	text := fmt.Sprintf("the receiver returned %d %s", a.status, http.StatusText(a.status))
	switch {
	case a.status/100 == 3:
		text += ": redirects are not followed (set url to the redirect target" + a.location + ")"
	case a.body != nil && a.body.Detail != "":
		text += ": " + clip(a.body.Detail)
	}
	class := retry.ClassOfStatus(a.status)
	if blocks(a.status) {
		class = retry.ClassBlocked
	}
	return a.later(&statusError{text, a.status, class})
}

// blocks reports whether a status is about the address or the credentials of the sink,
// and so about every event alike.
func blocks(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusProxyAuthRequired:
		return true
	}
	return status/100 == 3
}

// statusError is an answer that is no success.
type statusError struct {
	text   string
	status int
	class  retry.Class
}

func (e *statusError) Error() string           { return e.text }
func (e *statusError) RetryClass() retry.Class { return e.class }

// StatusCode is that of the answer.
func (e *statusError) StatusCode() int { return e.status }

// Brief leaves out what the receiver wrote.
func (e *statusError) Brief() string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", e.status, http.StatusText(e.status)))
}

// locationHost is where a redirect leads, without path and query, which may hold secrets.
func locationHost(header string) string {
	u, err := url.Parse(header)
	if err != nil || u.Host == "" {
		return ""
	}
	return clip(fmt.Sprintf(", on %s://%s", u.Scheme, u.Host))
}

// later adds the wait that was asked for, and keeps the class.
func (a *answer) later(err error) error {
	if c := retry.ClassOf(err); a.wait && c != retry.ClassPermanent {
		return retry.WithClass(retry.After(err, a.after), c)
	}
	return err
}

// clip keeps foreign text short.
func clip(s string) string {
	const most = 200
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
