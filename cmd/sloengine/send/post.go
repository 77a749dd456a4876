package send

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/retry"
)

// answer is what a server says about a request, also inside a problem.
type answer struct {
	Received        int               `json:"received"`
	Accepted        int               `json:"accepted"`
	Duplicates      int               `json:"duplicates"`
	Limited         int               `json:"limited"`
	Sampled         int               `json:"sampled"`
	DeadLettered    int               `json:"dead_lettered"`
	Rejected        int               `json:"rejected"`
	Errors          []event.ItemError `json:"errors"`
	ErrorsTruncated bool              `json:"errors_truncated"`

	Title  string `json:"title"`
	Detail string `json:"detail"`
	Code   string `json:"code"`
}

// ServerError is an answer after which sending more makes no sense.
type ServerError struct {
	Status int
	Reason string
}

func (e *ServerError) Error() string {
	return fmt.Sprintf("the server answered %d %s: %s", e.Status, http.StatusText(e.Status), e.Reason)
}

// maxAnswerBytes is more than a server's errors_truncated lets an answer be.
const maxAnswerBytes = 4 << 20

// splitErrors is how many events are sent at a time to learn of all their
// errors, when an answer left some out: a server lists at least so many.
const splitErrors = 100

var (
	errTooLarge  = errors.New("the server finds the request too large")
	errSomeLater = errors.New("the server wants some events again later")
)

// poster posts batches. It is safe for concurrent use.
type poster struct {
	client   *http.Client
	url      string
	token    string
	encoding string
	timeout  time.Duration
	policy   *retry.Policy
	result   *result
	retries  atomic.Int64
	zstd     *zstd.Encoder // EncodeAll is safe for concurrent use
}

func newPoster(o *Options, res *result) (*poster, error) {
	target, err := o.target()
	if err != nil {
		return nil, err
	}
	token, err := o.token()
	if err != nil {
		return nil, err
	}
	if host := target.Hostname(); token != "" && target.Scheme == "http" && host != "localhost" && host != "127.0.0.1" && host != "::1" {
		o.Logger.Warn("the token is sent unencrypted; use https", "server", o.Server)
	}
	p := &poster{client: o.Client, url: target.String(), token: token, encoding: o.Encoding, timeout: o.Timeout, result: res}
	if o.Encoding == "zstd" {
		if p.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(o.Concurrency), zstd.WithEncoderLevel(zstd.SpeedFastest)); err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
	}
	retries := o.MaxRetries
	if retries == 0 {
		retries = retry.Unlimited
	}
	p.policy, err = retry.New(retry.Options{MaxRetries: retries, MaxElapsed: o.RetryFor, OnRetry: p.onRetry(o.Logger)})
	return p, err
}

// onRetry says that the server is unavailable, but not at every attempt.
func (p *poster) onRetry(log *slog.Logger) func(int, time.Duration, error) {
	var next atomic.Int64
	return func(n int, wait time.Duration, err error) {
		p.retries.Add(1)
		now := time.Now().UnixNano()
		if due := next.Load(); now >= due && next.CompareAndSwap(due, now+int64(5*time.Second)) {
			log.Warn("sending again", "attempt", n+2, "wait", wait.Round(time.Millisecond), "err", err)
		}
	}
}

// deliver posts b until every event of it is decided, or gives up with the reason.
func (p *poster) deliver(ctx context.Context, b *batch) error {
	pending := b
	err := p.policy.Do(ctx, func(ctx context.Context, _ int) error {
		a, err := p.post(ctx, pending)
		if err != nil {
			return err
		}
		later, err := p.resolve(ctx, pending, a)
		if err != nil {
			return retry.Permanent(err)
		}
		if later == nil {
			return nil
		}
		pending = later
		return errSomeLater
	})
	if !errors.Is(err, errTooLarge) {
		return err
	}
	if n := len(pending.items); n > 1 {
		if err := p.deliver(ctx, pending.span(0, n/2)); err != nil {
			return err
		}
		return p.deliver(ctx, pending.span(n/2, n))
	}
	p.result.count(func(s *Summary) { s.Sent++; s.Rejected++ })
	return p.result.reject(rejection{item: pending.items[0], Code: "body_too_large", Detail: errTooLarge.Error()})
}

// resolve counts what the answer decides and returns the events to send again,
// nil if there are none.
func (p *poster) resolve(ctx context.Context, b *batch, a *answer) (later *batch, err error) {
	if a.ErrorsTruncated && len(b.items) > splitErrors {
		return nil, p.resolveInParts(ctx, b, a)
	}
	var again []int
	for i := range a.Errors {
		e := &a.Errors[i]
		if e.Index < 0 || e.Index >= len(b.items) {
			return nil, fmt.Errorf("the server names event %d of %d", e.Index, len(b.items))
		}
		if e.Retryable {
			again = append(again, e.Index)
			continue
		}
		if err := p.result.reject(rejection{item: b.items[e.Index], ID: e.ID, Code: string(e.Code), Detail: e.Detail}); err != nil {
			return nil, err
		}
	}
	p.result.count(func(s *Summary) {
		s.Sent += a.Received - len(again)
		s.Accepted += a.Accepted
		s.Duplicates += a.Duplicates
		s.Limited += a.Limited
		s.Sampled += a.Sampled
		s.DeadLettered += a.DeadLettered
		s.Rejected += a.Rejected - len(again)
	})
	if len(again) == 0 {
		return nil, nil
	}
	return b.pick(again), nil
}

// resolveInParts learns of the errors that an answer had no room for, by sending
// the batch again in parts. Every event has an id, so what the first answer
// accepted comes back as a duplicate and is counted as accepted in the end.
func (p *poster) resolveInParts(ctx context.Context, b *batch, a *answer) error {
	for i := 0; i < len(b.items); i += splitErrors {
		if err := p.deliver(ctx, b.span(i, min(i+splitErrors, len(b.items)))); err != nil {
			return err
		}
	}
	p.result.count(func(s *Summary) {
		s.Accepted += a.Accepted
		s.Duplicates -= a.Accepted
	})
	return nil
}

// post makes one request. Errors that pass are returned as they are (with
// Retry-After, if the server named one), others marked permanent.
func (p *poster) post(ctx context.Context, b *batch) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	body, err := p.encode(b.body)
	if err != nil {
		return nil, retry.Permanent(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return nil, retry.Permanent(err)
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	req.Header.Set("User-Agent", "sloengine-send")
	if p.encoding != "none" {
		req.Header.Set("Content-Encoding", p.encoding)
	}
	if p.token != "" {
		req.Header.Set("Authorization", "Bearer "+p.token)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, passing(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if err != nil {
		return nil, passing(fmt.Errorf("read the answer: %w", err))
	}
	p.result.count(func(s *Summary) { s.Requests++; s.WireBytes += int64(len(body)) })
	return p.judge(resp, data, len(b.items))
}

// passing hides that it was the request's own timeout that ended it, which
// unlike the end of the caller's context passes.
func passing(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer in time: %s", err.Error())
	}
	return err
}

func (p *poster) judge(resp *http.Response, data []byte, sent int) (*answer, error) {
	a := &answer{}
	parsed := json.Unmarshal(data, a)
	switch resp.StatusCode {
	case http.StatusAccepted, http.StatusUnprocessableEntity:
		if parsed != nil {
			return nil, fmt.Errorf("the answer is not what a server of this kind answers: %w", parsed)
		}
		if a.Received != sent || a.Received != a.Accepted+a.Duplicates+a.Limited+a.Sampled+a.DeadLettered+a.Rejected {
			return nil, retry.Permanent(fmt.Errorf("the answer does not add up: %d events sent, %s", sent, excerpt(data)))
		}
		return a, nil
	case http.StatusRequestEntityTooLarge:
		return nil, retry.Permanent(errTooLarge)
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		err := error(&ServerError{resp.StatusCode, reason(a, parsed, data)})
		if after, ok := retry.ParseRetryAfter(resp.Header.Get("Retry-After"), time.Now()); ok {
			err = retry.After(err, after)
		}
		return nil, err
	default:
		return nil, retry.Permanent(&ServerError{resp.StatusCode, reason(a, parsed, data)})
	}
}

func reason(a *answer, parsed error, data []byte) string {
	switch {
	case parsed == nil && a.Detail != "":
		return a.Detail
	case parsed == nil && a.Title != "":
		return a.Title
	default:
		return "is this a sloengine server? " + excerpt(data)
	}
}

func excerpt(data []byte) string {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(data[:min(len(data), 200)]), "")), " ")
	return fmt.Sprintf("%q", text)
}

func (p *poster) encode(body []byte) ([]byte, error) {
	switch p.encoding {
	case "gzip":
		var out bytes.Buffer
		w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		if _, err := w.Write(body); err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		if err := w.Close(); err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		return out.Bytes(), nil
	case "zstd":
		return p.zstd.EncodeAll(body, nil), nil
	}
	return body, nil
}

func (p *poster) close() {
	p.client.CloseIdleConnections()
	if p.zstd != nil {
		_ = p.zstd.Close()
	}
}
