package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/sloengine/sloengine/reliability/retry"
)

// maxVerdict is how much of an answer about a batch is read, in bytes.
const maxVerdict = 1 << 20

// ServiceOptions of a Service.
type ServiceOptions struct {
	URL         string               // as CheckURL wants it
	HealthURL   string               // asked with GET by Check; "": Check only connects to the host of URL
	TLS         *tls.Config          // nil: the system's roots
	Connections int                  // at the same time, at most
	Headers     func(to http.Header) // sets those of every request, such as credentials
}

// Service is a web service of the settings. It follows no redirect, which would carry secrets elsewhere or turn a POST
// into a GET. It is safe for concurrent use.
type Service struct {
	o       ServiceOptions
	address string // host and port of URL
	client  *http.Client
}

// NewService connects to nothing.
func NewService(o ServiceOptions) (*Service, error) {
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, errors.New("not a URL") // its text may hold a secret
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return &Service{o, net.JoinHostPort(u.Hostname(), port), &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: o.TLS.Clone(), TLSHandshakeTimeout: 10 * time.Second,
			ForceAttemptHTTP2: true, MaxConnsPerHost: o.Connections, MaxIdleConnsPerHost: o.Connections,
			IdleConnTimeout: 90 * time.Second, DisableCompression: true,
			MaxResponseHeaderBytes: 64 << 10, // a header that never ends is not read
		},
		CheckRedirect: noRedirect,
	}}, nil
}

// Close ends idle connections.
func (s *Service) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// Do makes a request. With an error there is an Answer all the same if a status came, but not all that it says about
// the parts of the request. The error does not name the URL, which may hold a secret.
func (s *Service) Do(req *http.Request) (*Answer, error) {
	s.o.Headers(req.Header)
	resp, err := s.client.Do(req)
	if u := (*url.Error)(nil); errors.As(err, &u) {
		return nil, retry.WithClass(u.Err, retry.ClassOf(err))
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	a := &Answer{Status: resp.StatusCode, redirect: resp.Header.Get("Location")}
	a.after, a.wait = retry.ParseRetryAfter(resp.Header.Get("Retry-After"), time.Now())
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxVerdict))
	if err != nil && a.OK() {
		err = fmt.Errorf("read the answer: %w", err)
		if retry.ClassOf(err) == retry.ClassUnknown {
			err = retry.WithClass(err, retry.ClassTransient)
		}
		return a, err
	}
	a.Verdict = ParseVerdict(resp.Header.Get("Content-Type"), raw)
	return a, nil
}

// Check asks HealthURL, or connects.
func (s *Service) Check(ctx context.Context) error {
	if s.o.HealthURL == "" {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.o.HealthURL, nil)
	if err != nil {
		return err
	}
	a, err := s.Do(req)
	if err != nil {
		return err
	}
	return a.Err(ClassOf(a.Status))
}

// Answer is the answer of a service.
type Answer struct {
	Status  int
	Verdict *Verdict // nil: no error in this form

	after    time.Duration // Retry-After, if wait
	wait     bool
	redirect string
}

// OK reports success.
func (a *Answer) OK() bool { return a.Status/100 == 2 }

// Err is an answer other than success as a *StatusError of a class, with the wait that it asks for; nil for success.
func (a *Answer) Err(class retry.Class) error {
	if a.OK() {
		return nil
	}
	e := &StatusError{Status: a.Status, Class: class}
	switch {
	case a.Status/100 == 3:
		e.Detail = "redirects are not followed (set url to the redirect target" + hostOf(a.redirect) + ")"
	case a.Verdict != nil:
		e.Detail = Text(a.Verdict.Detail)
	}
	return a.later(e)
}

// hostOf is where a redirect leads, without path and query, which may hold secrets.
func hostOf(redirect string) string {
	u, err := url.Parse(redirect)
	if err != nil || u.Host == "" {
		return ""
	}
	return Text(fmt.Sprintf(", on %s://%s", u.Scheme, u.Host))
}

// later adds the wait that was asked for, and keeps the class.
func (a *Answer) later(err error) error {
	if c := retry.ClassOf(err); a.wait && c != retry.ClassPermanent {
		return retry.WithClass(retry.After(err, a.after), c)
	}
	return err
}

var errUnnamed = errors.New("the answer does not name all that were refused")

// Parts are the errors of the n parts of a request, if the answer is about single ones; otherwise it is about all of
// them, and ok is false. Of an answer that names only some of the refused, the others are not known, and are to be
// sent again.
func (a *Answer) Parts(n int) (errs []error, ok bool) {
	v := a.Verdict
	rest := a.Err(ClassOf(a.Status))
	if v == nil || rest != nil && (a.Status != http.StatusUnprocessableEntity || len(v.Errors) == 0) {
		return nil, false
	}
	if v.Truncated {
		rest = errUnnamed
	}
	errs = make([]error, n)
	for i := range errs {
		errs[i] = rest
	}
	for _, p := range v.Errors {
		if p.Index == nil || *p.Index < 0 || *p.Index >= n || p.Code == "" {
			continue
		}
		err := fmt.Errorf("refused: %s: %s", Text(p.Code), Text(p.Detail))
		if p.Retryable {
			err = a.later(retry.WithClass(err, retry.ClassOverload))
		} else {
			err = retry.Permanent(err)
		}
		errs[*p.Index] = err
	}
	return errs, true
}
