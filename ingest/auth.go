package ingest

import (
	"cmp"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/reliability/connlimit"
	"github.com/sloengine/sloengine/reliability/metric"
)

// Auth decides who may do what. Without tokens everything is allowed: by default the listener is on
// loopback. All methods are safe for concurrent use.
type Auth struct {
	tokens  atomic.Pointer[Tokens]
	host    func(name string) bool
	metrics *HTTPMetrics
	uses    *metric.PerName[*keyUse]
	logger  *slog.Logger
	log     throttledLog
	now     func() time.Time
}

// AuthOptions of an Auth; the zero value works.
type AuthOptions struct {
	Tokens *Tokens // nil allows everything
	// Host reports whether requests may be for a host name as long as no tokens are active; nil allows
	// all. It is given the name in lower case and without port.
	Host    func(name string) bool
	Metrics *HTTPMetrics
	Logger  *slog.Logger
}

// NewAuth makes an Auth.
func NewAuth(o AuthOptions) *Auth {
	o.Metrics = cmp.Or(o.Metrics, NewHTTPMetrics(metrics.NewSet()))
	a := &Auth{host: o.Host, metrics: o.Metrics, log: newThrottledLog(o.Logger), now: time.Now}
	a.logger = a.log.logger
	a.uses = metric.NewPerName(o.Metrics.set, func(*metric.Group, string) *keyUse { return &keyUse{} })
	a.SetTokens(o.Tokens)
	return a
}

// SetTokens activates other tokens for all requests that start from now on; nil allows everything.
func (a *Auth) SetTokens(t *Tokens) {
	a.count(a.tokens.Load(), t)
	a.tokens.Store(t)
}

// PrepareTokens loads the file and returns a function that activates it. On an error the active
// tokens stay.
func (a *Auth) PrepareTokens(path string) (apply func(), err error) {
	t, err := LoadTokens(path)
	if err != nil {
		a.metrics.tokenFailures.Inc()
		return nil, err
	}
	return func() {
		a.SetTokens(t)
		a.metrics.tokenReloads.Inc()
	}, nil
}

// ReloadTokens loads the file and activates it.
func (a *Auth) ReloadTokens(path string) error {
	apply, err := a.PrepareTokens(path)
	if err == nil {
		apply()
	}
	return err
}

// Enabled reports whether tokens are active.
func (a *Auth) Enabled() bool { return a.tokens.Load() != nil }

// Require is a middleware that lets only holders of a token with the permission
// pass. The token is sent as "Authorization: Bearer TOKEN", or as the password of
// basic authentication (any user name), as browsers do.
//
// A token that is limited to some services may not read pages that show all of them.
func (a *Auth) Require(p Permission) gin.HandlerFunc {
	return a.require(p, func(t *Token) bool { return p != PermitRead || !t.Limited() })
}

// RequireLimited lets only those pass who may read just these services, sorted by name.
func (a *Auth) RequireLimited(services []string) gin.HandlerFunc {
	return a.require(PermitRead, func(t *Token) bool { return slices.Equal(t.Services(), services) })
}

func (a *Auth) require(p Permission, fits func(*Token) bool) gin.HandlerFunc {
	return func(c *gin.Context) {
		token, r := a.check(c.Request, p)
		if r == nil && token != nil && !fits(token) {
			r = a.forbid(token, p)
			r.detail = fmt.Sprintf("the token %q may read the services %s only, and this address shows others", token.Name,
				strings.Join(token.Services(), ", "))
		}
		if r != nil {
			id := requestID(c.Request.Header)
			c.Writer.Header().Set(headerRequestID, id)
			a.logFailure(c.Request, id, r)
			r.abort(c, id)
		}
	}
}

// Allows reports whether the caller may do something, without counting or logging a refusal. Pages
// use it to leave out the actions that the caller may not perform. To read is to read all services.
func (a *Auth) Allows(r *http.Request, p Permission) bool {
	if !a.Enabled() {
		return true
	}
	token := a.Token(r)
	return token != nil && token.May(p) && (p != PermitRead || !token.Limited())
}

// AllowsLimited reports, without counting or logging a no, whether RequireLimited lets a request pass.
func (a *Auth) AllowsLimited(r *http.Request, services []string) bool {
	token := a.Token(r)
	return token != nil && token.May(PermitRead) && slices.Equal(token.Services(), services)
}

// Serves reports whether the token that a request carries is for a service, "" for all of them. Without tokens it is
// true.
func (a *Auth) Serves(r *http.Request, service string) bool {
	if !a.Enabled() {
		return true
	}
	token := a.Token(r)
	return token != nil && token.Serves(service)
}

// Caller is the name of the token that a request carries, for logs; "" if it carries none.
func (a *Auth) Caller(r *http.Request) string {
	if token := a.Token(r); token != nil {
		return token.Name
	}
	return ""
}

// Token is the valid token that a request carries, nil if it carries none. It neither counts nor logs.
func (a *Auth) Token(r *http.Request) *Token {
	tokens := a.tokens.Load()
	if tokens == nil {
		return nil
	}
	secret, ok := bearer(r)
	if !ok {
		return nil
	}
	if k := tokens.find(secret); k != nil && !k.expired(a.now()) {
		return k.Token
	}
	return nil
}

const headerRequestID = "X-Request-Id"

// check returns the token of the request (nil if none is needed) or the refusal.
func (a *Auth) check(req *http.Request, p Permission) (*Token, *refusal) {
	tokens := a.tokens.Load()
	if tokens == nil {
		connlimit.Trust(req.Context())
		return nil, nil
	}
	secret, ok := bearer(req)
	if !ok {
		a.metrics.authFailures[authMissing].Inc()
		return nil, &refusal{status: http.StatusUnauthorized, code: problemUnauthorized, closeConn: true,
			detail: "missing token (send it as Authorization: Bearer TOKEN)", challenge: challenges("", p)}
	}
	k := tokens.find(secret)
	if k == nil && len(secret) < minTokenBytes {
		a.metrics.authFailures[authUnknown].Inc()
		return nil, &refusal{status: http.StatusUnauthorized, code: problemUnauthorized, closeConn: true,
			detail:    fmt.Sprintf("the token is shorter than %d bytes, the minimum length", minTokenBytes),
			challenge: challenges("invalid_token", p)}
	}
	if k == nil {
		a.metrics.authFailures[authUnknown].Inc()
		return nil, &refusal{status: http.StatusUnauthorized, code: problemUnauthorized, closeConn: true,
			detail: "the token is not in the tokens file", challenge: challenges("invalid_token", p)}
	}
	now := a.now()
	k.use.note(now)
	if k.expired(now) {
		a.metrics.authFailures[authExpired].Inc()
		return nil, &refusal{status: http.StatusUnauthorized, code: problemUnauthorized, closeConn: true,
			detail: fmt.Sprintf("the key %s of the token %q expired at %s (send the new one)", k.id(), k.Name,
				k.expires.UTC().Format(time.RFC3339)),
			challenge: challenges("invalid_token", p)}
	}
	if !k.May(p) {
		return nil, a.forbid(k.Token, p)
	}
	connlimit.Trust(req.Context())
	return k.Token, nil
}

// forbid is the refusal for a known token without the permission.
func (a *Auth) forbid(token *Token, p Permission) *refusal {
	a.metrics.authFailures[authNotGiven].Inc()
	return &refusal{status: http.StatusForbidden, code: problemForbidden, closeConn: true,
		detail:    fmt.Sprintf("the token %q has no permission %q", token.Name, p),
		challenge: []string{`Bearer realm="sloengine", error="insufficient_scope", scope="` + p.String() + `"`}}
}

// challenges are the WWW-Authenticate headers of a 401 (RFC 6750, 3). Only
// readers are offered basic authentication: it makes browsers ask.
func challenges(code string, p Permission) []string {
	first := `Bearer realm="sloengine"`
	if code != "" {
		first += `, error="` + code + `"`
	}
	if p == PermitRead {
		return []string{first, `Basic realm="sloengine"`}
	}
	return []string{first}
}

// bearer finds the secret that the request carries.
func bearer(req *http.Request) (secret string, ok bool) {
	header := req.Header.Get("Authorization")
	const prefix = "bearer "
	if len(header) > len(prefix) && strings.EqualFold(header[:len(prefix)], prefix) {
		secret = strings.TrimSpace(header[len(prefix):])
		return secret, secret != ""
	}
	if _, password, basic := req.BasicAuth(); basic {
		return password, password != ""
	}
	return "", false
}

// logFailure logs which client was rejected, never the secret that it sent.
func (a *Auth) logFailure(req *http.Request, id string, r *refusal) {
	a.log.warn("request denied", "request_id", id, "status", r.status, "reason", r.detail,
		"remote", req.RemoteAddr, "path", req.URL.Path)
}

// throttledLog writes at most one line per second and says how many it left
// out: a flood of bad requests must not become a flood of log lines.
type throttledLog struct {
	logger  *slog.Logger
	now     func() time.Time
	next    *atomic.Int64 // Unix nanoseconds
	skipped *atomic.Int64
}

func newThrottledLog(l *slog.Logger) throttledLog {
	if l == nil {
		l = slog.Default()
	}
	return throttledLog{l, time.Now, new(atomic.Int64), new(atomic.Int64)}
}

func (t *throttledLog) warn(msg string, args ...any) {
	now := t.now().UnixNano()
	next := t.next.Load()
	if wait := next - now; wait > 0 && wait <= int64(time.Second) || !t.next.CompareAndSwap(next, now+int64(time.Second)) {
		t.skipped.Add(1)
		return
	}
	if n := t.skipped.Swap(0); n > 0 {
		args = append(args, "skipped", n)
	}
	t.logger.Warn(msg, args...)
}

// ErrorLog receives the log lines of an HTTP server about its connections. Any client can cause such lines, so they
// are throttled, except panics.
func ErrorLog(l *slog.Logger) *log.Logger { return log.New(serverLog{newThrottledLog(l)}, "", 0) }

type serverLog struct{ throttledLog }

// Write is part of io.Writer.
func (s serverLog) Write(line []byte) (int, error) {
	msg := strings.TrimSpace(string(line))
	if strings.HasPrefix(msg, "http: panic") || strings.HasPrefix(msg, "http2: panic") {
		s.logger.Error(msg)
	} else {
		s.warn(msg)
	}
	return len(line), nil
}
