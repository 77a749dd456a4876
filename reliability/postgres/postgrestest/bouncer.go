package postgrestest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/nettest"
)

// bouncer is where Debian has it, which is in the PATH of root alone.
const bouncer = "/usr/sbin/pgbouncer"

// Bouncer starts a pgbouncer in its mode "transaction" in front of all databases of the server, with two sessions for
// each, and returns its address. It ends with the test, which is skipped where pgbouncer is missing.
func (s *Server) Bouncer(t testing.TB) string {
	t.Helper()
	if _, err := os.Stat(bouncer); err != nil {
		t.Skip("pgbouncer is not installed: apt-get install pgbouncer")
	}
	dir, err := os.MkdirTemp("", "pgbouncer-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	b := Server{dir: dir, as: unprivileged(t, dir)}
	address := nettest.FreeAddress(t)
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	_, target, err := net.SplitHostPort(s.Address)
	require.NoError(t, err)
	users := b.write(t, "users.txt", `"`+Alice+`" "`+AlicePassword+`"`+"\n"+`"`+Mallory+`" "`+MalloryPassword+`"`+"\n")
	settings := b.write(t, "pgbouncer.ini",
		"[databases]\n* = host=127.0.0.1 port="+target+"\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = "+port+
			"\nunix_socket_dir =\nauth_type = scram-sha-256\nauth_file = "+users+
			"\npool_mode = transaction\ndefault_pool_size = 2\nmax_client_conn = 200\n")
	out, err := os.OpenFile(filepath.Join(dir, "output"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer out.Close()
	cmd := exec.Command(bouncer, settings)
	cmd.SysProcAttr, cmd.Dir, cmd.Stdout, cmd.Stderr = b.as, dir, out, out
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var failed error
	testkit.Eventually(t, "pgbouncer is ready", func() bool {
		c, err := pgx.Connect(t.Context(), s.DSNOf(address, Alice, AlicePassword, "postgres"))
		if failed = err; err == nil {
			_ = c.Close(context.Background())
		}
		return err == nil
	}, func() string { return fmt.Sprintf("%v\n%s", failed, b.Log()) })
	return address
}
