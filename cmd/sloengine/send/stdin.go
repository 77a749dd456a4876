package send

import (
	"context"
	"io"
)

// interruptible makes reads from r end with ctx. A terminal or a pipe may block
// for ever; the goroutine that waits for it then stays until the process ends.
func interruptible(ctx context.Context, r io.Reader) io.Reader {
	return &interruptibleReader{ctx: ctx, r: r, chunks: make(chan chunk), resume: make(chan struct{}, 1)}
}

type chunk struct {
	data []byte
	err  error
}

type interruptibleReader struct {
	ctx     context.Context
	r       io.Reader
	started bool
	chunks  chan chunk
	resume  chan struct{} // the last chunk was used up
	rest    []byte
	err     error
}

func (i *interruptibleReader) Read(p []byte) (int, error) {
	if len(i.rest) == 0 && i.err == nil {
		if !i.started {
			i.started = true
			go i.pump()
		} else {
			i.resume <- struct{}{}
		}
		select {
		case c := <-i.chunks:
			i.rest, i.err = c.data, c.err
		case <-i.ctx.Done():
			i.err = context.Cause(i.ctx)
		}
	}
	n := copy(p, i.rest)
	i.rest = i.rest[n:]
	if n > 0 {
		return n, nil
	}
	return 0, i.err
}

func (i *interruptibleReader) pump() {
	buf := make([]byte, 64<<10)
	for {
		n, err := i.r.Read(buf)
		select {
		case i.chunks <- chunk{buf[:n], err}:
		case <-i.ctx.Done():
			return
		}
		if err != nil {
			return
		}
		select {
		case <-i.resume:
		case <-i.ctx.Done():
			return
		}
	}
}
