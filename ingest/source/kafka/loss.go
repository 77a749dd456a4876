package kafka

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sloengine/sloengine/ingest/position"
	"github.com/sloengine/sloengine/ingest/source"
)

// This file detects that the brokers lost counted messages, as in an unclean leader election, and reused their
// offsets. Counted messages stay counted. The offsets begin a new generation of the partition, so that the other
// messages count as well.

// truncated restarts behind the messages that the brokers lost while a partition was read.
func (x *session) truncated(ctx context.Context, topic string, partition int32, lost *kgo.ErrDataLoss) error {
	at := place{topic, partition}
	p := x.parts[at]
	if p == nil {
		return nil
	}
	x.flush(ctx)
	x.wait.Wait() // the write in progress belongs to the previous generation
	if err := x.s.cut(ctx, p.stream, lost.ResetTo, lost.ResetToEpoch); err != nil {
		return err
	}
	have, _ := x.s.book.known(at)
	p.resume(have)
	p.next, p.claimed = min(p.next, lost.ResetTo), min(p.claimed, lost.ResetTo)
	return nil
}

// lostMeanwhile finds out, before partitions are resumed, whether the brokers lost messages of them that are durable
// here. It returns the partitions for which the brokers do not answer at the moment.
func (s *Source) lostMeanwhile(ctx context.Context, admin *kadm.Client, parts []*part) (unknown []*part, err error) {
	var ask kadm.OffsetForLeaderEpochRequest
	for _, p := range parts {
		if have, ok := s.durable(p); ok {
			ask.Add(p.stream.Name, p.stream.Partition, have.Epoch)
		}
	}
	if len(ask) == 0 {
		return nil, nil
	}
	timed, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answers, err := admin.OffsetForLeaderEpoch(timed, ask)
	if err != nil && !answersEpochs(timed, admin) {
		return nil, nil // brokers before Kafka 0.11 know no epochs
	}
	for _, p := range parts {
		if _, ok := s.durable(p); !ok {
			continue
		}
		answer, ok := answers[p.stream.Name][p.stream.Partition]
		if !ok || answer.Err != nil {
			unknown = append(unknown, p)
			continue
		}
		to := answer.EndOffset
		if to < 0 {
			to = p.end // the leader does not have that epoch: at least the messages behind its end are lost
		}
		if err := s.cut(ctx, p.stream, to, answer.LeaderEpoch); err != nil {
			return nil, err
		}
	}
	return unknown, nil
}

// durable returns the durable position in a partition, if the log of the partition reaches back to it and its epoch
// is known.
func (s *Source) durable(p *part) (position.Progress, bool) {
	have, ok := s.book.known(place{p.stream.Name, p.stream.Partition})
	return have, ok && have.Stream.ID == p.stream.ID && have.Epoch != position.NoEpoch && end(&have) > p.start
}

// answersEpochs reports whether all brokers that can be asked know the request for epochs.
func answersEpochs(ctx context.Context, admin *kadm.Client) bool {
	versions, err := admin.ApiVersions(ctx)
	if err != nil {
		return true
	}
	for _, v := range versions {
		if _, ok := v.KeyMaxVersion(int16(kmsg.OffsetForLeaderEpoch)); v.Err == nil && !ok {
			return false
		}
	}
	return true
}

// cut writes that the messages of a partition from an offset on are gone, and that other ones follow. The epoch is that
// of the last message in front of it. Where nothing from there on is durable it does nothing.
func (s *Source) cut(ctx context.Context, stream position.Stream, to int64, epoch int32) error {
	at := place{stream.Name, stream.Partition}
	left, ok := s.book.known(at)
	last := end(&left)
	if !ok || left.Stream.ID != stream.ID || last <= to {
		return nil
	}
	left.Generation, left.Epoch, left.Backlog = left.Generation+1, epoch, min(left.Backlog, to)
	left.Partial = slices.DeleteFunc(left.Partial, func(m position.Partial) bool { return m.Offset >= to })
	left.Ranges = slices.DeleteFunc(left.Ranges, func(r position.Range) bool { return r.From >= to })
	if n := len(left.Ranges); n > 0 {
		left.Ranges[n-1].To = min(left.Ranges[n-1].To, to)
	}
	b := s.in.Batch(false)
	defer b.Release()
	if err := s.in.Submit(ctx, b, whole{s.in.Name(), left}); err != nil {
		return err
	}
	s.book.set(left)
	s.in.Fails(source.TroublePosition, at.String(),
		"the brokers lost messages that were counted already; they stay counted, and what follows in their place counts as "+
			"well",
		fmt.Sprintf("offsets %d to %d", to, last-1))
	s.show.noted(at, s.in.Now())
	return nil
}

// end is behind the last message of which anything is durable.
func end(p *position.Progress) (offset int64) {
	offset, _ = p.Next()
	if n := len(p.Partial); n > 0 {
		offset = max(offset, p.Partial[n-1].Offset+1)
	}
	return offset
}

// whole is all that is durable of a partition, as a position.
type whole struct {
	source   string
	progress position.Progress
}

func (w whole) AppendPosition(dst []byte, _ []int32) []byte {
	return position.Append(dst, w.source, []position.Progress{w.progress})
}
