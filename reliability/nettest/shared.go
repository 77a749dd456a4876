package nettest

import (
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Shared is a server that the tests of a package have in common: the first that asks starts it, and it ends after the
// last. Servers that take seconds to start are worth it.
type Shared[T any] struct {
	Name string // of its temporary folder
	End  func(T)

	mu      sync.Mutex // guards the fields below
	dir     string     // "" until the first start, which may fail
	server  T
	running bool
}

// Get is the server. start is given a folder for its data.
func (s *Shared[T]) Get(t testing.TB, start func(dir string) T) T {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running {
		dir, err := os.MkdirTemp("", s.Name+"-")
		require.NoError(t, err)
		s.dir = dir
		s.server, s.running = start(dir), true
	}
	return s.server
}

func (s *Shared[T]) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		s.End(s.server)
		s.running = false
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

// Runner is *testing.M, and the argument type of goleak.VerifyTestMain.
type Runner interface{ Run() int }

// M are the tests of a package with what ends after them.
type M struct {
	m   Runner
	end func()
}

// Main wraps the tests of a package so that the server ends with them.
func (s *Shared[T]) Main(m Runner) M { return M{m, s.close} }

// Run runs the tests.
func (m M) Run() int {
	defer m.end()
	return m.m.Run()
}
