// Package redisconn runs commands and scripts in Redis: in one server, in the master that sentinels name, or in the
// server of a cluster that has the keys. It knows nothing of what they are for.
//
// All keys of a client are in one hash slot, as braces in their names make them. So a client has one server at a time,
// in a cluster as well, and a failure or a redirection only changes where it connects next.
package redisconn

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/sloengine/sloengine/reliability/retry"
)

// Options of a Client.
type Options struct {
	Addrs    []string // host:port of the server, of the sentinels, or of some servers of the cluster
	Master   string   // name of the master that the sentinels watch; "": no sentinels
	Cluster  bool
	PoolSize int // connections at most; 0: 10 for each processor
	DB       int
	Name     string                          // of the connections, in CLIENT LIST; "": none
	TLS      *tls.Config                     // nil: none. Without a server name it is that of the address
	Login    func() (string, string, error)  // user and password, asked for each connection; nil: none
	Sentinel struct{ User, Password string } // of the sentinels
	// DialTimeout, Timeout and WriteTimeout bound a connection, an answer and what is sent. The context of a call ends
	// the first two earlier.
	DialTimeout, Timeout, WriteTimeout time.Duration
	// Retries is how often Do repeats a call that failed and may succeed later. It may run twice then.
	Retries int
}

// ErrClosed is the error of calls after Close.
var ErrClosed = errors.New("client of Redis is closed")

// Error is an error that Redis answers.
type Error = redis.Error

// Client calls Redis. Its methods may be called at the same time.
type Client struct {
	o      Options
	pool   *redis.Pool
	closed atomic.Bool
	turn   atomic.Uint64 // connections of earlier turns are closed instead of used

	mu    sync.Mutex
	addrs []string // to try, the best first
}

// conn is a connection with the turn in which it was made.
type conn struct {
	redis.ConnWithContext
	turn uint64
}

var errStale = errors.New("redis is looked for again")

// New returns a client that does not connect yet.
func New(o Options) *Client {
	o.PoolSize = cmp.Or(o.PoolSize, 10*runtime.GOMAXPROCS(0))
	c := &Client{o: o, addrs: slices.Clone(o.Addrs)}
	c.pool = &redis.Pool{
		DialContext: c.dial, MaxActive: o.PoolSize, MaxIdle: o.PoolSize, Wait: true, IdleTimeout: 30 * time.Minute,
		TestOnBorrow: func(got redis.Conn, _ time.Time) error {
			if is, ok := got.(*conn); ok && is.turn != c.turn.Load() {
				return errStale
			}
			return nil
		},
	}
	return c
}

// Close closes the connections. Calls under way fail.
func (c *Client) Close() error {
	c.closed.Store(true)
	return c.pool.Close()
}

// dial connects to the server. An address that fails is the last one next time, so that a caller whose time ends
// before there was an answer does not try it again and again.
func (c *Client) dial(ctx context.Context) (redis.Conn, error) {
	turn := c.turn.Load()
	var errs []error
	for _, addr := range c.order() {
		got, err := c.reach(ctx, addr)
		if err == nil {
			return &conn{got, turn}, nil
		}
		c.last(addr)
		if errs = append(errs, err); ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

func (c *Client) order() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.addrs)
}

// last moves an address behind the others.
func (c *Client) last(addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.addrs, addr); i >= 0 {
		c.addrs = append(slices.Delete(c.addrs, i, i+1), addr)
	}
}

// reach connects to the server at an address, or to that which the sentinel there names.
func (c *Client) reach(ctx context.Context, addr string) (redis.ConnWithContext, error) {
	if c.o.Master != "" {
		asked, err := c.connect(ctx, addr, 0, func() (string, string, error) {
			return c.o.Sentinel.User, c.o.Sentinel.Password, nil
		})
		if err != nil {
			return nil, fmt.Errorf("sentinel %s: %w", addr, err)
		}
		master, err := redis.Strings(asked.DoContext(ctx, "SENTINEL", "get-master-addr-by-name", c.o.Master))
		_ = asked.Close()
		if err != nil || len(master) != 2 {
			return nil, fmt.Errorf("sentinel %s names no master %q: %w", addr, c.o.Master, cmp.Or(err, redis.ErrNil))
		}
		addr = net.JoinHostPort(master[0], master[1])
	}
	got, err := c.connect(ctx, addr, c.o.DB, c.o.Login)
	if err == nil && c.o.Cluster {
		c.learn(ctx, got, addr)
	}
	return got, err
}

func (c *Client) connect(ctx context.Context, addr string, db int, login func() (string, string, error)) (
	redis.ConnWithContext, error) {
	plain := &net.Dialer{Timeout: c.o.DialTimeout, KeepAlive: 5 * time.Minute}
	dial := plain.DialContext
	if c.o.TLS != nil {
		dial = (&tls.Dialer{NetDialer: plain, Config: c.o.TLS}).DialContext // its handshake ends with the context, too
	}
	o := []redis.DialOption{
		redis.DialContextFunc(dial), redis.DialReadTimeout(c.o.Timeout),
		redis.DialWriteTimeout(c.o.WriteTimeout), redis.DialDatabase(db), redis.DialClientName(c.o.Name),
	}
	if login != nil {
		user, password, err := login()
		if err != nil {
			return nil, err
		}
		o = append(o, redis.DialUsername(user), redis.DialPassword(password))
	}
	got, err := redis.DialContext(ctx, "tcp", addr, o...)
	if err != nil {
		return nil, err
	}
	return got.(redis.ConnWithContext), nil
}

// learn takes the servers of the cluster from one of them. If it does not say, the known ones stay.
func (c *Client) learn(ctx context.Context, from redis.ConnWithContext, addr string) {
	ranges, err := redis.Values(from.DoContext(ctx, "CLUSTER", "SLOTS"))
	if err != nil {
		return
	}
	addrs := []string{addr}
	add := func(a string) {
		if !slices.Contains(addrs, a) {
			addrs = append(addrs, a)
		}
	}
	for _, r := range ranges {
		fields, _ := r.([]any)
		for _, server := range fields[min(2, len(fields)):] { // behind the first and the last slot
			if s, _ := server.([]any); len(s) > 1 {
				host, _ := s[0].([]byte)
				port, _ := s[1].(int64)
				add(near(addr, string(host), strconv.FormatInt(port, 10)))
			}
		}
	}
	for _, a := range c.o.Addrs {
		add(a)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addrs = addrs
}

// near is an address as a server of a cluster gives it: without a host that it knows it is its own.
func near(addr, host, port string) string {
	if host == "" || host == "?" {
		host, _, _ = net.SplitHostPort(addr)
	}
	return net.JoinHostPort(host, port)
}

// Exec sends calls together, of which each is a command with its arguments. Each answer is a string, an int64, a list
// of answers, nil, or an Error.
func (c *Client) Exec(ctx context.Context, calls ...[]any) ([]any, error) {
	answers := make([]any, len(calls))
	todo := make([]int, len(calls))
	for i := range todo {
		todo[i] = i
	}
	for range 5 { // redirections
		turn := c.turn.Load()
		if c.closed.Load() {
			return nil, ErrClosed
		}
		if err := c.send(ctx, calls, todo, answers); err != nil {
			if !errors.Is(err, context.Canceled) {
				c.turn.CompareAndSwap(turn, turn+1)
			}
			return nil, err
		}
		todo = slices.DeleteFunc(todo, func(i int) bool { return !c.redirected(ctx, turn, calls[i], &answers[i]) })
		if len(todo) == 0 {
			break
		}
	}
	return answers, nil
}

// send sends the calls of todo through one connection.
func (c *Client) send(ctx context.Context, calls [][]any, todo []int, answers []any) error {
	got, err := c.pool.GetContext(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = got.Close() }()
	for _, i := range todo {
		name, _ := calls[i][0].(string)
		if err := got.Send(name, calls[i][1:]...); err != nil {
			return err
		}
	}
	if err := got.Flush(); err != nil {
		return err
	}
	for _, i := range todo {
		answer, err := redis.ReceiveContext(got, ctx)
		if err != nil {
			var is Error
			if !errors.As(err, &is) {
				return err
			}
			answer = is
		}
		answers[i] = plain(answer)
	}
	return nil
}

// redirected says whether a call has to be sent again, to the server that the answer names. While a slot moves, a key
// that has moved already is asked for there once.
func (c *Client) redirected(ctx context.Context, turn uint64, call []any, answer *any) bool {
	is, _ := (*answer).(Error)
	words := strings.Fields(string(is))
	switch {
	case strings.HasPrefix(string(is), "READONLY"): // the master is another one now
		c.turn.CompareAndSwap(turn, turn+1)
		return false
	case !c.o.Cluster || len(words) != 3 || words[0] != "MOVED" && words[0] != "ASK":
		return false
	}
	host, port, err := net.SplitHostPort(words[2])
	if err != nil {
		return false
	}
	addr := near(c.order()[0], host, port)
	if words[0] == "ASK" {
		*answer = c.ask(ctx, addr, call)
		return false
	}
	c.mu.Lock()
	c.addrs = append([]string{addr}, slices.DeleteFunc(c.addrs, func(a string) bool { return a == addr })...)
	c.mu.Unlock()
	c.turn.CompareAndSwap(turn, turn+1)
	return true
}

func (c *Client) ask(ctx context.Context, addr string, call []any) any {
	got, err := c.connect(ctx, addr, 0, c.o.Login)
	if err != nil {
		return Error("TRYAGAIN " + err.Error())
	}
	defer func() { _ = got.Close() }()
	_, err = got.DoContext(ctx, "ASKING")
	if err == nil {
		name, _ := call[0].(string)
		var answer any
		if answer, err = got.DoContext(ctx, name, call[1:]...); err == nil {
			return plain(answer)
		}
	}
	var is Error
	if errors.As(err, &is) {
		return is
	}
	return Error("TRYAGAIN " + err.Error())
}

// plain is an answer with strings in place of bytes.
func plain(answer any) any {
	switch a := answer.(type) {
	case []byte:
		return string(a)
	case []any:
		for i := range a {
			a[i] = plain(a[i])
		}
	}
	return answer
}

// Do runs one command.
func (c *Client) Do(ctx context.Context, call ...any) (any, error) {
	for failed := 0; ; failed++ {
		answers, err := c.Exec(ctx, call)
		if err == nil {
			is, bad := answers[0].(Error)
			if !bad {
				return answers[0], nil
			}
			err = is
		}
		if failed >= c.o.Retries || !again(err) || !retry.Sleep(ctx, 10*time.Millisecond<<(3*failed)) {
			return nil, err
		}
	}
}

// again says whether a call that failed may succeed soon.
func again(err error) bool {
	var answer Error
	if !errors.As(err, &answer) {
		var network net.Error
		return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	}
	return slices.ContainsFunc([]string{"LOADING ", "READONLY ", "MASTERDOWN ", "CLUSTERDOWN ", "TRYAGAIN ",
		"ERR max number of clients"}, func(p string) bool { return strings.HasPrefix(string(answer), p) })
}

// Script is a Lua script that Redis runs as a whole.
type Script struct{ text, sha string }

// NewScript returns a script with its text.
func NewScript(text string) *Script {
	return &Script{text, redis.NewScript(0, text).Hash()}
}

// Run runs a script by its hash, and by its text if Redis does not know it.
func (s *Script) Run(ctx context.Context, c *Client, keys []string, args ...any) (any, error) {
	answer, err := c.Do(ctx, s.Call(false, keys, args...)...)
	if IsNoScript(err) {
		return c.Do(ctx, s.Call(true, keys, args...)...)
	}
	return answer, err
}

// Call is a call of the script by its text, or by its hash, which fails as IsNoScript says where it is not known.
func (s *Script) Call(text bool, keys []string, args ...any) []any {
	call := append(make([]any, 0, 3+len(keys)+len(args)), "EVALSHA", s.sha, len(keys))
	if text {
		call[0], call[1] = "EVAL", s.text
	}
	for _, key := range keys {
		call = append(call, key)
	}
	return append(call, args...)
}

// IsNoScript says whether Redis does not know a script.
func IsNoScript(err error) bool {
	var answer Error
	return errors.As(err, &answer) && strings.HasPrefix(string(answer), "NOSCRIPT")
}

// Strings is an answer that is a list of strings, or nil.
func Strings(answer any) []string {
	list, _ := answer.([]any)
	texts := make([]string, 0, len(list))
	for _, a := range list {
		if s, ok := a.(string); ok {
			texts = append(texts, s)
		}
	}
	return texts
}
