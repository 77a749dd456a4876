package rabbitmqtest

import (
	"crypto/rand"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// shared is the node of all tests of a package that can do with names of their own.
var shared struct {
	mu   sync.Mutex
	node *Node
	dir  string
}

// Shared is a node with TLS that the tests of a package have in common. Whoever uses it names queues and exchanges with
// [Name], does not stop it, and has a TestMain with [Main].
func Shared(t testing.TB) *Node {
	t.Helper()
	requireRabbitMQ(t)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.node == nil {
		dir, err := os.MkdirTemp("", "rabbitmq-")
		require.NoError(t, err)
		shared.dir = dir
		shared.node = start(t, dir, Options{TLS: true, VHosts: []string{"other"}})
	}
	return shared.node
}

// Name is a name that no other test has.
func Name(prefix string) string { return prefix + "-" + rand.Text()[:8] }

// M is what goleak.VerifyTestMain takes.
type M struct{ m *testing.M }

// Main wraps the tests of a package so that the shared node ends with them:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(rabbitmqtest.Main(m)) }
func Main(m *testing.M) M { return M{m} }

// Run runs the tests.
func (m M) Run() int {
	code := m.m.Run()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.node != nil {
		shared.node.close()
		shared.node = nil
	}
	if shared.dir != "" {
		_ = os.RemoveAll(shared.dir)
	}
	return code
}
