// Package rabbitmqtest runs a real RabbitMQ node for tests, which they can kill, restart, and cut off. It does not know
// the engine.
//
// A node is ready after a few seconds and uses as many seconds of CPU, so tests that can do with a virtual host of
// their own share one: see [Shared].
package rabbitmqtest

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/nettest"
)

// scripts is where Debian has the node's own scripts. Those in the PATH insist on the user rabbitmq.
const scripts = "/usr/lib/rabbitmq/bin"

// readyWithin bounds the start of a node on a busy machine.
const readyWithin = testkit.Patience

// Users of a node. Alice may do everything in every virtual host, Mallory nothing in any.
const (
	Alice, AlicePassword     = "alice", "alice-secret"
	Mallory, MalloryPassword = "mallory", "mallory-secret"
)

// Options of a Node.
type Options struct {
	// VHosts are virtual hosts beside "/".
	VHosts []string
	// Settings are lines of rabbitmq.conf.
	Settings []string
	// TLS adds a listener with a certificate for 127.0.0.1.
	TLS bool
	// Proxied puts a Proxy in front of the plain listener.
	Proxied bool
}

// Node is a node and its data. Its methods belong to the goroutine of the test.
type Node struct {
	Address    string         // of the plain listener
	TLSAddress string         // of the listener with TLS
	CA         []byte         // the certificate of it, as PEM
	Proxy      *nettest.Proxy // with Options.Proxied; outlives a node that is killed

	dir  string
	env  []string
	epmd *exec.Cmd
	cmd  *exec.Cmd // nil while it is down
}

// Start starts a node that ends with the test, and waits until it serves. The test is skipped where RabbitMQ is
// missing.
func Start(t testing.TB, o Options) *Node {
	t.Helper()
	requireRabbitMQ(t)
	n := start(t, t.TempDir(), o)
	t.Cleanup(n.close)
	return n
}

func requireRabbitMQ(t testing.TB) {
	t.Helper()
	if os.Getenv("SLOENGINE_QUICK") != "" {
		t.Skip("make quick runs no RabbitMQ")
	}
	if _, err := os.Stat(filepath.Join(scripts, "rabbitmq-server")); err != nil {
		t.Skip("RabbitMQ is not installed: apt-get install rabbitmq-server")
	}
}

func start(t testing.TB, dir string, o Options) *Node {
	t.Helper()
	n := &Node{dir: dir, Address: nettest.FreeAddress(t)}
	started := false
	defer func() {
		if !started {
			n.close()
		}
	}()
	if o.TLS {
		n.TLSAddress = nettest.FreeAddress(t)
	}
	n.configure(t, o)
	n.run(t)
	if o.Proxied {
		n.Proxy = nettest.StartProxy(t, "127.0.0.1:0", n.Address)
	}
	started = true
	return n
}

func (n *Node) close() {
	n.Kill()
	if n.epmd != nil {
		_ = n.epmd.Process.Kill()
		_ = n.epmd.Wait()
	}
	if n.Proxy != nil {
		n.Proxy.Close()
	}
}

// configure writes the settings. Users and virtual hosts are definitions that the node reads when it starts, which
// saves a run of rabbitmqctl, a virtual machine of its own, for each.
func (n *Node) configure(t testing.TB, o Options) {
	t.Helper()
	write := func(name string, data []byte, mode os.FileMode) string {
		path := filepath.Join(n.dir, name)
		require.NoError(t, os.WriteFile(path, data, mode))
		return path
	}
	type named map[string]any
	vhosts := []named{{"name": "/"}}
	permissions := []named{}
	for _, v := range o.VHosts {
		vhosts = append(vhosts, named{"name": v})
	}
	for _, v := range vhosts {
		permissions = append(
			permissions, named{"user": Alice, "vhost": v["name"], "configure": ".*", "write": ".*", "read": ".*"},
			named{"user": Mallory, "vhost": v["name"], "configure": "^$", "write": "^$", "read": "^$"})
	}
	definitions, err := json.Marshal(named{"vhosts": vhosts, "permissions": permissions, "users": []named{
		{"name": Alice, "password_hash": passwordHash(AlicePassword), "tags": "administrator"},
		{"name": Mallory, "password_hash": passwordHash(MalloryPassword), "tags": ""},
	}})
	require.NoError(t, err)
	settings := append([]string{
		"load_definitions = " + write("definitions.json", definitions, 0o600),
		"listeners.tcp.1 = " + n.Address,
		"disk_free_limit.absolute = 1MB", "log.file.level = warning", "log.console = false", "heartbeat = 10",
	}, o.Settings...)
	if o.TLS {
		cert, key := nettest.SelfSigned(t)
		n.CA = cert
		settings = append(settings, "listeners.ssl.1 = "+n.TLSAddress,
			"ssl_options.certfile = "+write("cert.pem", cert, 0o600),
			"ssl_options.keyfile = "+write("key.pem", key, 0o600))
	}
	write(".erlang.cookie", []byte("SLOENGINETESTCOOKIE"), 0o400)
	epmdPort := nettest.FreePort(t)
	_, port, err := net.SplitHostPort(n.Address)
	require.NoError(t, err)
	n.env = append(os.Environ(), "HOME="+n.dir, "ERL_EPMD_PORT="+epmdPort, "ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_NODENAME=test"+port+"@localhost", "RABBITMQ_NODE_PORT="+port, "RABBITMQ_NODE_IP_ADDRESS=127.0.0.1",
		"RABBITMQ_DIST_PORT="+nettest.FreePort(t), "RABBITMQ_MNESIA_BASE="+filepath.Join(n.dir, "mnesia"),
		"RABBITMQ_LOG_BASE="+filepath.Join(n.dir, "log"),
		"RABBITMQ_CONFIG_FILE="+write("rabbitmq.conf", []byte(strings.Join(settings, "\n")+"\n"), 0o600),
		"RABBITMQ_ENABLED_PLUGINS_FILE="+write("enabled_plugins", []byte("[].\n"), 0o600),
		"RABBITMQ_PID_FILE="+filepath.Join(n.dir, "pid"),
		"RABBITMQ_CONF_ENV_FILE=/dev/null", "RABBITMQ_GENERATED_CONFIG_DIR="+filepath.Join(n.dir, "config"),
		"RABBITMQ_FEATURE_FLAGS_FILE="+filepath.Join(n.dir, "feature_flags"),
		// One scheduler that sleeps instead of spinning, and the virtual machine itself in place of the shell script.
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none", "RABBITMQ_ALLOW_INPUT=1",
		"ERL_CRASH_DUMP=/dev/null")
	// Erlang's name server would be started by the node and outlive it.
	n.epmd = exec.Command("epmd", "-port", epmdPort, "-address", "127.0.0.1")
	n.epmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, n.epmd.Start())
}

// passwordHash is that of a definition: SHA-256 over a salt of 4 bytes and the password.
func passwordHash(password string) string {
	salt := []byte("salt")
	sum := sha256.Sum256(append(salt, password...))
	return base64.StdEncoding.EncodeToString(append(salt, sum[:]...))
}

// starting lets one node of a test binary start after another: each takes a core until it serves.
var starting sync.Mutex

// run begins the process and waits until it serves.
func (n *Node) run(t testing.TB) {
	t.Helper()
	starting.Lock()
	defer starting.Unlock()
	require.Nil(t, n.cmd, "the node runs already")
	out, err := os.OpenFile(filepath.Join(n.dir, "output"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer out.Close()
	cmd := exec.Command(filepath.Join(scripts, "rabbitmq-server"), "-noinput")
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = n.env, n.dir, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	n.cmd = cmd
	ready := func() bool {
		var c *amqp.Connection
		c, err = amqp.DialConfig(n.URL("/"), amqp.Config{Dial: amqp.DefaultDial(2 * time.Second)})
		if err == nil {
			require.NoError(t, c.Close())
			return true
		}
		var status syscall.WaitStatus
		if pid, werr := syscall.Wait4(cmd.Process.Pid, &status, syscall.WNOHANG|syscall.WNOWAIT, nil); werr == nil &&
			pid == cmd.Process.Pid {
			t.Fatalf("RabbitMQ ended while it started\n%s", n.Log())
		}
		return false
	}
	// Beside other servers that start on two cores, Erlang alone may take more than two minutes.
	require.True(t, testkit.Within(5*time.Minute, ready), "RabbitMQ is not ready after five minutes: %v\n%s", err, n.Log())
}

// AwaitQuorumQueue waits until a quorum queue that was declared survives Kill. The node writes the name of a new one to
// disk about a second after it has confirmed the declaration. If it is killed before, the queue is there again without
// its messages, also those that were confirmed, and without a leader.
func (n *Node) AwaitQuorumQueue(t testing.TB, vhost, queue string) {
	t.Helper()
	name := []byte(url.QueryEscape(vhost) + "_" + queue)
	require.Eventually(t, func() bool {
		files, err := filepath.Glob(filepath.Join(n.dir, "mnesia", "*", "quorum", "*", "names.dets"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		raw, err := os.ReadFile(files[0])
		return err == nil && bytes.Contains(raw, name)
	}, readyWithin, 10*time.Millisecond)
}

// Kill kills the node with SIGKILL.
func (n *Node) Kill() { n.end(syscall.SIGKILL) }

// Stop stops it in an orderly way.
func (n *Node) Stop() { n.end(syscall.SIGTERM) }

func (n *Node) end(with syscall.Signal) {
	if n.cmd == nil {
		return
	}
	_ = n.cmd.Process.Signal(with)
	_ = n.cmd.Wait()
	n.cmd = nil
}

// Restart starts it again after Kill or Stop, on the same ports and data, and waits until it serves.
func (n *Node) Restart(t testing.TB) {
	t.Helper()
	n.run(t)
}

// URL is that of the plain listener for Alice, with her password.
func (n *Node) URL(vhost string) string { return n.URLOf(n.Address, Alice, AlicePassword, vhost) }

// ProxiedURL is URL behind the Proxy.
func (n *Node) ProxiedURL(vhost string) string {
	return n.URLOf(n.Proxy.Address, Alice, AlicePassword, vhost)
}

// URLOf is a URL without TLS for an address and a user.
func (n *Node) URLOf(address, user, password, vhost string) string {
	return "amqp://" + url.UserPassword(user, password).String() + "@" + address + "/" + url.PathEscape(vhost)
}

// TLSConfig trusts the listener with TLS.
func (n *Node) TLSConfig() *tls.Config {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(n.CA)
	return &tls.Config{RootCAs: pool, ServerName: "localhost"}
}

// Channel is a channel on a connection of its own to the plain listener. Both end with the test.
func (n *Node) Channel(t testing.TB, vhost string) *amqp.Channel {
	t.Helper()
	c, err := amqp.DialConfig(n.URL(vhost), amqp.Config{Dial: amqp.DefaultDial(10 * time.Second)})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	ch, err := c.Channel()
	require.NoError(t, err)
	return ch
}

// Drain takes all messages out of a queue.
func (n *Node) Drain(t testing.TB, queue string) (list []amqp.Delivery) {
	t.Helper()
	ch := n.Channel(t, "/")
	for {
		d, ok, err := ch.Get(queue, true)
		require.NoError(t, err)
		if !ok {
			return list
		}
		list = append(list, d)
	}
}

// Ctl runs rabbitmqctl, which takes a second or two, and returns its output. A node accepts connections before it has
// started as a whole, and rabbitmqctl refuses until then.
func (n *Node) Ctl(t testing.TB, args ...string) string {
	t.Helper()
	for deadline := time.Now().Add(readyWithin); ; {
		cmd := exec.Command(filepath.Join(scripts, "rabbitmqctl"), append([]string{"--quiet"}, args...)...)
		cmd.Env, cmd.Dir = n.env, n.dir
		out, err := cmd.CombinedOutput()
		if err != nil && bytes.Contains(out, []byte("requires the 'rabbit' app to be running")) &&
			time.Now().Before(deadline) {
			continue
		}
		require.NoError(t, err, "rabbitmqctl %v: %s", args, out)
		return string(out)
	}
}

// Log returns the end of the node's output.
func (n *Node) Log() string {
	var all strings.Builder
	names, _ := filepath.Glob(filepath.Join(n.dir, "log", "*.log"))
	for _, name := range append(names, filepath.Join(n.dir, "output")) {
		raw, err := os.ReadFile(name)
		const most = 8000
		fmt.Fprintf(&all, "%s %v\n%s\n", filepath.Base(name), err, raw[max(0, len(raw)-most):])
	}
	return all.String()
}
