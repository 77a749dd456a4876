package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/sloengine/sloengine/reliability/deadline"
)

const (
	// maxAnswerBytes is more than a server's errors_truncated lets an answer be.
	maxAnswerBytes = 4 << 20
	// leastCompressed is the size below which compression is not worth it, in bytes.
	leastCompressed = 1 << 10
	// clocksDiffer is how long no deadline is sent after a server found one to have
	// passed that had not.
	clocksDiffer = 10 * time.Minute
)

// poster makes single requests. It is safe for concurrent use.
type poster struct {
	http        *http.Client
	own         bool // http is ours
	url         string
	token       token
	compression Compression
	zstd        *zstd.Encoder // EncodeAll is safe for concurrent use
	gzips       sync.Pool
	m           *Metrics

	noDeadline atomic.Int64 // until then, Unix nanoseconds
}

func newPoster(o *Options) (*poster, error) {
	target, err := o.target()
	if err != nil {
		return nil, err
	}
	t, err := openToken(o)
	if err != nil {
		return nil, err
	}
	p := &poster{http: o.httpClient(), own: o.HTTPClient == nil, url: target, token: t, compression: o.Compression, m: o.Metrics}
	p.gzips.New = func() any {
		w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is a good one
		return w
	}
	if o.Compression == Zstd {
		p.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(o.Senders), zstd.WithEncoderLevel(zstd.SpeedFastest))
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
	}
	return p, nil
}

// post makes one request. With a nil error the answer is about exactly the events of b.
func (p *poster) post(ctx context.Context, b *batch) (*answer, error) {
	body, encoding, err := p.encode(b.body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	req.Header.Set("User-Agent", "sloengine-client")
	if encoding != None {
		req.Header.Set("Content-Encoding", string(encoding))
	}
	sent := p.token.header(false)
	if sent != "" {
		req.Header.Set("Authorization", sent)
	}
	if time.Now().UnixNano() >= p.noDeadline.Load() {
		deadline.Set(req.Header, ctx)
	}
	began := time.Now()
	resp, err := p.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	p.m.requests.UpdateDuration(began)
	a, err := judge(resp, data, b.len())
	var status *StatusError
	if errors.As(err, &status) {
		switch {
		case status.Code == codeDeadlinePassed && ctx.Err() == nil:
			// It had not: the clocks differ. Better no deadline than a wrong one.
			p.noDeadline.Store(time.Now().Add(clocksDiffer).UnixNano())
		case status.Status == http.StatusUnauthorized && p.token.header(true) != sent:
			return nil, errNewToken
		}
	}
	return a, err
}

// copies reports whether a request with this body sends a copy of it, so that the body
// may be changed afterwards: net/http may go on reading for a while.
func (p *poster) copies(body []byte) bool {
	return p.compression != None && len(body) >= leastCompressed
}

func (p *poster) encode(body []byte) ([]byte, Compression, error) {
	if !p.copies(body) {
		return body, None, nil
	}
	switch p.compression {
	case Gzip:
		var out bytes.Buffer
		out.Grow(len(body) / 4)
		w := p.gzips.Get().(*gzip.Writer)
		defer p.gzips.Put(w)
		w.Reset(&out)
		if _, err := w.Write(body); err != nil {
			return nil, None, fmt.Errorf("gzip: %w", err)
		}
		if err := w.Close(); err != nil {
			return nil, None, fmt.Errorf("gzip: %w", err)
		}
		return out.Bytes(), Gzip, nil
	case Zstd:
		return p.zstd.EncodeAll(body, make([]byte, 0, len(body)/4)), Zstd, nil
	}
	return body, None, nil
}

func (p *poster) close() {
	if p.own {
		p.http.CloseIdleConnections()
	}
	if p.zstd != nil {
		_ = p.zstd.Close()
	}
}
