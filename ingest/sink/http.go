package sink

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/deadline"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/reliability/retry"
	"github.com/sloengine/sloengine/reliability/secretfile"
)

// HTTP posts events to a web service, a batch per request: as a JSON array or as newline-delimited JSON, optionally
// compressed and signed.
//
// A receiver may answer for every event: an answer of the form that the engine itself gives
// ({"errors":[{"index":17,"code":"..","detail":"..","retryable":true}]}) marks single events of the batch as failed, so
// that the others are not sent again.
//
// With a secret, every request carries
//
//	X-Sloengine-Signature: t=1795165199,v1=<hex>
//
// where v1 is HMAC-SHA256 with the secret over the decimal t, a dot, and the body as it is on the wire (after
// compression). A receiver recomputes it, compares in constant time, and refuses a t that is too old. [remote.Verify]
// does that.
//
// It is a dispatch.Checker, and safe for concurrent use.
type HTTP struct {
	o       HTTPOptions
	service *remote.Service
	key     *secretfile.File            // nil: not signed
	secrets map[string]*secretfile.File // by header
}

var (
	_ dispatch.Sink    = (*HTTP)(nil)
	_ dispatch.Checker = (*HTTP)(nil)
)

// NewHTTP checks the options and reads the secrets. It connects to nothing.
func NewHTTP(o HTTPOptions) (*HTTP, error) {
	o.applyDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &HTTP{o: o, secrets: map[string]*secretfile.File{}}
	var err error
	var errs []error
	if o.SecretFile != "" {
		if s.key, err = secretfile.Open(o.SecretFile, checkSignatureKey); err != nil {
			errs = append(errs, fmt.Errorf("secret: %w", err))
		}
	}
	for name, file := range o.HeaderFiles {
		if s.secrets[name], err = secretfile.Open(file, remote.CheckHeaderValue); err != nil {
			errs = append(errs, fmt.Errorf("secret: %w", err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("http sink: %w", err)
	}
	if s.service, err = remote.NewService(remote.ServiceOptions{
		URL: o.URL, HealthURL: o.HealthURL, TLS: o.TLS, Connections: o.MaxConns, Headers: s.headers,
	}); err != nil {
		return nil, fmt.Errorf("http sink: %w", err)
	}
	return s, nil
}

// Close closes idle connections.
func (s *HTTP) Close() error { return s.service.Close() }

// Send posts a batch. One that is too large for the receiver (413) is halved until it
// fits; an event that is too large alone is refused for good.
func (s *HTTP) Send(ctx context.Context, batch []dispatch.Item) dispatch.Result {
	errs, err := s.send(ctx, batch)
	if err != nil {
		return dispatch.Result{Err: err}
	}
	return dispatch.ResultOf(errs)
}

// send returns the outcome of each event, or an error if no event was taken.
func (s *HTTP) send(ctx context.Context, batch []dispatch.Item) ([]error, error) {
	body, errs, err := s.encode(batch)
	if err != nil {
		return nil, err
	}
	var readable []dispatch.Item
	for i := range batch {
		if errs[i] == nil {
			readable = append(readable, batch[i])
		}
	}
	if len(readable) == 0 {
		return errs, nil
	}
	if len(readable) < len(batch) {
		rest, err := s.send(ctx, readable)
		for i := range errs {
			if err == nil && errs[i] == nil {
				errs[i], rest = rest[0], rest[1:]
			}
		}
		return errs, err
	}
	a, err := s.post(ctx, body)
	switch {
	case err != nil:
		return nil, err
	case a.Status == http.StatusRequestEntityTooLarge && len(batch) > 1:
		return s.halves(ctx, batch)
	case a.Status == http.StatusRequestEntityTooLarge:
		return []error{refusal(a)}, nil // this event alone: it must not take others of its batch with it
	}
	if named, ok := a.Parts(len(batch)); ok {
		return named, nil
	}
	return errs, refusal(a)
}

func (s *HTTP) halves(ctx context.Context, batch []dispatch.Item) ([]error, error) {
	half := len(batch) / 2
	errs, err := s.send(ctx, batch[:half])
	if err != nil {
		return nil, err // nothing was taken yet
	}
	more, err := s.send(ctx, batch[half:])
	if err != nil {
		more = slices.Repeat([]error{err}, len(batch)-half)
	}
	return append(errs, more...), nil
}

// refusal is the error of an answer about all events; nil for success.
func refusal(a *remote.Answer) error {
	if err := a.Err(remote.ClassOf(a.Status)); err != nil {
		return fmt.Errorf("the receiver returned %w", err)
	}
	return nil
}

// encode makes the body, without the events that can't be read, which have an error each.
func (s *HTTP) encode(batch []dispatch.Item) (body []byte, errs []error, err error) {
	errs = make([]error, len(batch))
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
		if buf, err = event.AppendBinaryAsJSON(buf, batch[i].Payload); err != nil {
			buf, errs[i] = buf[:start], retry.Permanent(err)
			continue
		}
		if s.o.Format == NDJSON {
			buf = append(buf, separator)
		}
		first = false
	}
	buf = append(buf, end...)
	if !s.o.Gzip {
		return buf, errs, nil
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
	return packed.Bytes(), errs, nil
}

// post makes one request and reads its answer.
func (s *HTTP) post(ctx context.Context, body []byte) (*remote.Answer, error) {
	req, err := http.NewRequestWithContext(ctx, s.o.Method, s.o.URL, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	h := req.Header
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
		h.Set(remote.SignatureHeader, remote.Sign(s.key.Value(false), body, time.Now()))
	}
	a, err := s.service.Do(req)
	if a != nil && s.o.Answered != nil {
		s.o.Answered(a.Status)
	}
	if err != nil {
		return nil, fmt.Errorf("send: %w", err)
	}
	return a, nil
}

func (s *HTTP) headers(h http.Header) {
	h.Set("User-Agent", s.o.UserAgent)
	for name, value := range s.o.Headers {
		h.Set(name, value)
	}
	for name, file := range s.secrets {
		h.Set(name, string(file.Value(false)))
	}
}

// Check asks HealthURL, or connects.
func (s *HTTP) Check(ctx context.Context) error {
	if err := s.service.Check(ctx); err != nil {
		return fmt.Errorf("health check: %w", err)
	}
	return nil
}

// HealthCloses reports whether Check says enough to close a breaker by itself: connecting
// works with a receiver that hangs, too.
func (s *HTTP) HealthCloses() bool { return s.o.HealthURL != "" }
