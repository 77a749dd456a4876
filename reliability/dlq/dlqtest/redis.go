package dlqtest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// Redis starts a real redis-server on a free port and returns a client. Both end with the
// test, which is skipped where the program is missing.
func Redis(t testing.TB) *redis.Client {
	t.Helper()
	if os.Getenv("SLOENGINE_QUICK") != "" {
		t.Skip("make quick runs no Redis")
	}
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed")
	}
	for range 5 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		port := listener.Addr().(*net.TCPAddr).Port
		require.NoError(t, listener.Close())
		cmd := exec.Command(program, "--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir())
		require.NoError(t, cmd.Start())
		client := redis.NewClient(&redis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", port), DisableIdentity: true})
		for range 200 {
			if err = client.Ping(context.Background()).Err(); err == nil {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		if err != nil { // perhaps somebody else took the port
			_ = client.Close()
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			continue
		}
		t.Cleanup(func() {
			_ = client.Close()
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		return client
	}
	require.Fail(t, "redis-server does not start")
	return nil
}
