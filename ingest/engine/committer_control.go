package engine

import (
	"errors"
	"time"

	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/wal"
)

// heartbeat writes a heartbeat if nothing else was written for long enough.
func (c *committer) heartbeat() error {
	if time.Since(c.wrote) < c.e.opt.Heartbeat {
		return nil
	}
	return c.beat(record.BeatTick)
}

// beat writes a heartbeat of that kind. That the disk is full, or the clock
// wrong, is no error: then there is none.
func (c *committer) beat(kind record.Beat) error {
	at, ok := c.clock.Next()
	if !ok {
		return nil
	}
	if err := c.open(at); err != nil || !c.opened {
		return err
	}
	_, err := c.control(at, wal.Pending{Time: at, Type: record.TypeHeartbeat, Payload: []byte{byte(kind)}})
	return err
}

// start opens the log for this run. Where it can't, since the disk is full or
// the clock wrong, that is tried again before anything else is written.
func (c *committer) start() error {
	at, ok := c.clock.Next()
	if !ok {
		return nil
	}
	return c.open(at)
}

// open writes the records that every start begins with, if they are not written
// yet. While the disk is full, that is tried again.
func (c *committer) open(at int64) (err error) {
	if c.opened {
		return nil
	}
	c.e.opt.CrashPoint(CrashBeforeStartRecords)
	records := []wal.Pending{{Time: at, Type: record.TypeHeartbeat, Payload: []byte{byte(record.BeatStart)}}}
	if c.e.opt.Config != nil {
		records = append(records, wal.Pending{Time: at, Type: record.TypeConfig, Payload: c.e.opt.Config})
	}
	c.opened, err = c.control(at, records...)
	if c.opened {
		c.configured = c.pending[len(records)-1].Seq
	}
	return err
}

// control writes records that nobody waits for. The error is a fatal one.
func (c *committer) control(at int64, records ...wal.Pending) (written bool, err error) {
	c.pending = append(c.pending[:0], records...)
	err = c.append(at)
	if err == nil || isFatalAppend(err) {
		return err == nil, err
	}
	_ = c.troubled(err) // there is no sender to tell
	return false, nil
}

// troubled notes that the log could not be written now, and returns what senders are told.
func (c *committer) troubled(err error) *UnavailableError {
	c.e.troubles[troubleLog].failed(err)
	switch {
	case errors.Is(err, wal.ErrNoSpace):
		c.e.disk.full()
		return ErrDiskFull
	case errors.Is(err, wal.ErrNoFiles):
		return ErrNoFiles
	}
	return ErrWriteFailed
}
