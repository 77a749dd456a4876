package relay

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"golang.org/x/net/http/httpguts"

	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/reliability/retry"
	"github.com/sloengine/sloengine/reliability/secretfile"
)

// Bodies of requests.
const (
	BodyPayload     = "payload"     // one request for each row, with its payload as it is
	BodyCloudEvents = "cloudevents" // one request for a batch of rows, CloudEvents 1.0 in batch mode
)

// HTTPOptions of HTTP.
type HTTPOptions struct {
	URL           string            `yaml:"url" is:"required"` // http or https, without user and fragment
	DeadLetterURL string            // of dead-letter messages, each in a request of its own
	Body          string            `yaml:"body" one:"payload cloudevents"`
	Source        string            `yaml:"source"` // of CloudEvents; "": the topic
	Headers       map[string]string `yaml:"headers"`
	// TokenFile holds a bearer token. A changed file counts at the latest 10 s later.
	TokenFile string `yaml:"token_file" is:"file"`
	HealthURL string `yaml:"health_url"` // asked with GET by Check; "": Check only connects to the host of URL

	TLS             *tls.Config   // nil: the system's roots
	MaxConnections  int           `yaml:"max_connections" min:"1" max:"1000"`
	RequestTimeout  time.Duration `yaml:"request_timeout" min:"100ms" max:"10m"`
	MaxMessageBytes int           `yaml:"max_message_bytes" min:"1KiB" max:"64MiB" is:"size"`
	// Limit is asked before each request to URL. nil: not limited.
	Limit   dispatch.Limiter
	Metrics *metrics.Set // nil: not exported
}

// HTTP posts rows to a web service. A row is accepted by an answer 2xx.
type HTTP struct {
	o       HTTPOptions
	service *remote.Service
	token   *secretfile.File // nil: none
	slots   chan struct{}    // has room for the requests at the same time
	codes   map[int]*metrics.Counter

	start    time.Time
	answered atomic.Int64          // when the last answer came, since start
	blocked  atomic.Pointer[error] // why the receiver refuses everything, as far as the last answer says
}

var _ Publisher = (*HTTP)(nil)

// NewHTTP checks the options and reads the token. It connects to nothing.
func NewHTTP(o HTTPOptions) (*HTTP, error) {
	h := &HTTP{o: o, start: time.Now(), slots: make(chan struct{}, max(o.MaxConnections, 1)),
		codes: map[int]*metrics.Counter{}}
	var errs []error
	check := func(name, raw string) {
		if err := remote.CheckURL(raw, "token_file"); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	check("url", o.URL)
	if o.DeadLetterURL != "" {
		check("dead letter url", o.DeadLetterURL)
	}
	if o.HealthURL != "" {
		check("health_url", o.HealthURL)
	}
	for name, value := range o.Headers {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) ||
			reservedHeaders[strings.ToLower(name)] {
			errs = append(errs, fmt.Errorf("headers: %q is not valid, or set by the relay itself", name))
		}
	}
	if o.TokenFile != "" {
		var err error
		if h.token, err = secretfile.Open(o.TokenFile, remote.CheckHeaderValue); err != nil {
			errs = append(errs, fmt.Errorf("token_file: %w", err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if o.Metrics != nil {
		for code, name := range map[int]string{0: "none", 1: "1xx", 2: "2xx", 3: "3xx", 4: "4xx", 5: "5xx"} {
			h.codes[code] = metric.OutboxHTTPRequests.Counter(o.Metrics, name)
		}
	}
	var err error
	h.service, err = remote.NewService(remote.ServiceOptions{
		URL: o.URL, HealthURL: o.HealthURL, TLS: o.TLS, Connections: cap(h.slots), Headers: h.own,
	})
	return h, err
}

// Publish posts messages. A message waits for the answer about those before it with the same key.
func (h *HTTP) Publish(ctx context.Context, batch []*Message) []Outcome {
	return inTurn(batch, func(part []*Message) []Outcome {
		if h.o.Body == BodyCloudEvents && !part[0].DeadLetter {
			return h.postBatch(ctx, part)
		}
		outcomes := make([]Outcome, len(part))
		var group sync.WaitGroup
		for i, m := range part {
			refused, ok := h.enter(ctx, m.DeadLetter)
			if !ok {
				outcomes[i] = refused
				continue
			}
			group.Go(func() {
				defer h.leave()
				outcomes[i] = h.postRow(ctx, m)
			})
		}
		group.Wait()
		return outcomes
	})
}

// enter waits until a request may be made: for the rate limit, and for one of the MaxConnections. If it is not ok, the
// outcome is that of the rows of the request. Rows that the rate limit leaves no time for are not sent, and keep their
// attempts.
func (h *HTTP) enter(ctx context.Context, deadLetter bool) (Outcome, bool) {
	if h.o.Limit != nil && !deadLetter && h.o.Limit.Wait(ctx, 1) != nil {
		return Outcome{Skipped: true}, false
	}
	select {
	case h.slots <- struct{}{}:
		return Outcome{}, true
	case <-ctx.Done():
		return Outcome{Err: context.Cause(ctx), Away: true}, false
	}
}

func (h *HTTP) leave() { <-h.slots }

// reservedHeaders are headers that a row cannot set, since they are about the connection, the body or the sender.
var reservedHeaders = map[string]bool{
	"authorization": true, "connection": true, "content-length": true, "expect": true, "host": true, "keep-alive": true,
	"proxy-authorization": true, "proxy-connection": true, "te": true, "trailer": true,
	"transfer-encoding": true, "upgrade": true,
	"user-agent": true,
}

func (h *HTTP) postRow(ctx context.Context, m *Message) Outcome {
	to := h.o.URL
	headers := http.Header{}
	headers.Set("Content-Type", contentType(m))
	set := func(name, value string) error {
		if reservedHeaders[strings.ToLower(name)] {
			return nil
		}
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) ||
			strings.TrimSpace(value) != value {
			return retry.Permanent(fmt.Errorf("the header %q cannot be sent over HTTP", remote.Text(name)))
		}
		headers.Set(name, value)
		return nil
	}
	var err error
	if m.DeadLetter {
		to = h.o.DeadLetterURL
	} else {
		err = set("Outbox-Topic", m.Topic)
	}
	if m.Key != "" {
		err = errors.Join(err, set(HeaderKey, m.Key))
	}
	for _, x := range m.Headers {
		err = errors.Join(err, set(x.Name, x.Value))
	}
	if err != nil {
		return Outcome{Err: err}
	}
	r := h.post(ctx, to, m.Payload, headers)
	return Outcome{Err: r.err, Away: r.away}
}

// httpReply is the outcome of a request.
type httpReply struct {
	err    error
	away   bool           // the error is not about the content of the request
	answer *remote.Answer // nil: there was none
}

// post makes a request.
func (h *HTTP) post(ctx context.Context, to string, body []byte, headers http.Header) httpReply {
	ctx, cancel := context.WithTimeout(ctx, h.o.RequestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return httpReply{err: retry.Permanent(err)}
	}
	req.Header = headers
	began := time.Since(h.start)
	a, err := h.service.Do(req)
	if err != nil {
		h.count(0)
		return h.noAnswer(err, began)
	}
	h.count(a.Status / 100)
	h.answered.Store(int64(time.Since(h.start)))
	r := judgeAnswer(a)
	if r.err != nil && retry.ClassOf(r.err) == retry.ClassBlocked {
		if a.Status == http.StatusUnauthorized && h.token != nil {
			h.token.Value(true)
		}
		h.blocked.Store(&r.err)
	} else {
		h.blocked.Store(nil)
	}
	return r
}

func (h *HTTP) own(to http.Header) {
	for name, value := range h.o.Headers {
		to.Set(name, value)
	}
	to.Set("User-Agent", "sloengine-relay")
	if h.token != nil {
		to.Set("Authorization", "Bearer "+string(h.token.Value(false)))
	}
}

func (h *HTTP) count(code int) {
	if c := h.codes[code]; c != nil {
		c.Inc()
	}
}

// noAnswer is a request without an answer. It is about its rows if the receiver has answered another one meanwhile: a
// row whose handling hangs or crashes must not count as an unreachable receiver forever.
func (h *HTTP) noAnswer(err error, began time.Duration) httpReply {
	class := retry.ClassOf(err)
	text := "the receiver is not reachable"
	if tlsText := remote.ExplainTLS(err); tlsText != "" {
		text, class = strings.ReplaceAll(tlsText, "broker", "receiver"), retry.ClassBlocked
	} else if class == retry.ClassTimeout {
		text = "the receiver did not answer in time"
	}
	var dial *net.OpError
	connected := !errors.As(err, &dial) || dial.Op != "dial"
	return httpReply{err: &remote.BrokerError{
		Broker: "http", Kind: remote.KindConnection, Class: class, Text: text, Err: err},
		away: !connected || class == retry.ClassBlocked || time.Duration(h.answered.Load()) <= began}
}

// judgeAnswer turns an answer into an httpReply. An answer about the address, the credentials or the load of the
// receiver is not about the rows.
func judgeAnswer(a *remote.Answer) httpReply {
	class := remote.ClassOf(a.Status)
	away := class == retry.ClassBlocked
	switch a.Status {
	case http.StatusGone:
		class, away = retry.ClassBlocked, true
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		away = true
	case http.StatusConflict: // another request with the same idempotency key is not done
		class = retry.ClassTransient
	}
	return httpReply{a.Err(class), away, a}
}

// Check asks the receiver whether it answers, or connects to it. Credentials or an address that the last request was
// refused for are a failure until another one is accepted.
func (h *HTTP) Check(ctx context.Context) error {
	err := h.service.Check(ctx)
	if answered := (*remote.StatusError)(nil); err != nil && !errors.As(err, &answered) {
		return h.noAnswer(err, 0).err
	}
	if blocked := h.blocked.Load(); err == nil && blocked != nil {
		return *blocked
	}
	return err
}

// MaxBytes is that of the options.
func (h *HTTP) MaxBytes() int { return h.o.MaxMessageBytes }

// Close ends idle connections.
func (h *HTTP) Close() error { return h.service.Close() }
