package nettest

import (
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Ports for servers lie below those that the system gives to connections. A process takes whole blocks of them.
const (
	firstPort = 20_000
	blockSize = 40
	blocks    = 300
)

// ports are those of this process. It listens on the first port of each block until it ends, which keeps other
// processes away, and gives each of the others once.
var ports struct {
	mu          sync.Mutex // guards the fields below
	listeners   []net.Listener
	next, until int
}

// FreeAddress finds a port of 127.0.0.1 that no other test is given and no connection gets, so that it stays free until
// the server starts, and while it is down.
func FreeAddress(t testing.TB) string {
	t.Helper()
	ports.mu.Lock()
	defer ports.mu.Unlock()
	for range 10 * blocks * blockSize {
		if ports.next == ports.until {
			first := firstPort + blockSize*mathrand.IntN(blocks)
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first))
			if err != nil {
				continue
			}
			ports.listeners = append(ports.listeners, l)
			ports.next, ports.until = first+1, first+blockSize
		}
		address := fmt.Sprintf("127.0.0.1:%d", ports.next)
		ports.next++
		if l, err := net.Listen("tcp", address); err == nil {
			require.NoError(t, l.Close())
			return address
		}
	}
	t.Fatal("no free port")
	return ""
}

// FreePort is the port of a FreeAddress.
func FreePort(t testing.TB) string {
	t.Helper()
	_, port, err := net.SplitHostPort(FreeAddress(t))
	require.NoError(t, err)
	return port
}
