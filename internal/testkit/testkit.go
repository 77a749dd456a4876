// Package testkit has what the tests of many packages need: golden files, and waiting for what others do.
package testkit

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Golden holds got to a file. With -update it writes the file first.
func Golden[T string | []byte](t testing.TB, file string, got T) {
	t.Helper()
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err, "run the test with -update")
	require.Equal(t, string(want), string(got), "%s is stale: run the test with -update and look at the difference", file)
}

// Pause lets time pass on the real clock where that is what a test needs: the rhythm of a load, the moment of a fault
// and how long it lasts, a time in which nothing happens. To wait for something use Eventually.
func Pause(d time.Duration) { time.Sleep(d) }

// Patience is how long a test waits for something that must happen. A wait that succeeds costs nothing, however busy
// the machine is.
const Patience = 5 * time.Minute

// Eventually waits until something holds, for [Patience] at most. If it does not, more tells what else is known.
func Eventually(t testing.TB, what string, holds func() bool, more ...func() string) {
	t.Helper()
	if Within(Patience, holds) {
		return
	}
	for _, m := range more {
		what += "\n" + m()
	}
	require.Fail(t, "not within "+Patience.String()+": "+what)
}

// Within waits until something holds, and reports whether it does. The longer that takes, the less often it looks.
func Within(d time.Duration, holds func() bool) bool {
	for began := time.Now(); !holds(); {
		waited := time.Since(began)
		if waited > d {
			return false
		}
		time.Sleep(min(5*time.Millisecond+waited/20, 50*time.Millisecond))
	}
	return true
}
