// Package postgrestest runs a real PostgreSQL for tests, which they can kill, restart, and cut off, and pgbouncer in
// front of it. It does not know the engine.
//
// A server is ready after two seconds. Tests that can do with a database of their own share one: see [Shared].
package postgrestest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/nettest"
)

// bin is where Debian has the programs of the server, one folder for each version.
const bin = "/usr/lib/postgresql/*/bin"

// Users of a server. Alice owns the databases that [Server.Database] makes, Mallory may log in and nothing else. The
// superuser is postgres, who gets in without a password through the socket.
const (
	Alice, AlicePassword     = "alice", "alice-secret"
	Mallory, MalloryPassword = "mallory", "mallory-secret"
)

// Options of a Server.
type Options struct {
	// Settings are lines of postgresql.conf.
	Settings []string
	// TLS makes the server offer TLS with a certificate for 127.0.0.1.
	TLS bool
	// Proxied puts a Proxy in front of the TCP listener.
	Proxied bool
	// Unsafe turns off the settings that make commits survive a crash of the machine. A server that is killed
	// keeps them.
	Unsafe bool
}

// Server is a server and its data. Its methods belong to the goroutine of the test.
type Server struct {
	Address string         // host:port
	CAFile  string         // the certificate, with Options.TLS
	Proxy   *nettest.Proxy // with Options.Proxied; outlives a server that is killed

	programs string
	dir      string // of the socket, the data and the log
	as       *syscall.SysProcAttr
	cmd      *exec.Cmd     // nil while it is down
	ended    chan struct{} // closed once cmd has
}

// Start starts a server that ends with the test, and waits until it serves. The test is skipped where PostgreSQL is
// missing. Its folder is no t.TempDir, which belongs to root alone if the test runs as root, and the server never does.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	programs := requirePostgreSQL(t)
	dir, err := os.MkdirTemp("", "postgres-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := start(t, programs, dir, o)
	t.Cleanup(s.close)
	return s
}

// requirePostgreSQL returns the folder of the programs.
func requirePostgreSQL(t testing.TB) string {
	t.Helper()
	if os.Getenv("SLOENGINE_QUICK") != "" {
		t.Skip("make quick runs no PostgreSQL")
	}
	found, _ := filepath.Glob(filepath.Join(bin, "initdb"))
	if len(found) == 0 {
		t.Skip("PostgreSQL is not installed: apt-get install postgresql")
	}
	return filepath.Dir(found[len(found)-1])
}

func start(t testing.TB, programs, dir string, o Options) *Server {
	t.Helper()
	s := &Server{Address: nettest.FreeAddress(t), programs: programs, dir: dir, as: unprivileged(t, dir)}
	started := false
	defer func() {
		if !started {
			s.close()
		}
	}()
	s.initialize(t, o)
	s.run(t)
	s.Admin(t, "postgres", "CREATE ROLE "+Alice+" LOGIN PASSWORD '"+AlicePassword+"'",
		"CREATE ROLE "+Mallory+" LOGIN PASSWORD '"+MalloryPassword+"'")
	if o.Proxied {
		s.Proxy = nettest.StartProxy(t, "127.0.0.1:0", s.Address)
	}
	started = true
	return s
}

// unprivileged is how processes are started that refuse to run as root: as an account that owns nothing else.
func unprivileged(t testing.TB, dir string) *syscall.SysProcAttr {
	t.Helper()
	as := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		return as
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		account, err = user.Lookup("nobody")
	}
	require.NoError(t, err)
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	require.NoError(t, err)
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	require.NoError(t, err)
	require.NoError(t, os.Chown(dir, int(uid), int(gid)))
	as.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), NoSetGroups: true}
	return as
}

func (s *Server) close() {
	s.Kill()
	if s.Proxy != nil {
		s.Proxy.Close()
	}
}

// write makes a file that only the server can read.
func (s *Server) write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(s.dir, name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	if c := s.as.Credential; c != nil {
		require.NoError(t, os.Chown(path, int(c.Uid), int(c.Gid)))
	}
	return path
}

func (s *Server) initialize(t testing.TB, o Options) {
	t.Helper()
	data := filepath.Join(s.dir, "data")
	cmd := exec.Command(filepath.Join(s.programs, "initdb"), "-D", data, "-U", "postgres",
		"--no-sync", "--no-instructions",
		"-E", "UTF8", "--locale", "C", "-A", "trust")
	cmd.SysProcAttr, cmd.Dir = s.as, s.dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "initdb: %s", out)
	_, port, err := net.SplitHostPort(s.Address)
	require.NoError(t, err)
	settings := append([]string{
		"listen_addresses = '127.0.0.1'", "port = " + port, "unix_socket_directories = '" + s.dir + "'",
		"max_connections = 60", "shared_buffers = 32MB", "jit = off", "log_min_messages = warning",
		"log_line_prefix = '%m %p '",
		"password_encryption = scram-sha-256", "wal_level = minimal", "max_wal_senders = 0",
	}, o.Settings...)
	if o.Unsafe {
		settings = append(settings, "fsync = off", "full_page_writes = off")
	}
	hba := []string{"local all all trust", "host all all 127.0.0.1/32 scram-sha-256"}
	if o.TLS {
		cert, key := nettest.SelfSigned(t)
		s.CAFile = s.write(t, "cert.pem", string(cert))
		settings = append(settings, "ssl = on", "ssl_cert_file = '"+s.CAFile+"'",
			"ssl_key_file = '"+s.write(t, "key.pem", string(key))+"'")
	}
	s.write(t, "data/pg_hba.conf", strings.Join(hba, "\n")+"\n")
	s.write(t, "data/postgresql.conf", strings.Join(settings, "\n")+"\n")
}

// run begins the process and waits until it serves. Processes of a server that was killed may hold its memory for a
// moment, in which a new one ends at once.
func (s *Server) run(t testing.TB) {
	t.Helper()
	require.Nil(t, s.cmd, "the server runs already")
	var failed error
	testkit.Eventually(t, "PostgreSQL is ready", func() bool {
		if s.cmd == nil {
			s.begin(t)
		}
		conn, err := s.admin(t.Context(), "postgres")
		if failed = err; err == nil {
			require.NoError(t, conn.Close(context.Background()))
			return true
		}
		select {
		case <-s.ended:
			s.cmd = nil
			if !strings.Contains(s.Log(), "pre-existing shared memory block") {
				t.Fatalf("PostgreSQL ended while it started\n%s", s.Log())
			}
		default:
		}
		return false
	}, func() string { return fmt.Sprintf("%v\n%s", failed, s.Log()) })
}

func (s *Server) begin(t testing.TB) {
	t.Helper()
	out, err := os.OpenFile(filepath.Join(s.dir, "output"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer out.Close()
	cmd := exec.Command(filepath.Join(s.programs, "postgres"), "-D", filepath.Join(s.dir, "data"))
	cmd.SysProcAttr, cmd.Dir, cmd.Stdout, cmd.Stderr = s.as, s.dir, out, out
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	s.cmd, s.ended = cmd, ended
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
}

// Kill kills the server and all its processes with SIGKILL.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	pid := s.cmd.Process.Pid
	_ = syscall.Kill(pid, syscall.SIGSTOP) // it starts no more processes
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, child := range strings.Fields(string(raw)) {
		if n, err := strconv.Atoi(child); err == nil {
			_ = syscall.Kill(n, syscall.SIGKILL)
		}
	}
	_ = s.cmd.Process.Kill()
	<-s.ended
	s.cmd = nil
}

// Stop ends all sessions and stops the server in an orderly way.
func (s *Server) Stop() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGINT)
	<-s.ended
	s.cmd = nil
}

// Restart starts it again after Kill or Stop, on the same port and data, and waits until it serves.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.run(t)
}

// DSN is that of a database for Alice, with her password.
func (s *Server) DSN(database string) string {
	return s.DSNOf(s.Address, Alice, AlicePassword, database)
}

// ProxiedDSN is DSN behind the Proxy.
func (s *Server) ProxiedDSN(database string) string {
	return s.DSNOf(s.Proxy.Address, Alice, AlicePassword, database)
}

// DSNOf is a DSN without TLS for an address and a user; "" is no password.
func (s *Server) DSNOf(address, user, password, database string) string {
	if password != "" {
		user += ":" + password
	}
	return "postgres://" + user + "@" + address + "/" + database + "?sslmode=disable"
}

// Database makes an empty database of Alice for the test, and returns its name. It is dropped at the end, if the server
// still runs.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := databaseName()
	s.Admin(t, "postgres", "CREATE DATABASE "+name+" OWNER "+Alice)
	t.Cleanup(func() {
		if s.cmd != nil {
			s.Admin(t, "postgres", "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
		}
	})
	return name
}

// Conn is a connection of Alice to a database. It ends with the test.
func (s *Server) Conn(t testing.TB, database string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), s.DSN(database))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// Exec runs statements as Alice.
func (s *Server) Exec(t testing.TB, database string, statements ...string) {
	t.Helper()
	c, err := pgx.Connect(context.Background(), s.DSN(database))
	require.NoError(t, err)
	execAll(t, c, statements)
}

// Admin runs statements as the superuser.
func (s *Server) Admin(t testing.TB, database string, statements ...string) {
	t.Helper()
	c, err := s.admin(context.Background(), database)
	require.NoError(t, err)
	execAll(t, c, statements)
}

func (s *Server) admin(ctx context.Context, database string) (*pgx.Conn, error) {
	_, port, _ := net.SplitHostPort(s.Address)
	return pgx.Connect(ctx, "host="+s.dir+" port="+port+" user=postgres dbname="+database+" connect_timeout=10")
}

func execAll(t testing.TB, c *pgx.Conn, statements []string) {
	t.Helper()
	defer c.Close(context.Background())
	for _, q := range statements {
		_, err := c.Exec(context.Background(), q, pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err, q)
	}
}

// Log returns the end of the server's output.
func (s *Server) Log() string {
	raw, err := os.ReadFile(filepath.Join(s.dir, "output"))
	const most = 8000
	if err != nil {
		return err.Error()
	}
	return string(raw[max(0, len(raw)-most):])
}

// Sessions are the last statements of the sessions in a database, one a line.
func (s *Server) Sessions(t testing.TB, database string) (text string) {
	t.Helper()
	c, err := s.admin(context.Background(), "postgres")
	require.NoError(t, err)
	defer c.Close(context.Background())
	require.NoError(t, c.QueryRow(context.Background(),
		"SELECT coalesce(string_agg(query, E'\n'), '') FROM pg_stat_activity WHERE datname = $1", database).Scan(&text))
	return text
}
