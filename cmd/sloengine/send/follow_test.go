package send

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
)

// following is a run in the background on a file that the test writes.
type following struct {
	*server
	path string
	stop context.CancelFunc
	done chan error
}

func follow(t *testing.T, change func(*Options)) *following {
	t.Helper()
	f := &following{server: newServer(t), path: filepath.Join(t.TempDir(), "access.log"), done: make(chan error, 1)}
	o := f.options(f.path)
	o.Follow, o.Service, o.Stdout = true, "web", io.Discard
	if change != nil {
		change(&o)
	}
	var ctx context.Context
	ctx, f.stop = context.WithCancel(t.Context())
	go func() { f.done <- Run(ctx, o) }()
	t.Cleanup(f.stop)
	return f
}

func (f *following) append(t *testing.T, text string) {
	t.Helper()
	file, err := os.OpenFile(f.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	_, err = file.WriteString(text)
	require.NoError(t, err)
	require.NoError(t, file.Close())
}

func (f *following) waitFor(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return f.total() >= n }, testkit.Patience, 2*time.Millisecond)
	require.Equal(t, n, f.total())
}

func (f *following) end(t *testing.T) {
	t.Helper()
	f.stop()
	require.NoError(t, <-f.done, "an interrupt is how following ends")
}

func TestFollowGrowingFile(t *testing.T) {
	f := follow(t, nil)
	lines := accessLines(60)
	testkit.Pause(20 * time.Millisecond) // it waits for the file to appear
	f.append(t, strings.Join(lines[:25], "\n")+"\n")
	f.waitFor(t, 25)
	half := lines[25]
	f.append(t, half[:30])
	testkit.Pause(30 * time.Millisecond)
	require.Equal(t, 25, f.total(), "half a line is not a line")
	f.append(t, half[30:]+"\n")
	f.waitFor(t, 26)
	f.append(t, lines[26]) // never finished
	testkit.Pause(30 * time.Millisecond)
	f.end(t)
	require.Equal(t, 26, f.total())
}

func TestFollowThroughRotation(t *testing.T) {
	f := follow(t, nil)
	lines := accessLines(60)
	f.append(t, strings.Join(lines[:20], "\n")+"\n")
	f.waitFor(t, 20)
	// The writer keeps the old file open for a while after it was renamed.
	old, err := os.OpenFile(f.path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	require.NoError(t, os.Rename(f.path, f.path+".1"))
	_, err = old.WriteString(strings.Join(lines[20:30], "\n") + "\n")
	require.NoError(t, err)
	f.waitFor(t, 30)
	require.NoError(t, old.Close())
	f.append(t, strings.Join(lines[30:50], "\n")+"\n")
	f.waitFor(t, 50)
	f.append(t, strings.Join(lines[50:], "\n")+"\n")
	f.waitFor(t, 60)
	f.end(t)

	// What was followed and what is sent later are the same events.
	o := f.options(f.path+".1", f.path)
	o.Service = "web"
	res := run(t, o)
	require.NoError(t, res.err)
	require.Equal(t, 60, res.Duplicates)
}

func TestFollowThroughTruncation(t *testing.T) {
	f := follow(t, nil)
	lines := accessLines(40)
	f.append(t, strings.Join(lines[:30], "\n")+"\n")
	f.waitFor(t, 30)
	require.NoError(t, os.Truncate(f.path, 0))
	f.append(t, strings.Join(lines[30:], "\n")+"\n") // shorter than what was read, whenever that is noticed
	f.waitFor(t, 40)
	f.end(t)
}

func TestFollowSeveralFiles(t *testing.T) {
	var other string
	f := follow(t, func(o *Options) {
		other = filepath.Join(t.TempDir(), "other.log")
		o.Files = append(o.Files, other)
	})
	lines := accessLines(20)
	f.append(t, strings.Join(lines[:10], "\n")+"\n")
	require.NoError(t, os.WriteFile(other, []byte(strings.Join(lines[10:], "\n")+"\n"), 0o600))
	f.waitFor(t, 20)
	f.end(t)
}

func TestFollowSurvivesAServerRestart(t *testing.T) {
	f := follow(t, nil)
	lines := accessLines(30)
	f.append(t, strings.Join(lines[:10], "\n")+"\n")
	f.waitFor(t, 10)
	f.CloseClientConnections()
	f.append(t, strings.Join(lines[10:], "\n")+"\n")
	f.waitFor(t, 30)
	f.end(t)
}

func TestFollowRefusesWhatIsNoFile(t *testing.T) {
	f := follow(t, func(o *Options) { o.Files = []string{t.TempDir()} })
	require.ErrorContains(t, <-f.done, "not a regular file")
}
