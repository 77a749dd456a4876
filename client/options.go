package client

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/client/post"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/retry"
)

// Compression of request bodies.
type Compression = post.Compression

// The compressions. Bodies below 1 KiB are sent as they are.
const (
	Gzip = post.Gzip
	Zstd = post.Zstd
	None = post.None
)

// Options of a Client. Only URL is required.
type Options struct {
	// URL of the server, such as https://slo.example.com; /api/v1/events is added.
	URL string
	// Token is the bearer token, TokenFile a file that holds it. The file is read
	// again when it has changed. At most one of the two.
	Token, TokenFile string
	// Service is that of events without one.
	Service string

	// HTTPClient makes the requests. Default: one of its own, with HTTP/2, the proxy
	// of the environment, and TLS below; it doesn't follow redirects.
	HTTPClient *http.Client
	TLS        *tls.Config // of the own HTTP client; nil: the system's roots

	// A request carries at most BatchEvents events (default 500, at most 10,000) and
	// about BatchBytes of JSON (default 256 KiB, at most 8 MiB). SendAsync's events
	// wait for company at most BatchWait (default 200 ms).
	BatchEvents int
	BatchBytes  int
	BatchWait   time.Duration
	Compression Compression // default Gzip

	// QueueEvents and QueueBytes bound what is in memory, in events (default 50,000)
	// and in bytes of JSON (default 16 MiB).
	QueueEvents int
	QueueBytes  int
	// Senders is how many requests the queue sends at a time. Default 2.
	Senders int
	// MaxInFlight bounds all requests at a time, Send's included. Default 32.
	MaxInFlight int

	// Timeout is the longest that Send takes if its context has no earlier deadline.
	// Default 2 s.
	Timeout time.Duration
	// RequestTimeout ends a request of the queue or the spool. Default 10 s.
	RequestTimeout time.Duration

	// Retry is about the attempts after the first.
	Retry retry.Options
	// Breaker stops requests to a server that keeps failing. Its times are shorter
	// than that package's defaults, since what it holds back is kept: it stays open
	// for 5 s. Its name is "client" unless set.
	Breaker breaker.Options

	// Spool keeps events on disk while the server is unavailable.
	Spool SpoolOptions

	// FailClosed makes Send return errors instead of keeping the events for later.
	// The default is to fail open. FailOnError decides for one context.
	FailClosed bool

	Metrics *Metrics     // nil: counted, but not exported
	Logger  *slog.Logger // default slog.Default()
	// OnError is told about each event that is lost. It must not block and must not
	// use the client; a panic in it is swallowed.
	OnError func(Failure)
}

// SpoolOptions say where events wait for the server.
type SpoolOptions struct {
	// Dir is a folder for this process alone; made if missing. "" is no spool.
	Dir string
	// MaxBytes is the most disk space it takes. Default 64 MiB, at least 1 MiB.
	MaxBytes int64
	// EventsPerSecond is how fast it is sent once the server is back, so that the
	// applications of a fleet don't run it over. Default 5000.
	EventsPerSecond int

	fs fsys.FS // of tests
}

const (
	// leastCompressed is the size below which compression is not worth it, in bytes.
	leastCompressed = 1 << 10
	// maxEventBytes is far more than a server takes for one event.
	maxEventBytes  = 1 << 20
	maxBatchBytes  = 8 << 20
	maxBatchEvents = 10_000
	minSpoolBytes  = 1 << 20
)

func (o *Options) applyDefaults() {
	o.BatchEvents = cmp.Or(o.BatchEvents, 500)
	o.BatchBytes = cmp.Or(o.BatchBytes, 256<<10)
	o.BatchWait = cmp.Or(o.BatchWait, 200*time.Millisecond)
	o.Compression = cmp.Or(o.Compression, Gzip)
	o.QueueEvents = cmp.Or(o.QueueEvents, 50_000)
	o.QueueBytes = cmp.Or(o.QueueBytes, 16<<20)
	o.Senders = cmp.Or(o.Senders, 2)
	o.MaxInFlight = cmp.Or(o.MaxInFlight, 32)
	o.Timeout = cmp.Or(o.Timeout, 2*time.Second)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, 10*time.Second)
	o.Breaker.Name = cmp.Or(o.Breaker.Name, "client")
	o.Breaker.Consecutive.Open = cmp.Or(o.Breaker.Consecutive.Open, 5*time.Second)
	o.Breaker.Rate.Open = cmp.Or(o.Breaker.Rate.Open, 5*time.Second)
	o.Spool.MaxBytes = cmp.Or(o.Spool.MaxBytes, 64<<20)
	o.Spool.EventsPerSecond = cmp.Or(o.Spool.EventsPerSecond, 5000)
	o.Spool.fs = cmp.Or(o.Spool.fs, fsys.OS())
	o.Metrics = cmp.Or(o.Metrics, NewMetrics(metrics.NewSet()))
	o.Logger = cmp.Or(o.Logger, slog.Default())
}

func (o *Options) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	within := func(what string, v, least, most int) {
		if v < least || v > most {
			bad("invalid %s %d (%d to %d)", what, v, least, most)
		}
	}
	if _, err := o.target(); err != nil {
		errs = append(errs, err)
	}
	if o.Token != "" && o.TokenFile != "" {
		bad("give either Token or TokenFile, not both")
	}
	if o.Service != "" && !event.ValidName(o.Service) {
		bad("invalid service %q (use letters, digits, dots, dashes and underscores)", o.Service)
	}
	if o.HTTPClient != nil && o.TLS != nil {
		bad("TLS has no effect if HTTPClient is set (configure TLS on the HTTPClient)")
	}
	within("BatchEvents", o.BatchEvents, 1, maxBatchEvents)
	within("BatchBytes", o.BatchBytes, 1, maxBatchBytes)
	within("QueueEvents", o.QueueEvents, 1, 1<<30)
	within("QueueBytes", o.QueueBytes, 1, 1<<40)
	within("Senders", o.Senders, 1, 100)
	within("MaxInFlight", o.MaxInFlight, 1, 10_000)
	within("Spool.EventsPerSecond", o.Spool.EventsPerSecond, 1, 1<<30)
	if o.BatchWait < 0 || o.Timeout < 0 || o.RequestTimeout < 0 {
		bad("BatchWait, Timeout and RequestTimeout must be positive")
	}
	if !o.Compression.Valid() {
		bad("invalid compression %q (want gzip, zstd or none)", o.Compression)
	}
	if o.Spool.Dir != "" && o.Spool.MaxBytes < minSpoolBytes {
		bad("invalid Spool.MaxBytes %d (at least %d)", o.Spool.MaxBytes, minSpoolBytes)
	}
	return errors.Join(errs...)
}

// target is where events are posted to.
func (o *Options) target() (string, error) {
	u, err := url.Parse(o.URL)
	switch {
	case err != nil:
		return "", fmt.Errorf("URL: %w", errors.Unwrap(err)) // the text may hold a password
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "", errors.New("URL must begin with http:// or https:// and have a host")
	case u.User != nil:
		return "", errors.New("URL contains a user name (put the token into Token or TokenFile)")
	case u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("URL must not have a query or a fragment")
	}
	if !strings.HasSuffix(u.Path, post.EventsPath) {
		u = u.JoinPath(post.EventsPath)
	}
	return u.String(), nil
}
