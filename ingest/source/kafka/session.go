package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sloengine/sloengine/ingest/position"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/reliability/kafkaclient"
)

// session is the use of one client. One goroutine owns it: it fetches, decodes, and hands batches to goroutines that
// make them durable.
type session struct {
	s      *Source
	client *kafkaclient.Client
	admin  *kadm.Client

	parts map[place]*part // that this engine reads

	batch *source.Batch // open; nil: none
	claim *claim        // of batch
	msg   source.Message
	heads headers

	inFlight chan struct{} // batches that are being made durable
	wait     sync.WaitGroup
	failed   chan error // of the first batch that could not be
	refresh  time.Time  // when topics and partitions are due again
	commits  map[place]int64

	// Assignments and revocations of the group since the last poll.
	moving  sync.Mutex
	arrived map[place]*part
	left    map[place]bool
}

// maxInFlight is how many batches of a source wait for the log at a time. While they wait, the next is decoded.
const maxInFlight = 8

// pollRecords is how many messages are taken from the client at a time. Their events fit the processor's cache.
const pollRecords = 2_000

// fetchesInBuffer is how many fetches of the largest size fit into the buffer. Fewer would be larger, and their
// messages have left the processor's cache before they are decoded.
const fetchesInBuffer = 16

// minFetch is the least that a fetch may bring at most.
const minFetch = 1 << 20

func (s *Source) session(ctx context.Context) (err error) {
	x := &session{
		s: s, parts: map[place]*part{}, inFlight: make(chan struct{}, maxInFlight), failed: make(chan error, 1),
		commits: map[place]int64{},
		arrived: map[place]*part{}, left: map[place]bool{},
	}
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		x.wait.Wait()
		if x.batch != nil {
			x.batch.Release()
		}
	}()
	fetch := min(s.set.Buffer/fetchesInBuffer, 64<<20)
	opts := []kgo.Opt{
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMinBytes(int32(s.set.Fetch.MinBytes)), kgo.FetchMaxWait(s.set.Fetch.MaxWait),
		kgo.FetchMaxBytes(int32(max(fetch, minFetch))), kgo.FetchMaxPartitionBytes(int32(max(fetch/4, minFetch))),
		kgo.MaxConcurrentFetches(fetchesInBuffer),
		kgo.KeepRetryableFetchErrors(), kgo.RetryTimeout(askTimeout), kgo.WithPools(&pool{}),
	}
	if s.set.Ownership == Group {
		opts = append(opts, x.groupOptions()...)
	}
	// A new client of a group may call adjust at once.
	x.moving.Lock()
	x.client, err = kafkaclient.New(s.o.Client, opts...)
	if err == nil {
		x.admin = kadm.NewClient(x.client.Client)
	}
	x.moving.Unlock()
	if err != nil {
		return fmt.Errorf("kafka client: %w", err)
	}
	defer x.client.CloseAllowingRebalance()
	for ctx.Err() == nil {
		if !s.o.Now().Before(x.refresh) {
			if err := x.reconcile(ctx); err != nil {
				return err
			}
		}
		if err := x.poll(ctx); err != nil {
			return err
		}
	}
	// The durable offsets are committed, so that monitoring does not see a lag that does not exist.
	x.wait.Wait()
	if s.set.Ownership == Group {
		return nil // committed after each poll
	}
	last, done := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer done()
	x.commit(last)
	return nil
}

// poll takes the messages that the client has fetched, and waits for them until the next refresh at
// the latest.
func (x *session) poll(ctx context.Context) error {
	wait, cancel := context.WithDeadline(ctx, time.Now().Add(min(x.refresh.Sub(x.s.o.Now()), x.s.set.Refresh)))
	defer cancel()
	fetches := x.client.PollRecords(wait, pollRecords)
	if !fetches.Empty() {
		defer x.s.in.Busy()()
	}
	if x.s.set.Ownership == Group {
		defer x.client.AllowRebalance()
		x.moved()
	}
	if fetches.IsClientClosed() {
		return errors.New("the client is closed")
	}
	var failed error
	fetches.EachTopic(func(t kgo.FetchTopic) {
		for i := range t.Partitions {
			f := &t.Partitions[i]
			if f.Err != nil && !errors.Is(f.Err, context.DeadlineExceeded) && !errors.Is(f.Err, context.Canceled) {
				failed = cmp.Or(failed, x.fetchFailed(ctx, t.Topic, f))
			}
			if p := x.parts[place{t.Topic, f.Partition}]; p != nil && failed == nil {
				failed = x.take(ctx, p, f)
			}
		}
	})
	if failed != nil {
		return failed
	}
	if x.batch != nil {
		x.flush(ctx)
	}
	if x.s.set.Ownership == Group {
		// Nothing more is fetched until all is durable and committed: that bounds the number of messages that a
		// crash can count twice.
		x.wait.Wait()
	}
	select {
	case err := <-x.failed:
		return err
	default:
	}
	if x.s.set.Ownership == Group {
		// Also if the source is being stopped: the next owner would count it all again.
		x.commit(context.WithoutCancel(ctx))
	}
	return nil
}

// take decodes the messages of a partition.
func (x *session) take(ctx context.Context, p *part, f *kgo.FetchPartition) error {
	if f.LogStartOffset > p.next && len(f.Records) > 0 {
		if err := x.gap(ctx, p, f.LogStartOffset); err != nil {
			return err
		}
	}
	p.end = max(p.end, f.LastStableOffset)
	m := &x.msg
	m.Topic, m.Generation, m.Partition = p.stream.Name, p.gen, p.stream.Partition
	index := -1
	for _, r := range f.Records {
		if to, ok := p.jumps(r.Offset); ok {
			p.next = to
			x.client.SetOffsets(
				map[string]map[int32]kgo.EpochOffset{p.stream.Name: {p.stream.Partition: {Epoch: -1, Offset: to}}})
			break
		}
		fresh, done := p.take(r.Offset)
		if !fresh {
			r.Recycle()
			continue
		}
		m.Value, m.Time, m.Offset, m.Done = r.Value, r.Timestamp, r.Offset, done
		m.Refold = r.Offset < p.backlog
		m.Headers = nil
		if len(r.Headers) > 0 {
			x.heads = r.Headers
			m.Headers = &x.heads
		}
		backfill := x.s.in.Backfills(m)
		if x.batch != nil && (x.batch.Full() || x.batch.Backfill() != backfill) {
			p.next = r.Offset // this message is not in it
			x.flush(ctx)
			p.next = r.Offset + 1
			index = -1
		}
		if x.batch == nil {
			x.batch = x.s.in.Batch(backfill)
			x.claim = &claim{source: x.s.in.Name(), batch: x.batch}
			index = -1
		}
		if index < 0 {
			index = x.claim.of(p)
		}
		m.Stream = index
		x.claim.parts[index].epoch = max(x.claim.parts[index].epoch, r.LeaderEpoch)
		x.batch.Add(m)
		r.Recycle() // the batch has a copy
	}
	return nil
}

// flush hands the open batch to a goroutine that makes it durable, and waits while there are too many of them.
func (x *session) flush(ctx context.Context) {
	if x.batch == nil {
		return
	}
	b, c := x.batch, x.claim
	x.s.ids.look(b, c)
	x.batch, x.claim = nil, nil
	for i := range c.parts {
		p := c.parts[i].part
		c.parts[i].to = p.next
		p.claimed = p.next
	}
	select {
	case x.inFlight <- struct{}{}:
	case <-ctx.Done():
		b.Release()
		return
	}
	x.wait.Go(func() {
		defer func() { <-x.inFlight }()
		defer b.Release()
		if err := x.s.in.Submit(ctx, b, c); err != nil {
			select {
			case x.failed <- err:
			default:
			}
			return
		}
		c.note(&x.s.book)
	})
}

// headers are those of a record.
type headers []kgo.RecordHeader

func (h *headers) Len() int                  { return len(*h) }
func (h *headers) At(i int) (string, []byte) { return (*h)[i].Key, (*h)[i].Value }

// gap notes that messages were deleted before they were read. Those that are durable, from before, do not count.
func (x *session) gap(ctx context.Context, p *part, to int64) error {
	x.flush(ctx)
	x.wait.Wait()
	lost := position.Range{From: p.next, To: to}
	n := missing(p.done, lost)
	c := &claim{source: x.s.in.Name(), parts: []claimed{{part: p, epoch: position.NoEpoch, from: p.claimed, to: to}}}
	if n > 0 {
		x.s.show.gap(p, n, lost)
		if err := x.s.in.Lose(ctx, c, p.stream.Name, n); err != nil {
			return err
		}
		c.note(&x.s.book)
	}
	p.next, p.claimed = to, to
	return nil
}
