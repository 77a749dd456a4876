package engine

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/dedup"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/wal"
)

// bareState reads every event and keeps nothing.
type bareState struct{ events atomic.Uint64 }

func (s *bareState) Apply(rec wal.Record, refuse Refuse) error {
	if rec.Type != record.TypeEvents {
		return nil
	}
	return EachEvent(rec.Payload, func(bool, *event.View) error { s.events.Add(1); return nil }, refuse)
}
func (s *bareState) Parts() []Part                { return nil }
func (s *bareState) Restore(string, []byte) error { return nil }
func (s *bareState) FinishRestore() error         { return nil }
func (s *bareState) Loss(string) (string, bool)   { return "", false }

func benchEngine(b *testing.B) (*running, *bareState) {
	state := &bareState{}
	opt := testOptions(fsys.OS())
	opt.Dir, opt.State, opt.SegmentBytes = b.TempDir(), state, 0
	opt.IDs = IDOptions{}
	return start(b, opt), state
}

// benchBatch is a batch of events of about 200 bytes.
func benchBatch(events int) *event.Batch {
	b := &event.Batch{}
	for i := range events {
		e := event.Event{
			ID: fmt.Sprintf("policy-%08d-issued", i), Time: time.Unix(1, 0), Service: "insurance-unpaid", Type: "application",
			Severity: "critical", HasDuration: true, Duration: time.Second,
		}
		e.Set("product", "MEDCARE")
		e.Set("stage", "CREATE_APPLICATION")
		e.Set("channel", "front")
		item := event.Item{Index: i, Start: len(b.Buf), HasKey: true}
		b.Buf = event.AppendBinary(b.Buf, &e)
		item.End = len(b.Buf)
		b.Events = append(b.Events, item)
	}
	return b
}

var benchNext atomic.Uint64

// renew gives the events of b ids that were never seen, in their binary form
// too, so that a replay finds the same.
func renew(b *event.Batch) {
	for i := range b.Events {
		item := &b.Events[i]
		n := benchNext.Add(1)
		raw := b.Buf[item.Start:item.End]
		for at, d := 0, n; at < 8; at, d = at+1, d/10 { // the digits of the id
			raw[idOffset+14-at] = byte('0' + d%10)
		}
		item.Key = event.Key([]byte("insurance-unpaid"), raw[idOffset:idOffset+22])
	}
}

const idOffset = 4 + 9 + 5 + 1 // prefix, flags and time, duration, length of the id

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkCommit(b *testing.B) {
	for _, size := range []int{1, 100, 1000} {
		for _, clients := range []int{1, 64} {
			b.Run(fmt.Sprintf("events=%d/clients=%d", size, clients), func(b *testing.B) {
				r, _ := benchEngine(b)
				var ops atomic.Int64
				var wg sync.WaitGroup
				began := time.Now()
				startCPU := cpu()
				b.ReportAllocs()
				stop := make(chan struct{})
				for range clients - 1 {
					wg.Go(func() {
						batch := benchBatch(size)
						for {
							select {
							case <-stop:
								return
							default:
							}
							renew(batch)
							if _, err := r.Commit(context.Background(), batch); err != nil {
								b.Error(err)
							}
							ops.Add(1)
						}
					})
				}
				batch := benchBatch(size)
				for b.Loop() {
					renew(batch)
					if _, err := r.Commit(context.Background(), batch); err != nil {
						b.Fatal(err)
					}
					ops.Add(1)
				}
				close(stop)
				wg.Wait()
				events := float64(ops.Load()) * float64(size)
				b.ReportMetric(float64((cpu()-startCPU).Nanoseconds())/float64(ops.Load()), "cpu-ns/request")
				b.ReportMetric(float64((cpu()-startCPU).Nanoseconds())/events, "cpu-ns/event")
				b.ReportMetric(events/time.Since(began).Seconds(), "events/s")
				r.shutdown()
			})
		}
	}
}

// BenchmarkAdmit is the committer's own work per event, with ten million ids
// known: look the id up, make the record. No disk.
func BenchmarkAdmit(b *testing.B) {
	opt := testOptions(fsys.OS())
	opt.Dir, opt.State = b.TempDir(), &bareState{}
	opt.IDs = IDOptions{}
	e, err := Open(opt)
	require.NoError(b, err)
	defer e.Close()
	c := &committer{e: e, ids: knownTable(10_000_000)}
	batch := benchBatch(1000)
	r := &request{batch: batch}
	c.group = []*request{r}
	n := uint64(1 << 40)
	b.ReportAllocs()
	for b.Loop() {
		for i := range batch.Events {
			n++
			batch.Events[i].Key = numberedKey(n)
		}
		c.prepare()
		r.result = Result{}
		c.admit(r, 1)
		if r.result.Accepted != 1000 {
			b.Fatal(r.result)
		}
		if n%(1000*1000) == 0 { // the table has a bound
			b.StopTimer()
			c.ids.Rollback()
			b.StartTimer()
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/event")
}

// knownTable has that many ids known.
func knownTable(known uint64) *dedup.Table {
	opt := IDOptions{Bytes: 512 << 20, MaxAge: 1000 * time.Hour}
	r := dedup.NewRestore(opt, known, opt.Shift(), 0, nil)
	for i := range known {
		r.Add(numberedKey(i), 0)
	}
	return r.Table()
}

// numberedKey spreads numbers over the keys, as a hash does.
func numberedKey(i uint64) xxh3.Uint128 {
	return xxh3.Hash128(binary.LittleEndian.AppendUint64(nil, i))
}

// BenchmarkRestart reads ten million events after the last checkpoint, with a
// State that only looks at them.
func BenchmarkRestart(b *testing.B) {
	const events = 10_000_000
	opt := testOptions(fsys.OS())
	opt.Dir, opt.SegmentBytes, opt.IDs = b.TempDir(), 0, IDOptions{}
	opt.Checkpoint.LogBytes = 1 << 40
	log, err := wal.Open(wal.Options{FS: opt.FS, Dir: opt.Dir + "/" + LogDir})
	require.NoError(b, err)
	batch := benchBatch(1000)
	for range events / 1000 / 10 {
		var pending []wal.Pending
		for range 10 {
			renew(batch)
			pending = append(pending, wal.Pending{Time: 1, Type: record.TypeEvents,
				Payload: append(record.AppendHead(nil, 1000, &event.Batch{}, nil), batch.Buf...)})
		}
		require.NoError(b, log.Append(pending))
	}
	require.NoError(b, log.Close())
	var spent time.Duration
	n := 0
	for b.Loop() {
		opt.State = &bareState{}
		began := time.Now()
		r := start(b, opt)
		spent += time.Since(began)
		n++
		require.Equal(b, events, r.Health().IDs.Count)
		r.abandon()
		runtime.GC()
	}
	b.ReportMetric(spent.Seconds()/float64(n), "s/restart")
}

// abandon ends the engine without the last checkpoint, so that the next start
// reads the log again.
func (r *running) abandon() {
	r.poison(fmt.Errorf("end of the run"))
	r.stop()
	<-r.end
}

// blobs is a State of equal parts that change by hand.
type blobs struct {
	bareState
	data     [][]byte
	versions []uint64
}

func (s *blobs) Parts() (parts []Part) {
	for i := range s.data {
		parts = append(parts, Part{Name: fmt.Sprint("group-", i), Version: s.versions[i], Encode: func(dst []byte) []byte {
			return append(dst, s.data[i]...)
		}})
	}
	return parts
}

// BenchmarkCheckpoint saves a state of 2,000 parts of 150 KB and ten million
// ids after 1 % of it changed.
func BenchmarkCheckpoint(b *testing.B) {
	state := &blobs{data: make([][]byte, 2000), versions: make([]uint64, 2000)}
	for i := range state.data {
		state.data[i] = make([]byte, 150_000)
		binary.LittleEndian.PutUint64(state.data[i], uint64(i))
	}
	opt := testOptions(fsys.OS())
	opt.Dir, opt.State, opt.IDs, opt.SegmentBytes = b.TempDir(), state, IDOptions{}, 0
	opt.Checkpoint.LogBytes = 1 << 40
	r := start(b, opt)
	batch := benchBatch(1000)
	commit := func(events int) {
		for range events / 1000 {
			renew(batch)
			_, err := r.Commit(context.Background(), batch)
			require.NoError(b, err)
		}
	}
	commit(10_000_000)
	r.checkpointNow()
	next, written, n := 0, 0., 0
	for b.Loop() {
		commit(100_000)
		require.NoError(b, r.Do(context.Background(), func() {
			for range 20 {
				state.versions[next%2000]++
				next++
			}
		}))
		r.checkpointNow()
		h := r.Health().Checkpoint
		written += 100 * float64(h.Written) / float64(h.State)
		n++
	}
	b.ReportMetric(written/float64(n), "%-written")
	r.shutdown()
}
