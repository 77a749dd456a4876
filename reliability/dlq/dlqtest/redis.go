package dlqtest

import (
	"context"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/nettest"
	"github.com/sloengine/sloengine/reliability/redisconn"
)

// Server is a real redis-server with a client.
type Server struct {
	*redisconn.Client
	Addr string
}

// Do runs a command.
func (s Server) Do(t testing.TB, args ...any) any {
	t.Helper()
	answer, err := s.Client.Do(context.Background(), args...)
	require.NoError(t, err)
	return answer
}

// Redis starts a real redis-server on a free port and returns a client. Both end with the
// test, which is skipped where the program is missing.
func Redis(t testing.TB) Server {
	t.Helper()
	if os.Getenv("SLOENGINE_QUICK") != "" {
		t.Skip("make quick runs no Redis")
	}
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed")
	}
	address := nettest.FreeAddress(t)
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	cmd := exec.Command(program, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly",
		"no", "--dir", t.TempDir())
	require.NoError(t, cmd.Start())
	client := redisconn.New(redisconn.Options{Addrs: []string{address}, Timeout: 10 * time.Second})
	t.Cleanup(func() {
		_ = client.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	require.Eventually(t, func() bool { _, err := client.Do(context.Background(), "PING"); return err == nil },
		60*time.Second, 20*time.Millisecond,
		"redis-server does not start")
	return Server{client, address}
}
