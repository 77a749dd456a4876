package remote

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/sloengine/sloengine/reliability/retry"
)

// Kind is the subject of a BrokerError.
type Kind string

// The kinds.
const (
	KindConnection  Kind = "connection"  // the broker is not reachable, or too busy
	KindCredentials Kind = "credentials" // it refuses the user, or the operation of the user
	KindTLS         Kind = "tls"
	// a topic, exchange, queue or virtual host is missing, differs, or refuses everything
	KindTopology Kind = "topology"
	KindMessage  Kind = "message" // this one message is refused
)

// BrokerError is a failure of a client of a message broker or a database, in words for an operator.
type BrokerError struct {
	Broker string // system that the client speaks to, such as "kafka"
	Kind   Kind
	Class  retry.Class
	Text   string // problem and advice; "" leaves it to Err
	Err    error  // of the client's library
}

func (e *BrokerError) Error() string {
	if e.Text == "" {
		return e.Err.Error()
	}
	return e.Text + ": " + e.Err.Error()
}

func (e *BrokerError) Unwrap() error { return e.Err }

// RetryClass distinguishes failures that pass by themselves from those that an operator has to fix.
func (e *BrokerError) RetryClass() retry.Class { return e.Class }

// Brief is the error without the text of the broker.
func (e *BrokerError) Brief() string {
	if e.Text == "" {
		return e.Broker + " request failed"
	}
	return e.Text
}

// ExplainTLS describes the problem with the certificates of a broker. It is "" for every other
// error.
func ExplainTLS(err error) string {
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
