package dispatch

import (
	"context"

	"github.com/sloengine/sloengine/reliability/wal"
)

// Source is the log that is dispatched.
type Source interface {
	// NewReader reads from a record on. The error wraps wal.ErrTruncated or
	// wal.ErrAhead if there is no such record.
	NewReader(from uint64) (Reader, error)
	// Wait returns nil once a record after the given one is durable.
	Wait(ctx context.Context, after uint64) error
	// First is the oldest record that is kept, Durable the newest.
	First() uint64
	Durable() uint64
	// SizeFrom is the number of bytes from a record to the end. It may be rough, but
	// must not grow with from.
	SizeFrom(from uint64) int64
}

// Reader is what *wal.Reader does.
type Reader interface {
	Next(rec *wal.Record) (ok bool, err error)
	Close() error
}

type logSource struct {
	*wal.Log
	size func(from uint64) int64
}

// FromLog makes a Source of a log. sizeFrom may be nil: then the size is estimated from
// the share of the records.
func FromLog(l *wal.Log, sizeFrom func(from uint64) int64) Source { return &logSource{l, sizeFrom} }

func (s *logSource) NewReader(from uint64) (Reader, error) {
	r, err := s.Log.NewReader(from)
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (s *logSource) First() uint64   { return s.FirstSeq() }
func (s *logSource) Durable() uint64 { return s.DurableSeq() }

func (s *logSource) SizeFrom(from uint64) int64 {
	if s.size != nil {
		return s.size(from)
	}
	first, next := s.FirstSeq(), s.NextSeq()
	if from >= next || first >= next {
		return 0
	}
	bytes, _ := s.Size()
	return int64(float64(bytes) * float64(next-max(from, first)) / float64(next-first))
}
