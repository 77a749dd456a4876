package amqpclient

import (
	"errors"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/reliability/retry"
)

// Explain converts an error of the library to a *remote.BrokerError. A nil error stays nil, and a *BrokerError is
// returned unchanged.
func Explain(err error) error {
	var known *remote.BrokerError
	if err == nil || errors.As(err, &known) {
		return err
	}
	made := func(kind remote.Kind, class retry.Class, text string) error {
		return &remote.BrokerError{Broker: "rabbitmq", Kind: kind, Class: class, Text: text, Err: err}
	}
	switch {
	case errors.Is(err, amqp.ErrCredentials):
		return made(remote.KindCredentials, retry.ClassBlocked, "the broker refuses the user name or password")
	case errors.Is(err, amqp.ErrSASL):
		return made(remote.KindCredentials, retry.ClassBlocked, "the broker does not accept passwords from this client")
	case errors.Is(err, amqp.ErrVhost):
		return made(remote.KindCredentials, retry.ClassBlocked,
			"the user has no access to the virtual host, or it does not exist")
	}
	if text := remote.ExplainTLS(err); text != "" {
		return made(remote.KindTLS, retry.ClassBlocked, text)
	}
	var answer *amqp.Error
	if !errors.As(err, &answer) {
		return made(remote.KindConnection, retry.ClassOf(err), "")
	}
	switch answer.Code {
	case amqp.AccessRefused:
		return made(remote.KindCredentials, retry.ClassBlocked, "the user is not authorized (change its permissions)")
	case amqp.NotAllowed:
		if strings.Contains(answer.Reason, "vhost") {
			return made(remote.KindTopology, retry.ClassBlocked, "the virtual host does not exist (create it)")
		}
		return made(remote.KindCredentials, retry.ClassBlocked, "the broker does not allow this")
	case amqp.NotFound:
		return made(remote.KindTopology, retry.ClassBlocked, "the exchange or queue does not exist (create it)")
	case amqp.PreconditionFailed:
		if strings.Contains(answer.Reason, "message size") {
			return made(remote.KindMessage, retry.ClassPermanent, "the message is larger than the broker allows")
		}
		return made(remote.KindTopology, retry.ClassBlocked, "the exchange or queue has other arguments")
	case amqp.ContentTooLarge:
		return made(remote.KindMessage, retry.ClassPermanent, "the message is larger than the broker allows")
	}
	// the broker shuts down, lacks resources, or the connection broke
	return made(remote.KindConnection, retry.ClassTransient, "")
}
