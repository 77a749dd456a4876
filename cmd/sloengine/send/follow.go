package send

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/sloengine/sloengine/reliability/retry"
)

// follower reads a file that grows, like tail -F. It polls: that works on every
// file system and through every way of rotation.
//
// next gives the contents one file at a time; a rotated or truncated file is the
// end of one and the beginning of the next, so that positions start from zero.
type follower struct {
	name string
	poll time.Duration
	file *os.File
}

// next waits for the file to exist and opens it from its beginning. It fails
// only with the error of ctx or with one that waiting does not cure.
func (f *follower) next(ctx context.Context) (io.Reader, error) {
	for {
		if info, err := os.Stat(f.name); err == nil && !info.Mode().IsRegular() { // opening a FIFO may wait for ever
			return nil, fmt.Errorf("follow %s: not a regular file", f.name)
		}
		file, err := os.Open(f.name)
		switch {
		case err == nil:
			f.file = file
			return &generation{ctx: ctx, follower: f, file: file}, nil
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("follow: %w", err)
		}
		if !retry.Sleep(ctx, f.poll) {
			return nil, context.Cause(ctx)
		}
	}
}

func (f *follower) close() {
	if f.file != nil {
		_ = f.file.Close()
		f.file = nil
	}
}

// generation reads one file of a follower's name. Read blocks at the end of the
// file until there is more; io.EOF means that it was replaced or truncated, or
// that ctx ended.
type generation struct {
	ctx      context.Context
	follower *follower
	file     *os.File
	offset   int64
	replaced bool // another file has the name; this one is read to its end
}

func (g *generation) Read(p []byte) (int, error) {
	for {
		if g.truncated() {
			return 0, g.end()
		}
		n, err := g.file.Read(p)
		g.offset += int64(n)
		if n > 0 {
			return n, nil
		}
		if err != nil && err != io.EOF {
			return 0, fmt.Errorf("follow %s: %w", g.follower.name, err)
		}
		if g.replaced {
			return 0, g.end()
		}
		// Whoever rotates may still write to the old file for a moment, so it
		// is read once more after the replacement was seen.
		g.replaced = g.isReplaced()
		if !retry.Sleep(g.ctx, g.follower.poll) {
			// Not io.EOF: the line being written is not the file's last.
			_ = g.end()
			return 0, context.Cause(g.ctx)
		}
	}
}

func (g *generation) end() error {
	g.follower.close()
	return io.EOF
}

// truncated reports whether the file is shorter than what was read of it.
func (g *generation) truncated() bool {
	info, err := g.file.Stat()
	return err == nil && info.Size() < g.offset
}

// isReplaced reports whether the name now means another file. A missing file is
// one about to be replaced: wait for its successor.
func (g *generation) isReplaced() bool {
	named, err := os.Stat(g.follower.name)
	if err != nil {
		return false
	}
	open, err := g.file.Stat()
	return err == nil && !os.SameFile(named, open)
}
