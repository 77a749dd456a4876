package ratelimit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// attrs are attributes for tests.
type attrs map[string]string

func (a attrs) Attr(name string) ([]byte, bool) {
	v, ok := a[name]
	return []byte(v), ok
}

func mustCompile(t testing.TB, c Config) *Policy {
	t.Helper()
	p, err := Compile(c)
	require.NoError(t, err)
	return p
}

func mustTable(t testing.TB, o TableOptions) *Table {
	t.Helper()
	table, err := NewTable(o)
	require.NoError(t, err)
	return table
}

func mustLimiter(t testing.TB, o Options) *Limiter {
	t.Helper()
	l, err := New(o)
	require.NoError(t, err)
	return l
}

// one decides about one event.
func one(t testing.TB, l *Limiter, now time.Time, c *Caller, s *Subject) *Ticket {
	t.Helper()
	var b Tickets
	l.Policy().Add(c, s, &b)
	require.NoError(t, l.Decide(t.Context(), now, []*Tickets{&b}))
	return &b.List[0]
}

func typed(typ string) *Subject { return &Subject{Service: []byte("shop"), Type: []byte(typ)} }

// passes decides about n events at once and says how many passed.
func passes(t testing.TB, l *Limiter, now time.Time, c *Caller, s *Subject, n int) (passed int) {
	t.Helper()
	var b Tickets
	for range n {
		l.Policy().Add(c, s, &b)
	}
	require.NoError(t, l.Decide(t.Context(), now, []*Tickets{&b}))
	for i := range b.List {
		if b.List[i].Verdict.Action == Pass {
			passed++
		}
	}
	return passed
}
