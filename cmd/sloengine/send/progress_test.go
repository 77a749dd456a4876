//go:build linux

package send

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sloengine/sloengine/internal/testkit"
)

// terminal opens a pseudo-terminal: what is written to tty can be read from out.
func terminal(t *testing.T) (tty *os.File, out *testkit.Buffer) {
	t.Helper()
	ptmx, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(int(ptmx.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(ptmx.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR, 0)
	require.NoError(t, err)
	out = &testkit.Buffer{}
	var reader sync.WaitGroup
	reader.Go(func() {
		buf := make([]byte, 4096)
		for {
			n, err := ptmx.Read(buf)
			_, _ = out.Write(buf[:n])
			if err != nil { // EIO once the other side is closed
				return
			}
		}
	})
	t.Cleanup(func() {
		_ = tty.Close()
		reader.Wait()
		_ = ptmx.Close()
	})
	return tty, out
}

var percentage = regexp.MustCompile(`(\d+)%`)

// shown is the highest percentage on a terminal.
func shown(out *testkit.Buffer) int {
	most := -1
	for _, m := range percentage.FindAllStringSubmatch(out.String(), -1) {
		n, _ := strconv.Atoi(m[1])
		most = max(most, n)
	}
	return most
}

func TestProgressIsWhatTheServerAcknowledged(t *testing.T) {
	t.Parallel()
	tty, out := terminal(t)
	s := newServer(t)
	blocked, release := make(chan struct{}), make(chan struct{})
	s.before = func(n int, _ http.ResponseWriter, _ []byte) bool {
		if n == 11 { // of 20
			close(blocked)
			<-release
		}
		testkit.Pause(30 * time.Millisecond) // the bar is drawn ten times a second at most
		return false
	}
	lines := eventLines(2000)
	for i := range lines {
		lines[i] = strings.TrimSuffix(lines[i], "}") + strings.Repeat(" ", 1000) + "}"
	}
	o := s.options(write(t, "e", lines...))
	o.Stderr, o.Concurrency, o.BatchEvents, o.BatchWait = tty, 1, 100, time.Hour
	ended := make(chan sent)
	go func() { ended <- run(t, o) }()
	<-blocked
	// Of the ten batches that are acknowledged the bar shows a good part, and nothing of the others.
	require.Positive(t, shown(out), out.String())
	require.LessOrEqual(t, shown(out), 50, out.String())
	close(release)
	res := <-ended
	require.NoError(t, res.err)
	require.Equal(t, 2000, res.Accepted)
}

func TestAProgressBarNeedsATerminal(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	file, err := os.Create(t.TempDir() + "/stderr")
	require.NoError(t, err)
	defer file.Close()
	o := s.options(write(t, "e", eventLines(20)...))
	o.Stderr = file
	require.NoError(t, run(t, o).err)
	written, err := os.ReadFile(file.Name())
	require.NoError(t, err)
	require.Empty(t, string(written))
}
