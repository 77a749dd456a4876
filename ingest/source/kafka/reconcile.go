package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sloengine/sloengine/ingest/position"
	"github.com/sloengine/sloengine/ingest/source"
)

// askTimeout bounds each question to the brokers. Nothing is lost meanwhile: fetched messages wait.
const askTimeout = 10 * time.Second

// reconcile looks at the topics: it starts reading new partitions, detects topics that were deleted or created
// again, measures the lag, and commits.
func (x *session) reconcile(ctx context.Context) error {
	s := x.s
	x.refresh = s.o.Now().Add(s.set.Refresh)
	ask, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	ask, stop := x.client.Watch(ask)
	defer stop()
	topics, err := x.topics(ask)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		s.failed(err, x.client.Failure())
		x.refresh = s.o.Now().Add(min(s.set.Refresh, 2*time.Second))
		return nil // the client reconnects by itself
	}
	s.works()
	names := slices.Sorted(maps.Keys(topics))
	var ends, starts kadm.ListedOffsets
	if len(names) > 0 {
		if starts, err = x.admin.ListStartOffsets(ask, names...); err == nil {
			ends, err = x.admin.ListCommittedOffsets(ask, names...)
		}
		var partly *kadm.ShardErrors
		if err != nil && !errors.As(err, &partly) {
			if ctx.Err() == nil {
				s.failed(err, x.client.Failure())
			}
			return nil
		}
	}
	look := listed{starts, ends}
	if s.set.Ownership == Static {
		if err := x.assign(ctx, topics, look); err != nil {
			return err
		}
	}
	for _, p := range x.parts {
		if start, end, ok := look.of(p.stream.Name, p.stream.Partition); ok {
			p.start, p.end = start, max(end, p.start)
			if err := x.checkLog(ctx, p); err != nil {
				return err
			}
		}
	}
	s.show.topics(x, topics)
	if s.set.Ownership == Static {
		x.commit(ctx)
	}
	return nil
}

// topics returns the topics that exist, and records the problems of the others.
func (x *session) topics(ctx context.Context) (kadm.TopicDetails, error) {
	set := &x.s.set
	found, err := x.admin.ListTopics(ctx, set.Topics...)
	var forbidden *kadm.AuthError
	if errors.As(err, &forbidden) && errors.Is(err, kerr.TopicAuthorizationFailed) {
		for _, name := range set.Topics {
			if _, ok := found[name]; !ok {
				x.s.topicFailed(name, err)
			}
		}
	} else if err != nil {
		return nil, err
	}
	out := kadm.TopicDetails{}
	for name, t := range found {
		switch {
		case set.pattern != nil && (t.IsInternal || !set.pattern.MatchString(name)):
		case t.Err != nil:
			x.s.topicFailed(name, t.Err)
		default:
			x.s.in.Works(source.TroubleTopic, name)
			x.s.in.Works(source.TroubleCredentials, name)
			out[name] = t
		}
	}
	if set.pattern != nil {
		if len(out) == 0 {
			x.s.in.Fails(source.TroubleTopic, "", "no topic matches topics_regex", fmt.Sprintf("%d topics exist", len(found)))
		} else {
			x.s.in.Works(source.TroubleTopic, "")
		}
	}
	for at := range x.parts {
		if _, ok := out[at.topic]; !ok && set.pattern != nil {
			x.s.topicFailed(at.topic, kerr.UnknownTopicOrPartition)
		}
	}
	return out, nil
}

// listed are the ends of partitions.
type listed struct{ starts, ends kadm.ListedOffsets }

func (l listed) of(topic string, partition int32) (start, end int64, ok bool) {
	a, ok1 := l.starts.Lookup(topic, partition)
	b, ok2 := l.ends.Lookup(topic, partition)
	return a.Offset, b.Offset, ok1 && ok2 && a.Err == nil && b.Err == nil && a.Offset >= 0 && b.Offset >= 0
}

// assign starts reading the partitions that this engine owns and does not read yet.
func (x *session) assign(ctx context.Context, topics kadm.TopicDetails, look listed) error {
	var found []*part
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		t := topics[name]
		x.dropRecreated(name, t.ID)
		for _, n := range t.Partitions.Numbers() {
			if int(n)%x.s.set.Engines != x.s.set.ordinal {
				continue
			}
			if old := x.parts[place{name, n}]; old != nil && !old.failed {
				continue
			}
			start, end, ok := look.of(name, n)
			if !ok {
				continue // without a leader: with the next refresh
			}
			p := newPart(position.Stream{Name: name, ID: t.ID, Partition: n})
			p.start, p.end = start, end
			found = append(found, p)
		}
	}
	if len(found) > 0 {
		x.flush(ctx)
		x.wait.Wait() // a resumed partition waits for its write in progress
	}
	unknown, err := x.s.lostMeanwhile(ctx, x.admin, found)
	if err != nil {
		return err
	}
	var fresh []*part
	begin := &claim{source: x.s.in.Name()}
	topic, known, recreated := "", false, false
	for _, p := range found {
		if slices.Contains(unknown, p) {
			continue // with the next refresh
		}
		at := place{p.stream.Name, p.stream.Partition}
		if at.topic != topic {
			topic = at.topic
			known, recreated = x.s.book.topicKnown(topic, p.stream.ID)
		}
		if err := x.locate(ctx, p, known, recreated); err != nil {
			return err
		}
		if _, had := x.s.book.known(at); !had || recreated && !known {
			begin.parts = append(begin.parts, claimed{part: p, epoch: position.NoEpoch, from: 0, to: p.claimed})
		}
		x.parts[at] = p
		fresh = append(fresh, p)
	}
	if len(begin.parts) > 0 {
		// Where a partition began is known from now on, also if no message ever comes.
		if err := x.s.in.Submit(ctx, x.s.in.Batch(false), begin); err != nil {
			return err
		}
		begin.note(&x.s.book)
	}
	offsets := map[string]map[int32]kgo.Offset{}
	for _, p := range fresh {
		if offsets[p.stream.Name] == nil {
			offsets[p.stream.Name] = map[int32]kgo.Offset{}
		}
		_, epoch := x.s.book.done(place{p.stream.Name, p.stream.Partition})
		if p.start >= p.next {
			epoch = position.NoEpoch // it ended somewhere in front of here
		}
		offsets[p.stream.Name][p.stream.Partition] = kgo.NewOffset().At(p.next).WithEpoch(epoch)
	}
	if len(fresh) > 0 {
		x.client.AddConsumePartitions(offsets)
		x.s.o.Logger.Info("kafka source reads partitions", "source", x.s.in.Name(), "partitions", len(fresh),
			"in_all", len(x.parts))
	}
	return nil
}

// dropRecreated stops reading a topic whose ID is another one than before: it was deleted and created again.
func (x *session) dropRecreated(topic string, id [16]byte) {
	var old []int32
	for at, p := range x.parts {
		if at.topic == topic && p.stream.ID != id {
			old = append(old, at.partition)
		}
	}
	if old == nil {
		return
	}
	for _, n := range old {
		delete(x.parts, place{topic, n})
	}
	x.client.RemoveConsumePartitions(map[string][]int32{topic: old})
	x.client.PurgeTopicsFromConsuming(topic)
}

// locate says where a partition begins: at the first message that is not durable, or where the settings say.
func (x *session) locate(ctx context.Context, p *part, known, recreated bool) error {
	s := x.s
	at := place{p.stream.Name, p.stream.Partition}
	if have, ok := s.book.known(at); ok && have.Stream.ID == p.stream.ID {
		p.resume(have)
		p.next = next(have.Ranges, 0)
		p.claimed = p.next
		return nil
	}
	offset := p.start
	switch {
	case known:
		// A partition that was added: everything in it is new.
		s.o.Logger.Info("kafka source takes a new partition from its beginning", "source", s.in.Name(), "topic",
			p.stream.Name, "partition", p.stream.Partition)
	case recreated:
		s.show.recreated(p.stream.Name)
	default:
		var err error
		if offset, err = x.first(ctx, p); err != nil {
			return err
		}
		p.backlog = p.end
	}
	p.next, p.claimed = offset, offset
	return nil
}

// first is where a partition begins that this source never read.
func (x *session) first(ctx context.Context, p *part) (int64, error) {
	var since time.Time
	switch x.s.set.Start {
	case Earliest:
		return p.start, nil
	case Latest:
		return p.end, nil
	case LongestWindow:
		since = x.s.o.Now().Add(-x.s.o.LongestWindow())
	default:
		since = x.s.set.start
	}
	ask, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	found, err := x.admin.ListOffsetsAfterMilli(ask, since.UnixMilli(), p.stream.Name)
	if err != nil {
		return 0, err
	}
	o, ok := found.Lookup(p.stream.Name, p.stream.Partition)
	if !ok || o.Err != nil || o.Offset < 0 {
		return 0, fmt.Errorf("find the first message of %s/%d since %s: %w", p.stream.Name, p.stream.Partition,
			since.UTC().Format(time.RFC3339), errors.Join(o.Err, errors.New("no offset")))
	}
	return min(o.Offset, max(p.end, p.start)), nil
}

// checkLog compares where a partition is with its log: messages may have been deleted before they were read, also if
// none are left.
func (x *session) checkLog(ctx context.Context, p *part) error {
	if p.start > p.next {
		return x.gap(ctx, p, p.start)
	}
	return nil
}

// commit commits the durable offsets to the broker.
func (x *session) commit(ctx context.Context) {
	s := x.s
	if !s.set.Commit && s.set.Ownership == Static {
		return
	}
	offsets := kadm.Offsets{}
	for at, p := range x.parts {
		done, epoch := s.book.done(at)
		if s.set.Ownership == Group {
			done = p.claimed // all of it is durable, and others have read the messages before it
		}
		if last, ok := x.commits[at]; ok && last == done || done == 0 {
			continue
		}
		offsets.Add(kadm.Offset{Topic: at.topic, Partition: at.partition, At: done, LeaderEpoch: epoch})
	}
	if len(offsets) == 0 {
		return
	}
	if s.set.Ownership == Group {
		x.commitInGroup(ctx, offsets)
		return
	}
	ask, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answers, err := x.admin.CommitOffsets(ask, s.set.Group, offsets)
	if err == nil {
		err = answers.Error()
	}
	x.committed(ctx, offsets, err)
}

// committed notes how a commit went. One that failed is no reason to stop: the positions are in the log.
func (x *session) committed(ctx context.Context, offsets kadm.Offsets, err error) {
	if err != nil {
		if ctx.Err() == nil {
			x.s.show.commits(false)
			x.s.in.Fails(source.TroubleCommit, "",
				"commits for the group fail, so its lag in the broker is too high; nothing is lost", err.Error())
		}
		return
	}
	x.s.show.commits(true)
	x.s.in.Works(source.TroubleCommit, "")
	offsets.Each(func(o kadm.Offset) { x.commits[place{o.Topic, o.Partition}] = o.At })
}
