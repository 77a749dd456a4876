package postgrestest

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/sloengine/sloengine/reliability/nettest"
)

var shared = nettest.Shared[*Server]{Name: "postgres", End: (*Server).close}

// Shared is a server with TLS that the tests of a package have in common. A test works in a [Server.Database] and
// does not stop the server. Its package has a TestMain with [Main].
func Shared(t testing.TB) *Server {
	t.Helper()
	programs := requirePostgreSQL(t)
	return shared.Get(t, func(dir string) *Server {
		return start(t, programs, dir, Options{TLS: true, Unsafe: true})
	})
}

// Main wraps the tests of a package so that the shared server ends with them:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(postgrestest.Main(m)) }
func Main(m nettest.Runner) nettest.M { return shared.Main(m) }

// databaseName is a name that no other test has.
func databaseName() string { return "t" + strings.ToLower(rand.Text()[:10]) }
