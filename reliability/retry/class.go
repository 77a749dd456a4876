package retry

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"syscall"
)

// Class is the kind of a failure. It decides whether a retry can help, whether a breaker counts it,
// and is a label of metrics and dead letters.
type Class uint8

// The classes. The zero value is ClassUnknown.
const (
	// ClassUnknown errors carry no hint. They are retried, since a duplicate of an
	// idempotent call does no harm, and don't trip a breaker.
	ClassUnknown Class = iota
	// ClassTransient errors may pass: a refused or reset connection, 500, 502, 503, 504.
	ClassTransient
	// ClassPermanent errors come back however often the call is made: other 4xx answers.
	ClassPermanent
	// ClassOverload means that the other side, or a bulkhead or limit on ours, asks for
	// less: 429. Retried after the wait that was asked for.
	ClassOverload
	// ClassTimeout means that no answer came in time, so the call may have had its
	// effect: 408, an ended deadline.
	ClassTimeout
	// ClassBreakerOpen means that the call was not made at all.
	ClassBreakerOpen
	// ClassBlocked means that every call fails until an operator changes something: wrong credentials,
	// a wrong address, a missing folder. It says nothing about the payload of the call, so giving that
	// up would not help.
	ClassBlocked

	// Classes is how many classes there are.
	Classes = int(ClassBlocked) + 1
)

var classNames = [Classes]string{"unknown", "transient", "permanent", "overload", "timeout", "breaker_open", "blocked"}

// String is the name in metrics and dead letters.
func (c Class) String() string {
	if int(c) >= len(classNames) {
		return classNames[ClassUnknown]
	}
	return classNames[c]
}

// ParseClass reads a name as String prints it.
func ParseClass(name string) (c Class, ok bool) {
	for i, n := range classNames {
		if n == name {
			return Class(i), true
		}
	}
	return ClassUnknown, false
}

// Retryable reports whether another try can help. An open breaker is not a reason to retry: the
// caller waits until the breaker permits calls.
func (c Class) Retryable() bool { return c != ClassPermanent && c != ClassBreakerOpen }

// Trips reports whether the class says that the other side is of no use for now. An
// answer that refuses one call, or asks for patience, comes from one that works.
func (c Class) Trips() bool {
	return c == ClassTransient || c == ClassTimeout || c == ClassBlocked
}

type classError struct {
	error
	class Class
}

func (e *classError) Unwrap() error     { return e.error }
func (e *classError) RetryClass() Class { return e.class }

// WithClass gives err a class that ClassOf could not derive. A nil err stays nil.
func WithClass(err error, c Class) error {
	if err == nil {
		return nil
	}
	return &classError{err, c}
}

// ClassOf classifies an error: by a RetryClass method of it or of one that it wraps,
// by the marks of Permanent and After, and else by the errors of the net, os and context packages.
func ClassOf(err error) Class {
	var own interface{ RetryClass() Class }
	if errors.As(err, &own) {
		return own.RetryClass()
	}
	if IsPermanent(err) {
		return ClassPermanent
	}
	if _, ok := AfterOf(err); ok {
		return ClassOverload
	}
	return classOfNetwork(err)
}

func classOfNetwork(err error) Class {
	var timeout interface{ Timeout() bool }
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return ClassTimeout
	}
	for _, e := range [...]error{
		syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE,
		syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN,
	} {
		if errors.Is(err, e) {
			return ClassTransient
		}
	}
	var network net.Error
	var operation *net.OpError
	var request *url.Error
	// A client's error without an answer: the connection broke, for any reason.
	if errors.As(err, &operation) || errors.As(err, &request) || errors.As(err, &network) {
		if errors.Is(err, context.Canceled) {
			return ClassUnknown
		}
		return ClassTransient
	}
	return ClassUnknown
}

// ClassOfStatus classifies an HTTP status code. It is meant for codes that are not a
// success; those below 400 are ClassUnknown.
func ClassOfStatus(code int) Class {
	switch code {
	case http.StatusRequestTimeout:
		return ClassTimeout
	case http.StatusTooManyRequests:
		return ClassOverload
	case http.StatusTooEarly, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return ClassTransient
	}
	switch {
	case code >= 400 && code < 500:
		return ClassPermanent
	case code == http.StatusNotImplemented || code == http.StatusHTTPVersionNotSupported:
		return ClassPermanent
	default:
		return ClassUnknown
	}
}

// ByClass is a Classify function for Options: it stops at permanent errors, at an
// open breaker, and when the caller's context ended.
func ByClass(err error) Decision {
	if errors.Is(err, context.Canceled) || !ClassOf(err).Retryable() {
		return Stop
	}
	return Again
}
