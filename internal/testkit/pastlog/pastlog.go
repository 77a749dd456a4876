// Package pastlog writes the log of an engine that ran in the past: its records have receive times of then, which no
// running engine can be given.
package pastlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"path/filepath"
	"time"

	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/wal"
	"github.com/sloengine/sloengine/sla/evaluator"
	"github.com/sloengine/sloengine/slo/spec"
)

// Log is a data directory with nothing but a log.
type Log struct {
	Last time.Time // of the last record
	// Wrote, if set, sees each record.
	Wrote func(r *wal.Record)

	log     *wal.Log
	batch   []byte
	count   int
	pending []wal.Pending // one sync for many
	err     error         // the first
}

// New makes the data directory.
func New(dir string) (*Log, error) {
	if err := engine.DataFormat.Mark(fsys.OS(), dir); err != nil {
		return nil, err
	}
	log, err := wal.Open(wal.Options{FS: fsys.OS(), Dir: filepath.Join(dir, engine.LogDir), RuleType: record.TypeConfig})
	if err != nil {
		return nil, err
	}
	return &Log{log: log}, nil
}

// Write adds a record. Errors are those of Save.
func (l *Log) Write(typ byte, at time.Time, payload []byte) {
	l.pending = append(l.pending, wal.Pending{Time: at.UnixNano(), Type: typ, Payload: bytes.Clone(payload)})
	if len(l.pending) >= 500 {
		l.flush()
	}
	l.Last = at
	if l.Wrote != nil {
		l.Wrote(&wal.Record{Type: typ, Time: at.UnixNano(), Payload: payload})
	}
}

func (l *Log) flush() {
	if len(l.pending) > 0 && l.err == nil {
		l.err = l.log.Append(l.pending)
	}
	l.pending = l.pending[:0]
}

// Save appends what was written to the log, and returns the first error.
func (l *Log) Save() error {
	l.flush()
	return l.err
}

// NextSeq is the number of the next record, once all are saved.
func (l *Log) NextSeq() uint64 { return l.log.NextSeq() }

// Close saves and closes the log.
func (l *Log) Close() error { return errors.Join(l.Save(), l.log.Close()) }

// Beat is a record of an engine that starts, idles or stops.
func (l *Log) Beat(at time.Time, b record.Beat) { l.Write(record.TypeHeartbeat, at, []byte{byte(b)}) }

// Start is the first record of an engine, and its spec.
func (l *Log) Start(at time.Time, sp *spec.Spec) error {
	l.Beat(at, record.BeatStart)
	return l.Spec(at, sp)
}

// Spec is a change of the spec.
func (l *Log) Spec(at time.Time, sp *spec.Spec) error {
	cfg, err := evaluator.Compile(counting.Inputs(sp))
	if err != nil {
		return err
	}
	payload, err := counting.EncodeConfig(cfg, spec.Encode(sp))
	if err != nil {
		return err
	}
	l.Write(record.TypeConfig, at, payload)
	return nil
}

// Event adds an event to the next record of Flush.
func (l *Log) Event(e *event.Event) {
	l.batch = event.AppendBinary(l.batch, e)
	l.count++
}

// Flush writes the events as one request.
func (l *Log) Flush(at time.Time) {
	if l.count == 0 {
		return
	}
	head := append(binary.AppendUvarint(nil, uint64(l.count)), 0)
	l.Write(record.TypeEvents, at, append(head, l.batch...))
	l.batch, l.count = l.batch[:0], 0
}
