package retry

import (
	"errors"
	"net/http"
	"strings"
	"time"
)

// ParseRetryAfter reads the value of a Retry-After header (RFC 9110, 10.2.3):
// whole seconds, or an HTTP date that is compared with now. The result is
// never negative; a date in the past is 0. ok is false for an empty or
// malformed value, which is then best ignored.
func ParseRetryAfter(value string, now time.Time) (d time.Duration, ok bool) {
	value = strings.TrimSpace(value)
	if value == "" {
		return 0, false
	}
	if value[0] >= '0' && value[0] <= '9' {
		return parseSeconds(value)
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return max(at.Sub(now), 0), true
}

// parseSeconds takes digits only: strconv would also take "1e400" or "0x10".
func parseSeconds(value string) (time.Duration, bool) {
	const most = int64(1<<63-1) / int64(time.Second)
	var n int64
	for i := 0; i < len(value); i++ {
		c := value[i]
		if c < '0' || c > '9' {
			return 0, false
		}
		if n > (most-int64(c-'0'))/10 {
			n = most // more than 292 years; the policy's cap decides
			continue
		}
		n = n*10 + int64(c-'0')
	}
	return time.Duration(n) * time.Second, true
}

type afterError struct {
	error
	after time.Duration
}

func (e *afterError) Unwrap() error { return e.error }

// After marks err as worth a retry, but not before d has passed, such as the Retry-After of a
// server. A nil err stays nil.
func After(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &afterError{err, max(d, 0)}
}

// AfterOf finds the wait that After attached to err or to an error it wraps.
func AfterOf(err error) (d time.Duration, ok bool) {
	var a *afterError
	if errors.As(err, &a) {
		return a.after, true
	}
	return 0, false
}

type permanentError struct{ error }

func (e *permanentError) Unwrap() error { return e.error }

// Permanent marks err as not worth a retry. A nil err stays nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent reports whether err, or an error it wraps, was marked by Permanent.
func IsPermanent(err error) bool {
	var p *permanentError
	return errors.As(err, &p)
}
