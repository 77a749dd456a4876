// Package post posts batches of events to a sloengine server and finds out what became of each event: one request with
// its token, compression and deadline (Poster), and a batch until every event of it is decided (Sender). The client
// library and the commands that send events share it.
//
// The package does not know where events come from, nor what happens to those that the server does not accept. It has
// no queue, no spool and no breaker.
package post

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/deadline"
	"github.com/sloengine/sloengine/reliability/retry"
)

// EventsPath is the path of the API that accepts events.
const EventsPath = "/api/v1/events"

// Compression of request bodies.
type Compression string

// The compressions.
const (
	Gzip Compression = "gzip"
	Zstd Compression = "zstd"
	None Compression = "none"
)

// Valid reports whether c is one of the constants.
func (c Compression) Valid() bool { return c == Gzip || c == Zstd || c == None }

const (
	// maxAnswerBytes is more than a server's errors_truncated lets an answer be.
	maxAnswerBytes = 4 << 20
	// clocksDiffer is how long no deadline is sent after a server said that one had passed
	// that had not.
	clocksDiffer = 10 * time.Minute
)

var errNewToken = retry.WithClass(errors.New("the token file changed after the server refused the token"),
	retry.ClassOverload)

// Options of a Poster.
type Options struct {
	URL       string // complete, with EventsPath
	UserAgent string
	// Token is the bearer token, TokenFile a file that holds it and is read again when it
	// changes. TokenFile wins.
	Token, TokenFile string

	// HTTPClient makes the requests. nil: one of the poster's own, which uses TLS and
	// does not follow redirects.
	HTTPClient *http.Client
	TLS        *tls.Config
	// MaxInFlight is how many requests there are at a time at most. It bounds idle
	// connections and encoders, not the requests.
	MaxInFlight int

	Compression Compression
	// CompressFrom is the size of the smallest body that is compressed, in bytes.
	CompressFrom int
	// Deadline sends the deadline of a request's context along, so that the server does
	// not begin a request that has timed out here.
	Deadline bool
	// Answered is called for each answer, of whatever status: how long it took and how
	// many bytes the request's body had on the wire. It may be nil.
	Answered func(took time.Duration, wireBytes int)
}

// Poster makes single requests. It is safe for concurrent use.
type Poster struct {
	o     Options
	own   bool // the HTTP client is ours
	token token
	zstd  *zstd.Encoder // EncodeAll is safe for concurrent use
	gzips sync.Pool

	started    time.Time
	noDeadline atomic.Int64 // until then no deadline is sent, nanoseconds since started
}

// New opens the token file. It connects to nothing.
func New(o Options) (*Poster, error) {
	t, err := openToken(&o)
	if err != nil {
		return nil, err
	}
	p := &Poster{started: time.Now(), o: o, own: o.HTTPClient == nil, token: t}
	if p.own {
		p.o.HTTPClient = newHTTPClient(&o)
	}
	p.gzips.New = func() any {
		w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // a valid level
		return w
	}
	if o.Compression == Zstd {
		p.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(max(o.MaxInFlight, 1)),
			zstd.WithEncoderLevel(zstd.SpeedFastest))
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
	}
	return p, nil
}

func newHTTPClient(o *Options) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			TLSClientConfig:     o.TLS.Clone(),
			TLSHandshakeTimeout: 5 * time.Second,
			ForceAttemptHTTP2:   true,
			MaxIdleConns:        o.MaxInFlight,
			MaxIdleConnsPerHost: o.MaxInFlight,
			IdleConnTimeout:     90 * time.Second,
		},
		// A redirected POST would become a GET. The error names the address to use.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// HasToken reports whether requests carry a token.
func (p *Poster) HasToken() bool { return p.token.header(false) != "" }

// Post makes one request of n events, NDJSON. With a nil error the answer is about exactly these.
func (p *Poster) Post(ctx context.Context, lines []byte, n int) (*Answer, error) {
	return p.post(ctx, p.o.URL, lines, n)
}

// Backfill makes one request of n events of the past, as Post does. They are all events of their services in the times
// of covers, of which the first event.MaxCovers are sent. Options.URL must have no query.
func (p *Poster) Backfill(ctx context.Context, lines []byte, n int, covers []event.Span) (*Answer, error) {
	q := url.Values{"backfill": {"true"}}
	for _, sp := range covers[:min(len(covers), event.MaxCovers)] {
		from, to := time.Unix(0, sp.From).UTC(), time.Unix(0, sp.To).UTC()
		q.Add("covers", from.Format(time.RFC3339Nano)+"/"+to.Format(time.RFC3339Nano))
	}
	return p.post(ctx, p.o.URL+"?"+q.Encode(), lines, n)
}

func (p *Poster) post(ctx context.Context, target string, lines []byte, n int) (*Answer, error) {
	body, encoding := p.encode(lines)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return nil, retry.Permanent(err)
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	req.Header.Set("User-Agent", p.o.UserAgent)
	if encoding != None {
		req.Header.Set("Content-Encoding", string(encoding))
	}
	sent := p.token.header(false)
	if sent != "" {
		req.Header.Set("Authorization", sent)
	}
	if p.o.Deadline && int64(time.Since(p.started)) >= p.noDeadline.Load() {
		deadline.Set(req.Header, ctx)
	}
	began := time.Now()
	resp, err := p.o.HTTPClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if p.o.Answered != nil {
		p.o.Answered(time.Since(began), len(body))
	}
	a, err := judge(resp, data, n)
	if status, ok := errors.AsType[*StatusError](err); ok {
		switch {
		case status.DeadlinePassed() && ctx.Err() == nil:
			// It had not: the clocks differ. Better no deadline than a wrong one.
			p.noDeadline.Store(int64(time.Since(p.started) + clocksDiffer))
		case status.Status == http.StatusUnauthorized && p.token.header(true) != sent:
			return nil, errNewToken
		}
	}
	return a, err
}

// Copies reports whether a request with this body sends a copy of it, so that the body may be changed afterwards.
// net/http may go on reading a body for a while after the request has ended.
func (p *Poster) Copies(body []byte) bool {
	return p.o.Compression != None && len(body) >= p.o.CompressFrom
}

func (p *Poster) encode(body []byte) ([]byte, Compression) {
	switch {
	case !p.Copies(body):
		return body, None
	case p.o.Compression == Zstd:
		return p.zstd.EncodeAll(body, make([]byte, 0, len(body)/4)), Zstd
	}
	var out bytes.Buffer // writing to it does not fail
	out.Grow(len(body) / 4)
	w := p.gzips.Get().(*gzip.Writer)
	defer p.gzips.Put(w)
	w.Reset(&out)
	_, _ = w.Write(body)
	_ = w.Close()
	return out.Bytes(), Gzip
}

// Close releases connections of the poster's own and encoders.
func (p *Poster) Close() {
	if p.own {
		p.o.HTTPClient.CloseIdleConnections()
	}
	if p.zstd != nil {
		_ = p.zstd.Close()
	}
}
