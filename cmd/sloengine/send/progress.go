package send

import (
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows how much of the input the server has decided about, if w is a terminal; otherwise nothing is shown.
// What is read but not acknowledged is not progress, nor is the piece that was read last: its lines may not be in a
// batch yet.
type progress struct {
	bar          *progressbar.ProgressBar
	input, taken atomic.Int64 // bytes that were read without the last piece, and those of them that batches stand for
	last         atomic.Int64 // bytes of that piece
}

func newProgress(w io.Writer, total int64) *progress {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return &progress{}
	}
	return &progress{bar: progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription("acknowledged"),
		progressbar.OptionShowBytes(true),
		progressbar.OptionShowCount(),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionUseANSICodes(false),
		progressbar.OptionEnableColorCodes(false),
		progressbar.OptionSetPredictTime(total > 0),
		progressbar.OptionClearOnFinish(),
	)}
}

// read notes that n more bytes of the input were read.
func (p *progress) read(n int) { p.input.Add(p.last.Swap(int64(n))) }

// share is how many bytes were read since it was last called: those that the batch stands for that is handed on.
func (p *progress) share() int64 {
	read := p.input.Load()
	return read - p.taken.Swap(read)
}

// sent notes that the server has decided about everything that a batch stands for.
func (p *progress) sent(n int64) {
	if p.bar != nil {
		_ = p.bar.Add64(n) // a bar that cannot be drawn stops nothing
	}
}

// close removes the bar. Only a complete input fills it first.
func (p *progress) close(complete bool) {
	switch {
	case p.bar == nil:
	case complete: // with what was read last, and lines that are no events
		_ = p.bar.Finish()
	default:
		_ = p.bar.Clear()
	}
}
