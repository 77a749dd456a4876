package httpsink

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/deadline"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/retry"
	"github.com/sloengine/sloengine/reliability/secretfile"
)

// Sink is a dispatch.Sink and a dispatch.Checker; safe for concurrent use.
type Sink struct {
	o       Options
	client  *http.Client
	key     *secretfile.File            // nil: not signed
	secrets map[string]*secretfile.File // by header
	dial    string                      // host:port for the check
}

var (
	_ dispatch.Sink    = (*Sink)(nil)
	_ dispatch.Checker = (*Sink)(nil)
)

// New checks the options and reads the secrets. It connects to nothing.
func New(o Options) (*Sink, error) {
	o.applyDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &Sink{o: o, secrets: map[string]*secretfile.File{}}
	var err error
	var errs []error
	if o.SecretFile != "" {
		if s.key, err = secretfile.Open(o.SecretFile, checkKey); err != nil {
			errs = append(errs, fmt.Errorf("secret: %w", err))
		}
	}
	for name, file := range o.HeaderFiles {
		if s.secrets[name], err = secretfile.Open(file, checkHeaderValue); err != nil {
			errs = append(errs, fmt.Errorf("secret: %w", err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("http sink: %w", err)
	}
	u, err := url.Parse(o.URL) // checked by validate
	if err != nil {
		return nil, fmt.Errorf("http sink: %w", err)
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	s.dial = net.JoinHostPort(u.Hostname(), port)
	var config *tls.Config
	if o.TLS != nil {
		config = o.TLS.Clone()
	}
	s.client = &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			MaxConnsPerHost:     o.MaxConns,
			MaxIdleConnsPerHost: o.MaxConns,
			IdleConnTimeout:     90 * time.Second,
			TLSHandshakeTimeout: 10 * time.Second,
			TLSClientConfig:     config,
			ForceAttemptHTTP2:   true,
			DisableCompression:  true,
			// An answer is small; a header that never ends is not read.
			MaxResponseHeaderBytes: 64 << 10,
		},
		// A redirect would carry secrets elsewhere or turn the POST into a GET.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s, nil
}

// Close closes idle connections.
func (s *Sink) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// Send posts a batch. One that is too large for the receiver (413) is halved until it
// fits; an event that is too large alone is refused for good.
func (s *Sink) Send(ctx context.Context, batch []dispatch.Item) dispatch.Result {
	body, unreadable, err := s.encode(batch)
	if err != nil {
		return dispatch.Result{Err: err}
	}
	if len(unreadable) == len(batch) {
		return dispatch.Result{Failed: unreadable}
	}
	if len(unreadable) > 0 {
		return s.sendReadable(ctx, batch, unreadable)
	}
	a, err := s.post(ctx, body)
	switch {
	case err != nil:
		return dispatch.Result{Err: err}
	case a.status == http.StatusRequestEntityTooLarge && len(batch) > 1:
		return s.halves(ctx, batch)
	case a.status == http.StatusRequestEntityTooLarge:
		// This event alone: it must not take others of its batch with it.
		return dispatch.Result{Failed: []dispatch.Failure{{Index: 0, Err: a.err()}}}
	}
	return a.result(len(batch))
}

// sendReadable sends the rest of a batch and puts the results together.
func (s *Sink) sendReadable(ctx context.Context, batch []dispatch.Item, unreadable []dispatch.Failure) dispatch.Result {
	bad := map[int]error{}
	for _, f := range unreadable {
		bad[f.Index] = f.Err
	}
	var rest []dispatch.Item
	var index []int
	for i := range batch {
		if bad[i] == nil {
			rest, index = append(rest, batch[i]), append(index, i)
		}
	}
	r := s.Send(ctx, rest)
	if r.Err != nil {
		return r
	}
	for _, f := range r.Failed {
		bad[index[f.Index]] = f.Err
	}
	return failures(bad, len(batch))
}

func (s *Sink) halves(ctx context.Context, batch []dispatch.Item) dispatch.Result {
	half := len(batch) / 2
	bad := map[int]error{}
	for _, part := range []struct{ from, to int }{{0, half}, {half, len(batch)}} {
		r := s.Send(ctx, batch[part.from:part.to])
		if r.Err != nil && part.from == 0 {
			return r // nothing was taken yet
		}
		if r.Err != nil {
			for i := part.from; i < part.to; i++ {
				bad[i] = r.Err
			}
		}
		for _, f := range r.Failed {
			bad[part.from+f.Index] = f.Err
		}
	}
	return failures(bad, len(batch))
}

func failures(bad map[int]error, n int) (r dispatch.Result) {
	for i := range n {
		if bad[i] != nil {
			r.Failed = append(r.Failed, dispatch.Failure{Index: i, Err: bad[i]})
		}
	}
	return r
}

// encode makes the body, without the events that can't be read.
func (s *Sink) encode(batch []dispatch.Item) (body []byte, unreadable []dispatch.Failure, err error) {
	size := 2
	for i := range batch {
		size += 2*len(batch[i].Payload) + 64
	}
	buf := make([]byte, 0, size)
	separator, end := byte('\n'), ""
	if s.o.Format == JSON {
		buf, separator, end = append(buf, '['), ',', "]"
	}
	first := true
	for i := range batch {
		start := len(buf)
		if !first && s.o.Format == JSON {
			buf = append(buf, separator)
		}
		buf, err = event.AppendBinaryAsJSON(buf, batch[i].Payload)
		if err != nil {
			buf = buf[:start]
			unreadable = append(unreadable, dispatch.Failure{Index: i, Err: retry.Permanent(err)})
			continue
		}
		if s.o.Format == NDJSON {
			buf = append(buf, separator)
		}
		first = false
	}
	buf = append(buf, end...)
	if !s.o.Gzip {
		return buf, unreadable, nil
	}
	var packed bytes.Buffer
	packed.Grow(len(buf) / 4)
	w, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err == nil {
		_, err = w.Write(buf)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("compress: %w", err)
	}
	return packed.Bytes(), unreadable, nil
}

// post makes one request and reads its answer.
func (s *Sink) post(ctx context.Context, body []byte) (*answer, error) {
	req, err := http.NewRequestWithContext(ctx, s.o.Method, s.o.URL, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	h := req.Header
	s.headers(h)
	h.Set("Content-Type", "application/json")
	if s.o.Format == NDJSON {
		h.Set("Content-Type", "application/x-ndjson")
	}
	if s.o.Gzip {
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Accept", "application/json, application/problem+json")
	deadline.Set(h, ctx)
	if s.key != nil {
		h.Set(SignatureHeader, Sign(s.key.Value(false), body, time.Now()))
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("send: %w", withoutURL(err))
	}
	defer resp.Body.Close()
	a := &answer{status: resp.StatusCode}
	if s.o.Answered != nil {
		s.o.Answered(a.status)
	}
	a.location = locationHost(resp.Header.Get("Location"))
	a.after, a.wait = retry.ParseRetryAfter(resp.Header.Get("Retry-After"), time.Now())
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil && !a.ok() {
		raw = nil // the status says enough
	} else if err != nil {
		// Nobody knows which events were taken: all of them again.
		err = fmt.Errorf("read the answer: %w", err)
		if retry.ClassOf(err) == retry.ClassUnknown {
			err = retry.WithClass(err, retry.ClassTransient)
		}
		return nil, err
	}
	a.parse(resp.Header.Get("Content-Type"), raw)
	return a, nil
}

func (s *Sink) headers(h http.Header) {
	h.Set("User-Agent", s.o.UserAgent)
	for name, value := range s.o.Headers {
		h.Set(name, value)
	}
	for name, file := range s.secrets {
		h.Set(name, string(file.Value(false)))
	}
}

// withoutURL keeps the URL, which may hold a token, out of logs and dead letters.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		c := *u
		c.URL = "<url>"
		return &c
	}
	return err
}

// Check asks HealthURL, or connects.
func (s *Sink) Check(ctx context.Context) error {
	if s.o.HealthURL == "" {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", s.dial)
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		return c.Close()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.o.HealthURL, nil)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	s.headers(req.Header)
	resp, err := s.client.Do(req)
	if err != nil {
		return fmt.Errorf("health check: %w", withoutURL(err))
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the health check returned status %d", resp.StatusCode)
	}
	return nil
}

// HealthCloses reports whether Check says enough to close a breaker by itself: connecting
// works with a receiver that hangs, too.
func (s *Sink) HealthCloses() bool { return s.o.HealthURL != "" }
