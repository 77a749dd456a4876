package amqpclient

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sloengine/sloengine/reliability/retry"
)

// Kind is what an error is about.
type Kind string

// The kinds.
const (
	KindConnection  Kind = "connection"
	KindCredentials Kind = "credentials" // the broker refuses the user, or what the user wants to do
	KindTLS         Kind = "tls"
	KindTopology    Kind = "topology" // an exchange, queue or virtual host is missing, or differs
	KindMessage     Kind = "message"  // this one message is refused
)

// Error is a failure of a client, in words for an operator.
type Error struct {
	Kind  Kind
	text  string
	class retry.Class
	err   error
}

func (e *Error) Error() string {
	if e.text == "" {
		return e.err.Error()
	}
	return e.text + ": " + e.err.Error()
}

func (e *Error) Unwrap() error { return e.err }

// RetryClass tells what passes by itself from what somebody has to fix.
func (e *Error) RetryClass() retry.Class { return e.class }

// Brief is the error without what the broker wrote.
func (e *Error) Brief() string {
	if e.text == "" {
		return "rabbitmq request failed"
	}
	return e.text
}

// Explain makes an *Error of what the library returns. A nil error stays nil, and an *Error stays what it is.
func Explain(err error) error {
	var known *Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	made := func(kind Kind, class retry.Class, text string) error { return &Error{kind, text, class, err} }
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.Is(err, amqp.ErrCredentials):
		return made(KindCredentials, retry.ClassBlocked, "the broker refuses the user name or password")
	case errors.Is(err, amqp.ErrSASL):
		return made(KindCredentials, retry.ClassBlocked, "the broker does not accept passwords from this client")
	case errors.Is(err, amqp.ErrVhost):
		return made(KindCredentials, retry.ClassBlocked, "the user has no access to the virtual host, or it does not exist")
	case errors.As(err, &authority):
		return made(KindTLS, retry.ClassBlocked, "the certificate of the broker is signed by an unknown authority (set tls.ca_file)")
	case errors.As(err, &host):
		return made(KindTLS, retry.ClassBlocked, "the certificate of the broker is for another host (set tls.server_name)")
	case errors.As(err, &invalid):
		return made(KindTLS, retry.ClassBlocked, "the certificate of the broker is not valid")
	case errors.As(err, &record):
		return made(KindTLS, retry.ClassBlocked, "the broker does not speak TLS on this port")
	case errors.As(err, &alert):
		return made(KindTLS, retry.ClassBlocked, "the broker refuses the TLS connection")
	}
	var answer *amqp.Error
	if !errors.As(err, &answer) {
		return made(KindConnection, retry.ClassOf(err), "")
	}
	switch answer.Code {
	case amqp.AccessRefused:
		return made(KindCredentials, retry.ClassBlocked, "the user is not authorized (change its permissions)")
	case amqp.NotAllowed:
		if strings.Contains(answer.Reason, "vhost") {
			return made(KindTopology, retry.ClassBlocked, "the virtual host does not exist (create it)")
		}
		return made(KindCredentials, retry.ClassBlocked, "the broker does not allow this")
	case amqp.NotFound:
		return made(KindTopology, retry.ClassBlocked, "the exchange or queue does not exist (create it)")
	case amqp.PreconditionFailed:
		if strings.Contains(answer.Reason, "message size") {
			return made(KindMessage, retry.ClassPermanent, "the message is larger than the broker allows")
		}
		return made(KindTopology, retry.ClassBlocked, "the exchange or queue has other arguments")
	case amqp.ContentTooLarge:
		return made(KindMessage, retry.ClassPermanent, "the message is larger than the broker allows")
	}
	return made(KindConnection, retry.ClassTransient, "") // the broker shuts down, lacks resources, or the connection broke
}
