package send

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"time"

	"github.com/sloengine/sloengine/client/post"
)

// Options of Run. A zero field takes the default given with it.
type Options struct {
	Server *url.URL // base URL; http://127.0.0.1:8080
	Files  []string // "-" is Stdin; Stdin if empty. gzip and zstd are recognised by their first bytes

	Format string // auto, or one of Formats; auto
	ParserOptions

	Follow   bool // keep reading as the files grow, through rotation and truncation
	Backfill bool // take events of any age (?backfill=true)
	Shift    bool // move all times by whole hours, so that the newest lies within the last hour

	Token, TokenFile string // the bearer token, or the file that holds it, which wins

	BatchEvents int              // per request; 1000
	BatchWait   time.Duration    // that an event waits for its batch to fill; 1s
	Encoding    post.Compression // of requests; gzip
	Concurrency int              // concurrent requests; 2
	Timeout     time.Duration    // of one request; 30s

	MaxRetries int           // per batch; 0 is no limit
	RetryFor   time.Duration // per batch; 0 is no limit

	Rejects   string // file for the lines that were rejected, as NDJSON with the reason; none
	MaxErrors int    // listed in the summary; 10
	Output    string // of the summary: table or json; table

	Stdin  io.Reader // os.Stdin
	Stdout io.Writer // for the summary; os.Stdout
	Stderr io.Writer // for the progress bar, if it is a terminal; os.Stderr
	Logger *slog.Logger
	Now    func() time.Time // time.Now

	// Poll is how often a followed file is looked at; 250ms.
	Poll time.Duration
	// Grace is how long batches already read may take once the context ended; 5s.
	Grace time.Duration
}

// maxBatchBytes bounds a batch before compression, well below what a server takes.
const maxBatchBytes = 4 << 20

// UsageError is an option that cannot work.
type UsageError struct{ Reason string }

func (e *UsageError) Error() string { return e.Reason }

func usage(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

func (o *Options) fill() error {
	o.Format = cmp.Or(o.Format, "auto")
	o.BatchEvents = cmp.Or(o.BatchEvents, 1000)
	o.BatchWait = cmp.Or(o.BatchWait, time.Second)
	o.Encoding = cmp.Or(o.Encoding, post.Gzip)
	o.Concurrency = cmp.Or(o.Concurrency, 2)
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	o.MaxErrors = cmp.Or(o.MaxErrors, 10)
	o.Output = cmp.Or(o.Output, "table")
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.Poll = cmp.Or(o.Poll, 250*time.Millisecond)
	o.Grace = cmp.Or(o.Grace, 5*time.Second)
	if o.Server == nil {
		o.Server = &url.URL{Scheme: "http", Host: "127.0.0.1:8080"}
	}
	if len(o.Files) == 0 {
		o.Files = []string{"-"}
	}
	if o.Stdin == nil {
		o.Stdin = os.Stdin
	}
	if o.Stdout == nil {
		o.Stdout = os.Stdout
	}
	if o.Stderr == nil {
		o.Stderr = os.Stderr
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o.check()
}

func (o *Options) check() error {
	switch {
	case o.BatchEvents < 0 || o.BatchWait < 0 || o.Concurrency < 0 || o.Timeout < 0 || o.MaxRetries < 0 ||
		o.RetryFor < 0 || o.MaxErrors < 0 || o.Poll < 0 || o.Grace < 0:
		return usage("numbers and durations must not be negative")
	case o.BatchEvents > 10_000:
		return usage("invalid --batch %d (want at most 10000 events per request)", o.BatchEvents)
	case o.Concurrency > 64:
		return usage("invalid --concurrency %d (want at most 64)", o.Concurrency)
	case !o.Encoding.Valid():
		return usage("invalid --encoding %q (want gzip, zstd or none)", o.Encoding)
	case o.Output != "table" && o.Output != "json":
		return usage("invalid --output %q (want table or json)", o.Output)
	case o.Shift && o.Follow:
		return usage("--shift and --follow exclude each other, because a log that still grows cannot be shifted")
	}
	seen := map[string]bool{}
	for _, file := range o.Files {
		switch {
		case seen[file]:
			return usage("duplicate file %s", file)
		case file == "-" && o.Shift:
			return usage("--shift reads its input twice and cannot read standard input (write the input to a file first)")
		}
		seen[file] = true
	}
	return nil
}
