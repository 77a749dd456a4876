// Package remote holds what other systems answer: an HTTP answer that is no success and a failure at a message broker as
// errors, and foreign text made fit for logs and pages. It does not know what was asked.
package remote

import (
	"fmt"
	"net/http"
	"strings"
	"unicode"

	"github.com/sloengine/sloengine/reliability/retry"
)

const (
	// MaxAnswer is how many bytes of an answer are read, so that the connection can be used again.
	MaxAnswer = 64 << 10
	// maxText is how many characters of a foreign text are shown.
	maxText = 200
)

// StatusError is an HTTP answer other than success.
type StatusError struct {
	Status int
	Class  retry.Class
	Detail string // follows the status after a colon; "" is none
}

func (e *StatusError) Error() string {
	if e.Detail == "" {
		return e.Brief()
	}
	return e.Brief() + ": " + e.Detail
}

// Brief is the error without what the other system wrote.
func (e *StatusError) Brief() string { return Status(e.Status) }

// RetryClass returns Class.
func (e *StatusError) RetryClass() retry.Class { return e.Class }

// Status is a status code with its name, such as "404 Not Found".
func Status(code int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", code, http.StatusText(code)))
}

// Text makes foreign text short and harmless: one line of at most 200 characters, without invisible ones and those that
// a terminal obeys.
func Text(s string) string {
	s = strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s[:min(len(s), 8*maxText)], "")))
	if r := []rune(s); len(r) > maxText {
		s = string(r[:maxText]) + "..."
	}
	return s
}
