package kafkaclient

import (
	"errors"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/reliability/retry"
)

// causes are the answers of brokers that need words of their own, in the order in which they are looked for.
var causes = []struct {
	of    []error
	kind  remote.Kind
	class retry.Class
	text  string
}{
	{[]error{kerr.SaslAuthenticationFailed}, remote.KindCredentials, retry.ClassBlocked,
		"the brokers refuse the user name or password (check sasl)"},
	{[]error{kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState}, remote.KindCredentials, retry.ClassBlocked,
		"the brokers do not offer this SASL mechanism (check sasl.mechanism)"},
	{[]error{kerr.TopicAuthorizationFailed}, remote.KindCredentials, retry.ClassBlocked,
		"the user is not authorized for the topic (change its access control list)"},
	{[]error{kerr.GroupAuthorizationFailed}, remote.KindCredentials, retry.ClassBlocked,
		"the user is not authorized for the consumer group (change its access control list)"},
	{[]error{kerr.ClusterAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed}, remote.KindCredentials,
		retry.ClassBlocked, "the user is not authorized (change its access control list)"},
	{[]error{kerr.UnknownTopicOrPartition, kerr.UnknownTopicID}, remote.KindTopology, retry.ClassBlocked,
		"the topic does not exist (create it)"},
	{[]error{kerr.InvalidTopicException}, remote.KindTopology, retry.ClassBlocked, "the topic has an invalid name"},
	{[]error{kerr.PolicyViolation}, remote.KindTopology, retry.ClassBlocked, "a policy of the cluster refuses this"},
	{[]error{kerr.MessageTooLarge, kerr.RecordListTooLarge}, remote.KindMessage, retry.ClassPermanent,
		"the event is larger than the topic or the producer allows"},
	{[]error{kerr.InvalidRecord}, remote.KindMessage, retry.ClassPermanent, "the broker refuses the record"},
	{[]error{kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend}, remote.KindConnection, retry.ClassTransient,
		"too few replicas are in sync (min.insync.replicas)"},
	{[]error{kerr.ThrottlingQuotaExceeded, kgo.ErrMaxBuffered}, remote.KindConnection, retry.ClassOverload, ""},
	{[]error{kgo.ErrRecordTimeout, kgo.ErrRecordRetries}, remote.KindConnection, retry.ClassTimeout,
		"not delivered within delivery_timeout"},
}

// Explain converts an error of the client to a *remote.BrokerError. A nil error stays nil, and a *BrokerError is
// returned unchanged.
func Explain(err error) error {
	var known *remote.BrokerError
	if err == nil || errors.As(err, &known) {
		return err
	}
	made := func(kind remote.Kind, class retry.Class, text string) error {
		return &remote.BrokerError{Broker: "kafka", Kind: kind, Class: class, Text: text, Err: err}
	}
	for _, c := range causes {
		for _, of := range c.of {
			if errors.Is(err, of) {
				return made(c.kind, c.class, c.text)
			}
		}
	}
	if text := remote.ExplainTLS(err); text != "" {
		return made(remote.KindTLS, retry.ClassBlocked, text)
	}
	var first *kgo.ErrFirstReadEOF
	if errors.As(err, &first) { // the text of the client names TLS and SASL as causes
		return made(remote.KindConnection, retry.ClassTransient, "the broker closes the connection")
	}
	if strings.Contains(err.Error(), "tls alert record") { // the client has no error of its own for it
		return made(remote.KindTLS, retry.ClassBlocked, "the port wants TLS (set tls)")
	}
	var answer *kerr.Error
	if errors.As(err, &answer) {
		class := retry.ClassPermanent
		if answer.Retriable {
			class = retry.ClassTransient
		}
		return made(remote.KindConnection, class, "")
	}
	return made(remote.KindConnection, retry.ClassOf(err), "")
}
