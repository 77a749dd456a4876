package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/reliability/kafkaclient"
	"github.com/sloengine/sloengine/reliability/remote"
)

// classify returns the kind of an error, and a description of it without text from outside.
func classify(err error) (source.Kind, string) {
	var known *remote.BrokerError
	if !errors.As(kafkaclient.Explain(err), &known) {
		return source.TroubleConnection, "the brokers are not reachable"
	}
	if kind := source.KindOf(known); kind != source.TroubleConnection {
		return kind, known.Brief()
	}
	var eof *kgo.ErrFirstReadEOF
	if errors.As(err, &eof) {
		return source.TroubleConnection, known.Brief() + " (does the port want other settings of tls or sasl?)"
	}
	return source.TroubleConnection, "the brokers are not reachable"
}

// failed notes an error about the connection as a whole. why is the failure of the last attempt to connect, nil if it
// succeeded: requests only say that they timed out.
func (s *Source) failed(err, why error) {
	if why != nil && !errors.As(err, new(*kerr.Error)) {
		err = why
	}
	kind, brief := classify(err)
	for _, other := range connectionKinds {
		if other != kind {
			s.in.Works(other, "")
		}
	}
	s.in.Fails(kind, "", brief, err.Error())
}

var connectionKinds = []source.Kind{source.TroubleConnection, source.TroubleCredentials, source.TroubleTLS}

// works notes that the brokers answer.
func (s *Source) works() {
	for _, kind := range connectionKinds {
		s.in.Works(kind, "")
	}
}

// topicFailed records the problem of one topic.
func (s *Source) topicFailed(topic string, err error) {
	kind, brief := classify(err)
	if kind == source.TroubleConnection {
		kind, brief = source.TroubleTopic, "the topic is not available"
	}
	s.in.Fails(kind, topic, brief, err.Error())
}

// fetchFailed notes why messages of a partition do not come. The error is that of an engine that takes no more.
func (x *session) fetchFailed(ctx context.Context, topic string, f *kgo.FetchPartition) error {
	var lost *kgo.ErrDataLoss
	switch {
	case errors.As(f.Err, &lost):
		return x.truncated(ctx, topic, f.Partition, lost)
	case topic == "":
		if kind, _ := classify(f.Err); kind != source.TroubleConnection {
			x.s.failed(f.Err, nil)
		}
	case kerr.IsRetriable(f.Err) && !errors.Is(f.Err, kerr.UnknownTopicOrPartition) &&
		!errors.Is(f.Err, kerr.UnknownTopicID):
		// A partition moves to another broker. The client follows it.
	default:
		x.s.topicFailed(topic, f.Err)
		if soon := x.s.o.Now().Add(time.Second); x.refresh.After(soon) {
			x.refresh = soon // a topic may be gone, or be another one
		}
		if p := x.parts[place{topic, f.Partition}]; p != nil && !kerr.IsRetriable(f.Err) {
			p.failed = true // the client has given it up; the next refresh takes it up again
			x.client.RemoveConsumePartitions(map[string][]int32{topic: {f.Partition}})
		}
	}
	return nil
}
