package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sloengine/sloengine/client/post"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/retry"
	"github.com/sloengine/sloengine/reliability/wal"
)

// siteSpoolDir: the folder of the spool and its parents, before something goes in.
const siteSpoolDir fsys.Site = "client.spool.dir"

const (
	cursorFile = "cursor"
	// saveEvery is how often the cursor is written while there is more to send. What
	// was sent since is sent again after a crash, and recognised by its ids.
	saveEvery = time.Second
)

// replay sends the spool, oldest first, until ctx has ended.
func (c *Client) replay(ctx context.Context) {
	for {
		l := c.spool.opened(ctx)
		if l == nil {
			return
		}
		if err := c.replayLog(ctx, l); err != nil && ctx.Err() == nil && !errors.Is(err, wal.ErrClosed) {
			c.spool.fail(l, err)
		}
	}
}

func (c *Client) replayLog(ctx context.Context, l *spoolLog) error {
	r, err := l.log.NewReader(l.next)
	if err != nil {
		return err
	}
	defer r.Close()
	var next time.Time // not to be sent before
	last := l.next - 1
	for {
		if err := l.log.Wait(ctx, last); err != nil {
			return err
		}
		b, cost, seq, err := c.gather(r)
		if err != nil {
			return err
		}
		if seq == 0 {
			continue
		}
		if !retry.Sleep(ctx, time.Until(next)) {
			return ctx.Err()
		}
		if err := c.replayBatch(ctx, b); err != nil {
			return err
		}
		next = time.Now().Add(time.Duration(b.Len()) * time.Second / time.Duration(c.o.Spool.EventsPerSecond))
		last = seq
		if err := c.spool.advance(l, seq+1, cost); err != nil {
			return err
		}
	}
}

// gather reads records until they make a batch. seq is the last one, 0 if there was none.
func (c *Client) gather(r *wal.Reader) (b *batch, cost int64, seq uint64, err error) {
	b = &batch{}
	for b.Len() < c.o.BatchEvents && len(b.Body) < c.o.BatchBytes {
		var rec wal.Record
		ok, err := r.Next(&rec)
		if err != nil {
			return nil, 0, 0, err
		}
		if !ok {
			break
		}
		cost += costOf(&rec)
		seq = rec.Seq
		if rec.Type == recordEvents { // there are no others
			addLines(b, rec.Payload, FromSpool)
		}
	}
	return b, cost, seq, nil
}

// replayBatch sends b, however long that takes.
func (c *Client) replayBatch(ctx context.Context, b *batch) error {
	var wait time.Duration
	for n := 0; b != nil && b.Len() > 0; n++ {
		if err := c.d.ready(ctx); err != nil {
			return err
		}
		rest, err := c.deliver(ctx, b)
		b = rest
		switch {
		case rest == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, post.ErrSomeLater):
			// The server works and throttles some events. They must not delay
			// those behind them.
			if c.spool.put(rest, reopenEvery) == nil {
				return nil
			}
		}
		wait = max(c.d.sender.Policy.Delay(n, wait), 10*time.Millisecond)
		if !retry.Sleep(ctx, wait) {
			return ctx.Err()
		}
	}
	return nil
}

// advance releases the records before next.
func (s *spool) advance(l *spoolLog, next uint64, cost int64) error {
	s.cursorMu.Lock()
	defer s.cursorMu.Unlock()
	if s.current.Load() != l {
		return wal.ErrClosed
	}
	l.next = next
	s.addBacklog(l, -cost)
	if l.backlog.Load() > 0 && time.Since(l.saved) < saveEvery {
		return nil
	}
	return s.save(l)
}

// save writes the cursor and deletes what lies before it. cursorMu is held. A cursor
// that cannot be written only means that some events are sent again after a restart;
// deleting goes on, since it is what a full disk needs.
func (s *spool) save(l *spoolLog) error {
	l.saved = time.Now()
	if err := writeCursor(s.o.fs, s.o.Dir, l.next); err != nil {
		s.log.Warn("spool cursor not written, some events may be sent again", "err", err)
	}
	return l.log.Truncate(l.next)
}

// close closes the folder, when neither run nor a replay is using it any more.
func (s *spool) close() {
	l := s.current.Load()
	if l == nil {
		return
	}
	s.cursorMu.Lock()
	err := s.save(l)
	s.cursorMu.Unlock()
	if err != nil {
		s.log.Warn("spool cleanup failed", "err", err)
	}
	s.closeLog(l)
}

// readCursor reads the number of the first record that was not sent; 0 is the oldest
// there is.
func readCursor(fs fsys.FS, dir string) (uint64, error) {
	names, err := fs.List(dir)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		if name != cursorFile {
			continue
		}
		f, err := fs.Open(filepath.Join(dir, cursorFile))
		if err != nil {
			return 0, err
		}
		defer f.Close()
		raw, err := io.ReadAll(io.LimitReader(f, 64))
		if err != nil {
			return 0, err
		}
		n, err := strconv.ParseUint(string(bytes.TrimSpace(raw)), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", cursorFile, err)
		}
		return n, nil
	}
	return 0, nil
}

func writeCursor(fs fsys.FS, dir string, next uint64) error {
	return fsys.Replace(fs, filepath.Join(dir, cursorFile), fmt.Appendf(nil, "%d\n", next))
}
