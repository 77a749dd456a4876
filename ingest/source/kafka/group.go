package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sloengine/sloengine/ingest/position"
)

// This file is the ownership by a consumer group. The broker assigns the partitions to read, and the next owner
// begins at the committed offset. No rebalance happens between a poll and the commit of its messages, so a partition
// that moves counts nothing twice. An engine that crashes in between leaves at most one fetch per partition that is
// counted again by the next owner, unless its events have ids and the owner is the same.

func (x *session) groupOptions() []kgo.Opt {
	set := &x.s.set
	o := []kgo.Opt{
		kgo.ConsumerGroup(set.Group), kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(set.SessionTimeout), kgo.HeartbeatInterval(set.Heartbeat),
		kgo.RebalanceTimeout(max(set.SessionTimeout, 60e9)),
		kgo.AdjustFetchOffsetsFn(x.adjust), kgo.OnPartitionsRevoked(x.revoked), kgo.OnPartitionsLost(x.revoked),
		kgo.OnPartitionsAssigned(x.assigned),
	}
	if set.Instance != "" {
		o = append(o, kgo.InstanceID(set.Instance))
	}
	if set.pattern != nil {
		return append(o, kgo.ConsumeTopics(set.TopicsRegex), kgo.ConsumeRegex())
	}
	return append(o, kgo.ConsumeTopics(set.Topics...))
}

// adjust says where the partitions begin that were assigned. It runs in a goroutine of the client, between two polls.
func (x *session) adjust(
	ctx context.Context, commits map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	x.moving.Lock()
	admin := x.admin
	x.moving.Unlock()
	topics, err := admin.ListTopics(ctx, slices.Collect(maps.Keys(commits))...)
	if err != nil {
		return nil, err
	}
	names := topics.Names()
	starts, err := admin.ListStartOffsets(ctx, names...)
	if err != nil {
		return nil, err
	}
	ends, err := admin.ListCommittedOffsets(ctx, names...)
	if err != nil {
		return nil, err
	}
	look := listed{starts, ends}
	var parts []*part
	for topic, partitions := range commits {
		for n := range partitions {
			p := newPart(position.Stream{Name: topic, ID: topics[topic].ID, Partition: n})
			start, end, ok := look.of(topic, n)
			if !ok {
				return nil, errors.New("the log of a partition is not available")
			}
			p.start, p.end = start, end
			parts = append(parts, p)
		}
	}
	if unknown, err := x.s.lostMeanwhile(ctx, admin, parts); err != nil || len(unknown) > 0 {
		return nil, cmp.Or(err, errors.New("the epochs of a partition are not available"))
	}
	x.moving.Lock()
	defer x.moving.Unlock()
	for _, p := range parts {
		at := place{p.stream.Name, p.stream.Partition}
		offset := commits[at.topic][at.partition]
		if committed := offset.EpochOffset().Offset; committed >= 0 {
			// Another engine may have read on from here, so the committed offset applies, and the messages up to
			// it are skipped.
			if have, ok := x.s.book.known(at); ok && have.Stream.ID == p.stream.ID {
				p.resume(have)
			}
			p.next = next(p.done, min(committed, max(p.end, p.start)))
		} else if err := x.locate(ctx, p, false, false); err != nil {
			return nil, err
		}
		p.claimed = p.next
		x.arrived[at] = p
		commits[at.topic][at.partition] = kgo.NewOffset().At(p.next).WithEpoch(-1)
	}
	return commits, nil
}

// assigned and revoked run while no poll is under way.
func (x *session) assigned(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	x.moving.Lock()
	defer x.moving.Unlock()
	n := 0
	for topic, list := range partitions {
		n += len(list)
		for _, p := range list {
			x.left[place{topic, p}] = false
		}
	}
	x.s.show.rebalances.Inc()
	x.s.o.Logger.Info("consumer group assigned partitions", "source", x.s.in.Name(), "group",
		x.s.set.Group, "partitions", n)
}

func (x *session) revoked(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	x.moving.Lock()
	defer x.moving.Unlock()
	n := 0
	for topic, list := range partitions {
		n += len(list)
		for _, p := range list {
			x.left[place{topic, p}] = true
			delete(x.arrived, place{topic, p})
		}
	}
	if n > 0 {
		x.s.show.rebalances.Inc()
		x.s.o.Logger.Info("consumer group revoked partitions", "source", x.s.in.Name(), "group",
			x.s.set.Group, "partitions", n)
	}
}

// moved applies the assignments and revocations of the group since the last poll.
func (x *session) moved() {
	x.moving.Lock()
	defer x.moving.Unlock()
	for at, gone := range x.left {
		if gone {
			delete(x.parts, at)
			delete(x.commits, at)
		}
	}
	clear(x.left)
	maps.Copy(x.parts, x.arrived)
	clear(x.arrived)
}

// commitInGroup commits as a member of the group.
func (x *session) commitInGroup(ctx context.Context, offsets kadm.Offsets) {
	ask, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var failed error
	commits := map[string]map[int32]kgo.EpochOffset{}
	offsets.Each(func(o kadm.Offset) {
		if commits[o.Topic] == nil {
			commits[o.Topic] = map[int32]kgo.EpochOffset{}
		}
		commits[o.Topic][o.Partition] = kgo.EpochOffset{Epoch: o.LeaderEpoch, Offset: o.At}
	})
	x.client.CommitOffsetsSync(
		ask, commits, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
			failed = commitError(answer, err)
		})
	x.committed(ctx, offsets, failed)
}

// commitError is the first error of a commit.
func commitError(answer *kmsg.OffsetCommitResponse, err error) error {
	if err != nil || answer == nil {
		return err
	}
	for _, t := range answer.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("%s/%d: %w", t.Topic, p.Partition, err)
			}
		}
	}
	return nil
}
