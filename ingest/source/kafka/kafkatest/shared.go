package kafkatest

import (
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// shared is the cluster of all tests of a package that can do with topics of their own.
var shared struct {
	mu      sync.Mutex
	cluster *Cluster
	dir     string
}

// Shared is a cluster of one node, with SASL and TLS, that the tests of a package have in common. Whoever uses it
// has its own topics and groups, does not stop it, and has a TestMain with [Main].
func Shared(t testing.TB) *Cluster {
	t.Helper()
	home := requireKafka(t)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.cluster == nil {
		dir, err := os.MkdirTemp("", "kafka-")
		require.NoError(t, err)
		shared.dir = dir
		shared.cluster = start(t, home, dir, Options{SASL: true, TLS: true})
	}
	return shared.cluster
}

// M is what goleak.VerifyTestMain takes.
type M struct{ m *testing.M }

// Main wraps the tests of a package so that the shared cluster ends with them:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(kafkatest.Main(m)) }
func Main(m *testing.M) M { return M{m} }

// Run runs the tests.
func (m M) Run() int {
	code := m.m.Run()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.cluster != nil {
		shared.cluster.close()
		shared.cluster = nil
	}
	if shared.dir != "" {
		_ = os.RemoveAll(shared.dir)
	}
	return code
}
