package engine

import (
	"errors"
	"time"

	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/wal"
)

// heartbeat writes a heartbeat if nothing else was written for long enough.
//
// Heartbeats distinguish an idle engine from one that was down: the fold takes the time between two records as
// observed only if it is short.
func (c *committer) heartbeat() error {
	if time.Since(c.wrote) < c.e.opt.Heartbeat {
		return nil
	}
	return c.beat(record.BeatTick)
}

// beat writes a heartbeat. With a full disk or a wrong clock it writes no heartbeat, which is not an error: coverage
// then shows the gap.
//
// An error is fatal, as from control.
func (c *committer) beat(kind record.Beat) error {
	at, ok := c.now()
	if !ok {
		return nil
	}
	if err := c.open(at); err != nil || !c.opened {
		return err
	}
	_, err := c.control(at, wal.Pending{Time: at, Type: record.TypeHeartbeat, Payload: []byte{byte(kind)}})
	return err
}

// start writes the start records. With a full disk or a wrong clock they are written later, before anything else.
func (c *committer) start() error {
	at, ok := c.now()
	if !ok {
		return nil
	}
	return c.open(at)
}

// open writes the records with which every start begins, unless they are written. On a full disk each group tries
// again.
func (c *committer) open(at int64) (err error) {
	if c.opened {
		return nil
	}
	c.e.opt.CrashPoint(CrashBeforeStartRecords)
	records := []wal.Pending{{Time: at, Type: record.TypeHeartbeat, Payload: []byte{byte(record.BeatStart)}}}
	if c.config != nil {
		records = append(records, wal.Pending{Time: at, Type: record.TypeConfig, Payload: c.config})
	}
	// The configuration is the last of the start records, so its number is that of the last one. Without a
	// configuration it is that of the heartbeat, which is as good a bound for Forget.
	c.opened, err = c.control(at, records...)
	if c.opened {
		c.configured = c.pending[len(records)-1].Seq
	}
	return err
}

// control writes records without a sender. The error is fatal.
//
// It uses pending, so it must not be called while a group is being decided about. admission calls it before that,
// through open.
func (c *committer) control(at int64, records ...wal.Pending) (written bool, err error) {
	c.pending = append(c.pending[:0], records...)
	err = c.append(at)
	if err == nil || isFatalAppend(err) {
		return err == nil, err
	}
	_ = c.troubled(err) // no sender waits for it
	return false, nil
}

// troubled notes that the log could not be written, and returns the answer for senders.
//
// A full disk is reported to the guard at once, which then refuses events without waiting for its next check.
func (c *committer) troubled(err error) *UnavailableError {
	c.e.troubles[troubleLog].Note(err)
	switch {
	case errors.Is(err, wal.ErrNoSpace):
		c.e.disk.full()
		return ErrDiskFull
	case errors.Is(err, wal.ErrNoFiles):
		return ErrNoFiles
	}
	return ErrWriteFailed
}
