package operating

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/redisconn"
)

// program starts a program of Redis' on a free port below 30000, which leaves room for a
// cluster's second ports, and waits until it answers. stop kills it.
func program(t *testing.T, name string, args func(port int) []string) (port int, stop func()) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skip(name + " is not installed")
	}
	for range 10 {
		port = 12000 + rand.IntN(10000) // a cluster's second port is 10000 above, still below the ephemeral ports
		cmd := exec.Command(name, args(port)...)
		cmd.Dir = t.TempDir()
		require.NoError(t, cmd.Start())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = cmd.Wait() }()
		stop = func() { _ = cmd.Process.Kill(); <-ended }
		t.Cleanup(stop)
		for alive := true; alive; {
			select {
			case <-ended:
				alive = false
			case <-time.After(20 * time.Millisecond):
			}
			if alive && serves(port) {
				return port, stop
			}
		}
	}
	require.Fail(t, name+" does not start")
	return 0, nil
}

// serves tells whether a Redis server or sentinel answers on the port. One that is about to exit because a second port
// is taken accepts connections, too, but answers nothing.
func serves(port int) bool {
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	answer := make([]byte, len("+PONG"))
	_, err = io.ReadFull(c, answer)
	return err == nil && (string(answer) == "+PONG" || string(answer) == "-NOAU") // NOAUTH: it wants a password
}

func redisArgs(more ...string) func(port int) []string {
	return func(port int) []string {
		return append(
			[]string{"--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"}, more...)
	}
}

// ask runs a command at the server on a port.
func ask(port int, command ...any) (string, error) {
	c := redisconn.New(redisconn.Options{Addrs: []string{fmt.Sprintf("127.0.0.1:%d", port)}, Timeout: 10 * time.Second})
	defer c.Close()
	answer, err := c.Do(context.Background(), command...)
	return fmt.Sprint(answer), err
}

// sharing starts two engines that share a limit of 30 orders, and keep what is critical in
// Redis.
func sharing(t *testing.T, settings string) (engines [2]*e2etest.Process) {
	t.Helper()
	for i := range engines {
		dir := t.TempDir()
		e2etest.WriteFile(t, dir, "sentinel.password", "hush\n")
		spec := e2etest.WriteFile(t, dir, "spec.yaml", limitSpec)
		p := e2etest.Serve(t, dir, spec, fmt.Sprintf(`
redis: {%s, timeout: 2s}
dead_letters: {storage: redis, filter: {always_save: [order], default: drop}}
limits:
  global: off
  respect_dlq_filter: false
  shared: {redis: true, fallback: off}
  default: {limit: 30, window: 1h, on_exceeded: drop}
`, settings))
		engines[i] = p
		connected(t, p, true)
	}
	return engines
}

// connected waits until the engine has Redis, or has it no longer.
func connected(t *testing.T, p *e2etest.Process, want bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		var s struct {
			Redis struct{ Connected bool }
		}
		return json.Unmarshal(e2etest.Get(t, p.Base+"/api/v1/engine"), &s) == nil && s.Redis.Connected == want
	}, testkit.Patience, 50*time.Millisecond, "%v\n%s", want, p.Log)
}

// Sentinels say who the master is: engines share limits and dead letters through it, and
// through the one that takes over when it dies. Without it nothing is limited, as
// fallback: off says.
func TestRedisSentinel(t *testing.T) {
	t.Parallel()
	master, kill := program(t, "redis-server", redisArgs())
	replica, _ := program(t, "redis-server", redisArgs("--replicaof", "127.0.0.1", fmt.Sprint(master)))
	sentinel, _ := program(t, "redis-sentinel", func(port int) []string {
		return []string{e2etest.WriteFile(t, t.TempDir(), "sentinel.conf", fmt.Sprintf(`port %d
bind 127.0.0.1
requirepass hush
sentinel monitor main 127.0.0.1 %d 1
sentinel down-after-milliseconds main 1000
sentinel failover-timeout main 5000
`, port, master))}
	})
	require.Eventually(t, func() bool {
		role, err := ask(replica, "INFO", "replication")
		return err == nil && strings.Contains(role, "master_link_status:up")
	}, testkit.Patience, 50*time.Millisecond)

	engines := sharing(t,
		fmt.Sprintf(
			"addresses: [\"127.0.0.1:%d\"], sentinel_master: main, sentinel_username: default, sentinel_password_file: "+
				"sentinel.password, pool_size: 2", sentinel))
	require.Equal(t, 20, orders(t, engines[0], "", 20, "").Accepted)
	require.Equal(t, 10, orders(t, engines[1], "", 20, "").Accepted, "they count together")
	_, err := ask(master, "WAIT", 1, 5000)
	require.NoError(t, err)
	for _, p := range engines {
		require.Equal(t, 0, orders(t, p, "", 20, "").Accepted)
	}
	kill()
	require.Eventually(t, func() bool {
		return orders(t, engines[0], "", 20, "").Accepted == 20
	}, testkit.Patience, 20*time.Millisecond,
		"without Redis and a fallback everything passes")
	for _, p := range engines {
		connected(t, p, true)
		require.Eventually(t, func() bool {
			return orders(t, p, "", 20, "").Accepted == 0
		}, testkit.Patience, 100*time.Millisecond,
			"the replica has taken over, and knows what was counted")
	}
	role, err := ask(replica, "INFO", "replication")
	require.NoError(t, err)
	require.Contains(t, role, "role:master")
}

// A cluster of three: limits and dead letters each live in one slot of it, wherever that is.
func TestRedisCluster(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("redis-cli"); err != nil {
		t.Skip("redis-cli is not installed")
	}
	var ports []int
	create := []string{"--cluster", "create"}
	for range 3 {
		port, _ := program(t, "redis-server", redisArgs("--cluster-enabled", "yes", "--cluster-node-timeout", "2000"))
		ports = append(ports, port)
		create = append(create, fmt.Sprintf("127.0.0.1:%d", port))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "redis-cli", append(create, "--cluster-yes")...).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Eventually(t, func() bool {
		for _, port := range ports {
			info, err := ask(port, "CLUSTER", "INFO")
			if err != nil || !strings.Contains(info, "cluster_state:ok") {
				return false
			}
		}
		return true
	}, testkit.Patience, 50*time.Millisecond)

	engines := sharing(t, fmt.Sprintf("addresses: [\"127.0.0.1:%d\"], cluster: true", ports[0]))
	require.Equal(t, 20, orders(t, engines[0], "", 20, "").Accepted)
	require.Equal(t, 10, orders(t, engines[1], "", 20, "").Accepted, "they count together")

	// The same with dead letters of what is critical, which both engines see.
	for _, p := range engines {
		file := strings.TrimSuffix(p.Cmd.Args[len(p.Cmd.Args)-1], "engine.yaml") // -c is the last
		settings := fmt.Sprintf(`
redis: {addresses: ["127.0.0.1:%d"], cluster: true, timeout: 2s}
dead_letters: {storage: redis, filter: {always_save: [order], default: drop}}
limits: {global: off, shared: {redis: true, fallback: off}, default: {limit: 30, window: 1h, on_exceeded: drop}}
`, ports[0])
		e2etest.WriteFile(t, file, "engine.yaml", settings)
		status, answer := e2etest.Post(t, p.Base+"/-/reload", "", "")
		require.Equal(t, 200, status, answer)
		status, answer = e2etest.Post(t, p.Base+"/api/v1/events", "", `{"service":"shop","type":"order"}`)
		require.Equal(t, 202, status, answer)
		require.Contains(t, answer, `"dead_lettered":1`)
	}
	require.Eventually(t, func() bool {
		var list struct{ Items []struct{ Service string } }
		return json.Unmarshal(e2etest.Get(t, engines[0].Base+"/api/v1/dlq"), &list) == nil && len(list.Items) == 2
	}, testkit.Patience, 100*time.Millisecond, "%s", e2etest.Get(t, engines[0].Base+"/api/v1/dlq"))
}
