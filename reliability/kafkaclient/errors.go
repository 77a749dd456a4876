package kafkaclient

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sloengine/sloengine/reliability/retry"
)

// Kind is what an error is about.
type Kind string

// The kinds.
const (
	KindConnection  Kind = "connection"  // the brokers are not reachable, or too busy
	KindCredentials Kind = "credentials" // they refuse the user, or what the user wants to do
	KindTLS         Kind = "tls"
	KindTopic       Kind = "topic"  // it is missing, or its settings refuse everything
	KindRecord      Kind = "record" // this one record is refused
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

// Brief is the error without what a broker wrote.
func (e *Error) Brief() string {
	if e.text == "" {
		return "kafka request failed"
	}
	return e.text
}

// causes are the answers of brokers that need words of their own, in the order in which they are looked for.
var causes = []struct {
	of    []error
	kind  Kind
	class retry.Class
	text  string
}{
	{[]error{kerr.SaslAuthenticationFailed}, KindCredentials, retry.ClassBlocked, "the brokers refuse the user name or password (check sasl)"},
	{[]error{kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState}, KindCredentials, retry.ClassBlocked, "the brokers do not offer this SASL mechanism (check sasl.mechanism)"},
	{[]error{kerr.TopicAuthorizationFailed}, KindCredentials, retry.ClassBlocked, "the user is not authorized for the topic (change its access control list)"},
	{[]error{kerr.GroupAuthorizationFailed}, KindCredentials, retry.ClassBlocked, "the user is not authorized for the consumer group (change its access control list)"},
	{[]error{kerr.ClusterAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed}, KindCredentials, retry.ClassBlocked, "the user is not authorized (change its access control list)"},
	{[]error{kerr.UnknownTopicOrPartition, kerr.UnknownTopicID}, KindTopic, retry.ClassBlocked, "the topic does not exist (create it)"},
	{[]error{kerr.InvalidTopicException}, KindTopic, retry.ClassBlocked, "the topic has an invalid name"},
	{[]error{kerr.PolicyViolation}, KindTopic, retry.ClassBlocked, "a policy of the cluster refuses this"},
	{[]error{kerr.MessageTooLarge, kerr.RecordListTooLarge}, KindRecord, retry.ClassPermanent, "the event is larger than the topic or the producer allows"},
	{[]error{kerr.InvalidRecord}, KindRecord, retry.ClassPermanent, "the broker refuses the record"},
	{[]error{kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend}, KindConnection, retry.ClassTransient, "too few replicas are in sync (min.insync.replicas)"},
	{[]error{kerr.ThrottlingQuotaExceeded, kgo.ErrMaxBuffered}, KindConnection, retry.ClassOverload, ""},
	{[]error{kgo.ErrRecordTimeout, kgo.ErrRecordRetries}, KindConnection, retry.ClassTimeout, "not delivered within delivery_timeout"},
}

// Explain makes an *Error of what the client returns. A nil error stays nil, and an *Error stays what it is.
func Explain(err error) error {
	var known *Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	for _, c := range causes {
		for _, of := range c.of {
			if errors.Is(err, of) {
				return &Error{c.kind, c.text, c.class, err}
			}
		}
	}
	if text := explainTLS(err); text != "" {
		return &Error{KindTLS, text, retry.ClassBlocked, err}
	}
	var first *kgo.ErrFirstReadEOF
	if errors.As(err, &first) { // the text of the client names TLS and SASL as causes
		return &Error{KindConnection, "the broker closes the connection", retry.ClassTransient, err}
	}
	var answer *kerr.Error
	if errors.As(err, &answer) {
		class := retry.ClassPermanent
		if answer.Retriable {
			class = retry.ClassTransient
		}
		return &Error{KindConnection, "", class, err}
	}
	return &Error{KindConnection, "", retry.ClassOf(err), err}
}

// explainTLS is "" for errors that are not about certificates.
func explainTLS(err error) string {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.As(err, &authority):
		return "the certificate of the broker is signed by an unknown authority (set tls.ca_file)"
	case errors.As(err, &host):
		return "the certificate of the broker is for another host (set tls.server_name)"
	case errors.As(err, &invalid):
		return "the certificate of the broker is not valid"
	case errors.As(err, &record):
		return "the broker does not speak TLS on this port"
	case errors.As(err, &alert):
		return fmt.Sprintf("the broker refuses the TLS connection (%s)", alert.Error())
	}
	return ""
}
