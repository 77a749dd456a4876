package backtest

import (
	"bytes"
	"time"

	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/wal"
)

// The bounds of how far a feed reads ahead. What a tick saw is known from a record behind it, of the same second unless
// the log could not be written.
const (
	maxAheadBytes = 256 << 20
	ownAheadBytes = 16 << 20 // within an engine
	maxAhead      = 2 * time.Minute
)

// feed gives records together with the ticks of the engine between them.
type feed struct {
	next func(*wal.Record) (bool, error)

	most int // bytes to read ahead

	ahead []entry
	bytes int
	proc  *process      // of the last record that was read
	ticks []record.Tick // read and not given, oldest first
	known uint64        // all ticks that saw no record from here on have been read
	given uint64        // the last record that was given
	ended bool
	rec   wal.Record
}

// process is the life of one engine.
type process struct {
	ticks bool // it logged its ticks
}

// entry is a record that was read ahead. Its payload is its own.
type entry struct {
	wal.Record
	proc *process
}

// pull gives the next record and the ticks that saw the one before it and not this one. late says that they were known
// only after records that they did not see had been given. At the end of the log there are ticks only.
func (f *feed) pull() (e entry, ticks []record.Tick, late, ok bool, err error) {
	for !f.sure() {
		if err := f.read(); err != nil {
			return e, nil, false, false, err
		}
	}
	if len(f.ahead) > 0 {
		e, ok = f.ahead[0], true
		f.ahead[0] = entry{}
		f.ahead = f.ahead[1:]
		f.bytes -= len(e.Payload)
	}
	n := 0
	for n < len(f.ticks) && (!ok || f.ticks[n].Folded < e.Seq) {
		late = late || f.ticks[n].Folded < f.given
		n++
	}
	ticks, f.ticks = f.ticks[:n], f.ticks[n:]
	if ok {
		f.given = e.Seq
	}
	return e, ticks, late, ok, nil
}

// sure reports whether the ticks before the next record are known, or cannot be waited for.
func (f *feed) sure() bool {
	if f.ended {
		return true
	}
	if len(f.ahead) == 0 {
		return false
	}
	first, last := &f.ahead[0], &f.ahead[len(f.ahead)-1]
	return first.Seq < f.known || f.bytes > f.most || last.Time-first.Time > int64(maxAhead)
}

func (f *feed) read() error {
	ok, err := f.next(&f.rec)
	if err != nil || !ok {
		f.ended = true
		return err
	}
	e := entry{Record: f.rec}
	e.Payload = bytes.Clone(f.rec.Payload)
	switch f.rec.Type {
	case record.TypeHeartbeat:
		if beat, err := record.ParseBeat(f.rec.Payload); err == nil && beat == record.BeatStart {
			f.proc = nil
			f.known = f.rec.Seq // those of the process before; whether this one logs any is not known
		}
	case record.TypeTicks:
		f.begin()
		f.proc.ticks = true
		_ = record.ParseTicks(f.rec.Payload, func(t record.Tick) { // the replay counts damage when it applies the record
			f.ticks = append(f.ticks, t)
			f.known = max(f.known, t.Folded+1)
		})
	}
	f.begin()
	e.proc = f.proc
	f.ahead = append(f.ahead, e)
	f.bytes += len(e.Payload)
	return nil
}

func (f *feed) begin() {
	if f.proc == nil {
		f.proc = &process{}
	}
}
