package send

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/sloengine/sloengine/web/format"
)

// progress shows how much of the input the server has decided about, if w is a terminal; otherwise nothing is shown.
// What is read but not acknowledged is not progress, nor is the piece that was read last: its lines may not be in a
// batch yet.
type progress struct {
	input, taken atomic.Int64 // bytes that were read without the last piece, and those of them that batches stand for
	last         atomic.Int64 // bytes of that piece

	w     io.Writer // nil: nothing is shown
	total int64     // bytes of the input; -1: unknown
	start time.Time
	mu    sync.Mutex // for the fields below, and w
	done  int64      // bytes that the server has decided about
	drawn time.Time
}

func newProgress(w io.Writer, total int64) *progress {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return &progress{}
	}
	return &progress{w: w, total: total, start: time.Now()}
}

// read notes that n more bytes of the input were read.
func (p *progress) read(n int) { p.input.Add(p.last.Swap(int64(n))) }

// share is how many bytes were read since it was last called: those that the batch stands for that is handed on.
func (p *progress) share() int64 {
	read := p.input.Load()
	return read - p.taken.Swap(read)
}

// sent notes that the server has decided about everything that a batch stands for. The line is drawn at most ten times
// a second.
func (p *progress) sent(n int64) {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += n
	if now := time.Now(); now.Sub(p.drawn) >= 100*time.Millisecond {
		p.drawn = now
		p.draw(now.Sub(p.start))
	}
}

// draw writes the line, with the time that the rest takes at the average speed. A line that cannot be written stops
// nothing.
func (p *progress) draw(took time.Duration) {
	speed := float64(p.done) / max(took.Seconds(), 1e-3) // bytes per second
	text := fmt.Sprintf("%s, %s/s", format.Bytes(p.done), format.Bytes(int64(speed)))
	if p.total > 0 {
		left := time.Duration(float64(p.total-p.done) / max(speed, 1) * float64(time.Second)).Round(time.Second)
		text = fmt.Sprintf("%d%% (%s of %s, %s/s, %s left)", 100*p.done/p.total,
			format.Bytes(p.done), format.Bytes(p.total), format.Bytes(int64(speed)), left)
	}
	_, _ = fmt.Fprintf(p.w, "\r\x1b[Kacknowledged %s", text)
}

// close removes the line. Only a complete input fills it first.
func (p *progress) close(complete bool) {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if complete { // with what was read last, and lines that are no events
		p.done = max(p.done, p.total)
		p.draw(time.Since(p.start))
	}
	_, _ = io.WriteString(p.w, "\r\x1b[K")
}
