package shared

import (
	"context"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/nettest"
	"github.com/sloengine/sloengine/reliability/ratelimit"
	"github.com/sloengine/sloengine/reliability/redisconn"
)

// server is a real redis-server that a test can kill, stop and start again.
type server struct {
	t    testing.TB
	dir  string
	args []string
	port string
	cmd  *exec.Cmd
}

const sigStop, sigCont = syscall.SIGSTOP, syscall.SIGCONT

// newServer starts one on a free port, with more arguments if there are any.
func newServer(t testing.TB, args ...string) *server {
	t.Helper()
	if os.Getenv("SLOENGINE_QUICK") != "" {
		t.Skip("make quick runs no Redis")
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed")
	}
	s := &server{t: t, dir: t.TempDir(), args: args, port: nettest.FreePort(t)}
	t.Cleanup(s.kill)
	s.start()
	return s
}

func (s *server) addr() string { return "127.0.0.1:" + s.port }

// start starts it, again on its port, and waits until it answers.
func (s *server) start() {
	s.t.Helper()
	s.kill()
	args := append(
		[]string{"--port", s.port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", s.dir}, s.args...)
	s.cmd = exec.Command("redis-server", args...)
	require.NoError(s.t, s.cmd.Start())
	require.Eventually(s.t, func() bool {
		c, err := net.Dial("tcp", s.addr())
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}, testkit.Patience, 20*time.Millisecond, "redis-server does not start")
}

// kill ends it at once, stopped or not.
func (s *server) kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

func (s *server) signal(sig syscall.Signal) { require.NoError(s.t, s.cmd.Process.Signal(sig)) }

// client is one as Tune makes it.
func (s *server) client(change ...func(*redisconn.Options)) *redisconn.Client {
	o := &redisconn.Options{Addrs: []string{s.addr()}}
	Tune(o, 0)
	for _, f := range change {
		f(o)
	}
	c := redisconn.New(*o)
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// patient gives calls the time that a busy machine needs.
func patient(o *redisconn.Options) { Tune(o, 5*time.Second) }

func (s *server) store() *Store {
	st, err := NewStore(StoreOptions{Client: s.client(patient)})
	require.NoError(s.t, err)
	return st
}

// atTime makes a script take its time from a key of Redis, so that a test can set it. Redis expires keys by its own
// clock, so they get an hour more: a test that takes longer than a window finds its counters.
func atTime(script string) *redisconn.Script {
	const clock = "redis.call('TIME')"
	if !strings.Contains(script, clock) {
		panic("the script does not ask for the time")
	}
	const expires = "'PX', "
	if !strings.Contains(script, expires) {
		panic("the script sets no time to expire")
	}
	return redisconn.NewScript(strings.NewReplacer(clock, "redis.call('MGET', '{test}s', '{test}us')", expires,
		expires+"3600000 + ").Replace(script))
}

// do runs a command.
func do(t testing.TB, c *redisconn.Client, args ...any) any {
	t.Helper()
	answer, err := c.Do(context.Background(), args...)
	require.NoError(t, err)
	return answer
}

// setTime sets it.
func setTime(t testing.TB, c *redisconn.Client, at time.Time) {
	t.Helper()
	do(t, c, "MSET", "{test}s", at.Unix(), "{test}us", at.Nanosecond()/1000)
}

// attributes of an event: the context "user".
type attributes string

func (a attributes) Attr(name string) ([]byte, bool) { return []byte(a), name == "user" && a != "" }

// limits make a policy: of all events, of each type by its name, of each user. A limit
// of N 0 is none; types not named are unlimited.
type limits struct {
	global, user ratelimit.Limit
	types        map[string]ratelimit.Limit
}

func values(l ratelimit.Limit) ratelimit.Values {
	v := ratelimit.Values{Limit: &l.N, Window: &l.Window, Algorithm: &l.Algorithm}
	if l.Burst > 0 {
		v.Burst = &l.Burst
	}
	return v
}

func (l limits) policy(t testing.TB) *ratelimit.Policy {
	t.Helper()
	huge := int64(ratelimit.MaxLimit)
	c := ratelimit.Config{Default: ratelimit.Values{Limit: &huge}}
	if l.global.N > 0 {
		v := values(l.global)
		c.Global = &v
	}
	for name, limit := range l.types {
		c.Types = append(c.Types, ratelimit.TypeRule{Match: name, Values: values(limit)})
	}
	if l.user.N > 0 {
		c.Contexts = []ratelimit.ContextRule{{
			Name: "user", From: []ratelimit.Source{{Kind: ratelimit.FromAttribute, Name: "user"}}, Values: values(l.user),
		}}
	}
	p, err := ratelimit.Compile(c)
	require.NoError(t, err)
	return p
}

// event of a test.
type event struct{ kind, user string }

func tickets(p *ratelimit.Policy, events ...event) *ratelimit.Tickets {
	t, caller := &ratelimit.Tickets{}, &ratelimit.Caller{}
	for i, e := range events {
		p.Add(caller, &ratelimit.Subject{Type: []byte(e.kind), Attrs: attributes(e.user), Sample: uint64(i)}, t)
	}
	return t
}

// repeat is n times the same event.
func repeat(n int, e event) []event {
	list := make([]event, n)
	for i := range list {
		list[i] = e
	}
	return list
}

// take takes and counts those that passed.
func take(t testing.TB, s ratelimit.Store, list ...*ratelimit.Tickets) (passed int) {
	t.Helper()
	require.NoError(t, s.Take(context.Background(), time.Now(), list))
	return count(list...)
}

func count(list ...*ratelimit.Tickets) (passed int) {
	for _, k := range list {
		for i := range k.List {
			if k.List[i].Over == 0 {
				passed++
			}
		}
	}
	return passed
}
