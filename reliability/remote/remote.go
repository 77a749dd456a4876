// Package remote speaks to other systems: a web service that requests are posted to (Service) and its answers, requests
// to addresses that outsiders choose (PublicClient), signatures, unsuccessful answers and failures at a message broker
// as errors, and foreign text made fit for logs and pages. It does not know the content of the requests.
package remote

import (
	"fmt"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

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

// Brief is the error without the text of the other system.
func (e *StatusError) Brief() string { return Status(e.Status) }

// StatusCode returns Status.
func (e *StatusError) StatusCode() int { return e.Status }

// RetryClass returns Class.
func (e *StatusError) RetryClass() retry.Class { return e.Class }

// Status is a status code with its name, such as "404 Not Found".
func Status(code int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", code, http.StatusText(code)))
}

// ClassOf is retry.ClassOfStatus for a service that an operator has set up: an answer that speaks of the address or the
// credentials, or a redirect, which is not followed, needs a change of the settings.
func ClassOf(status int) retry.Class {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusProxyAuthRequired:
		return retry.ClassBlocked
	}
	if status/100 == 3 {
		return retry.ClassBlocked
	}
	return retry.ClassOfStatus(status)
}

// Text makes foreign text short and harmless: one line of at most 200 characters, without invisible ones and those that
// a terminal obeys.
func Text(s string) string {
	s = OneLine(strings.ToValidUTF8(s[:min(len(s), 8*maxText)], ""))
	if r := []rune(s); len(r) > maxText {
		s = string(r[:maxText]) + "..."
	}
	return s
}

// OneLine replaces line ends, terminal control characters and invisible characters by spaces.
func OneLine(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD")))
}

// Shorten cuts a text to a number of characters, of which the last is then an ellipsis.
func Shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	n := 0
	for i := range s {
		if n++; n == most {
			if _, size := utf8.DecodeRuneInString(s[i:]); i+size == len(s) {
				return s
			}
			return s[:i] + "…"
		}
	}
	return s
}
