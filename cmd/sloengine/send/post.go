package send

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sloengine/sloengine/client/post"
	"github.com/sloengine/sloengine/reliability/retry"
)

// delivery posts batches and counts what became of their events. It is safe for concurrent use.
type delivery struct {
	poster  *post.Poster
	http    *http.Client
	sender  post.Sender[item]
	timeout time.Duration // of one request
	result  *result
	retries atomic.Int64

	backfill bool
}

func newDelivery(o *Options, res *result) (*delivery, error) {
	target := o.Server.JoinPath(post.EventsPath)
	// Its own pool, so that close can end it; no cookies, no global state.
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = o.Concurrency
	d := &delivery{http: &http.Client{
		Transport: transport,
		// the error names the address to use
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, timeout: o.Timeout, result: res, backfill: o.Backfill}
	var err error
	d.poster, err = post.New(post.Options{
		URL: target.String(), UserAgent: "sloengine-send", HTTPClient: d.http, MaxInFlight: o.Concurrency,
		Compression: o.Encoding,
		TokenFile:   o.TokenFile, Token: o.Token,
		Answered: func(_ time.Duration, wireBytes int) {
			res.count(func(s *Summary) { s.Requests++; s.WireBytes += int64(wireBytes) })
		},
	})
	if err != nil {
		return nil, err
	}
	if host := target.Hostname(); d.poster.HasToken() && target.Scheme == "http" && host != "localhost" &&
		host != "127.0.0.1" && host != "::1" {
		o.Logger.Warn("token is sent unencrypted, use https", "server", o.Server.Redacted())
	}
	retries := o.MaxRetries
	if retries == 0 {
		retries = retry.Unlimited
	}
	policy, err := retry.New(
		retry.Options{MaxRetries: retries, MaxElapsed: o.RetryFor, Classify: classify, OnRetry: d.onRetry(o.Logger)})
	d.sender = post.Sender[item]{
		Request: d.request, Policy: policy,
		Divisible: func(e *post.StatusError) bool { return e.Status == http.StatusRequestEntityTooLarge },
	}
	return d, err
}

// classify gives up where a person has to do something: at an address that answers, but is not an engine, too.
func classify(err error) retry.Decision {
	if status, ok := errors.AsType[*post.StatusError](err); ok && status.Status/100 == 2 {
		return retry.Stop
	}
	return retry.ByClass(err)
}

// onRetry logs that the server is unavailable, but not at every attempt.
func (d *delivery) onRetry(log *slog.Logger) func(int, time.Duration, error) {
	var next atomic.Int64
	return func(n int, wait time.Duration, err error) {
		d.retries.Add(1)
		now := time.Now().UnixNano()
		if due := next.Load(); now >= due && next.CompareAndSwap(due, now+int64(5*time.Second)) {
			log.Warn("retrying request", "attempt", n+2, "wait", wait.Round(time.Millisecond), "err", err)
		}
	}
}

func (d *delivery) request(ctx context.Context, b *post.Batch[item]) (*post.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	if d.backfill {
		return d.poster.Backfill(ctx, b.Body, b.Len(), covers(b))
	}
	return d.poster.Post(ctx, b.Body, b.Len())
}

// deliver posts b until every event of it is decided, or gives up with the reason. What was decided until then counts
// in either case.
func (d *delivery) deliver(ctx context.Context, b *post.Batch[item]) error {
	var decided post.Settlement[item]
	_, err := d.sender.Deliver(ctx, b, &decided)
	d.result.count(func(s *Summary) { s.add(&decided.Tally) })
	for _, r := range decided.Refused {
		rejected := rejection{item: r.From, ID: r.ID, Code: string(r.Code), Detail: r.Detail}
		if saveErr := d.result.reject(rejected); saveErr != nil {
			return saveErr
		}
	}
	return err
}

func (d *delivery) close() {
	d.poster.Close()
	d.http.CloseIdleConnections()
}
