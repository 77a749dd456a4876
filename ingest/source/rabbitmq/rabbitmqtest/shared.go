package rabbitmqtest

import (
	"crypto/rand"
	"testing"

	"github.com/sloengine/sloengine/reliability/nettest"
)

var shared = nettest.Shared[*Node]{Name: "rabbitmq", End: (*Node).close}

// Shared is a node with TLS that the tests of a package have in common. A test names queues and exchanges with [Name]
// and does not stop the node. Its package has a TestMain with [Main].
func Shared(t testing.TB) *Node {
	t.Helper()
	requireRabbitMQ(t)
	return shared.Get(t, func(dir string) *Node {
		return start(t, dir, Options{TLS: true, VHosts: []string{"other"}})
	})
}

// Main wraps the tests of a package so that the shared node ends with them:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(rabbitmqtest.Main(m)) }
func Main(m nettest.Runner) nettest.M { return shared.Main(m) }

// Name is a name that no other test has.
func Name(prefix string) string { return prefix + "-" + rand.Text()[:8] }
