package kafkatest

import (
	"testing"

	"github.com/sloengine/sloengine/reliability/nettest"
)

var shared = nettest.Shared[*Cluster]{Name: "kafka", End: (*Cluster).close}

// Shared is a cluster of one node, with SASL and TLS, that the tests of a package have in common. A test uses
// topics and groups of its own and does not stop the cluster. Its package has a TestMain with [Main].
func Shared(t testing.TB) *Cluster {
	t.Helper()
	home := requireKafka(t)
	return shared.Get(t, func(dir string) *Cluster {
		return start(t, home, dir, Options{SASL: true, TLS: true})
	})
}

// Main wraps the tests of a package so that the shared cluster ends with them:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(kafkatest.Main(m)) }
func Main(m nettest.Runner) nettest.M { return shared.Main(m) }
