package e2etest

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/stretchr/testify/require"
)

// Process is a running engine.
type Process struct {
	Cmd  *exec.Cmd
	Base string // address, once it listens
	Log  *testkit.Buffer
	Done chan struct{} // closed when it has ended
}

var listening = regexp.MustCompile(`msg=listening .*url=(\S+)`)

// Start runs sloengine with the arguments and waits until it listens. It ends
// with the test, whatever happens. ok is false if it died before it listened,
// which the crash tests expect.
func Start(t testing.TB, env []string, args ...string) (p *Process, ok bool) {
	t.Helper()
	return StartCommand(t, exec.Command(Program(), args...), env...)
}

// StartCommand is Start for a command that ends up as the program.
func StartCommand(t testing.TB, cmd *exec.Cmd, env ...string) (p *Process, ok bool) {
	t.Helper()
	p = &Process{Cmd: cmd, Log: &testkit.Buffer{}, Done: make(chan struct{})}
	p.Cmd.Env = append(os.Environ(), env...)
	p.Cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := p.Cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, p.Cmd.Start())
	found := make(chan string, 1)
	go func() {
		defer close(p.Done)
		lines := bufio.NewScanner(stderr)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			fmt.Fprintln(p.Log, lines.Text())
			if m := listening.FindStringSubmatch(lines.Text()); m != nil {
				found <- m[1]
			}
		}
		_ = p.Cmd.Wait() // how it ended is asked through ProcessState
	}()
	t.Cleanup(p.Kill)
	select {
	case p.Base = <-found:
		return p, true
	case <-p.Done:
		return p, false
	case <-time.After(testkit.Patience):
		p.Kill()
		t.Fatalf("did not listen within %s:\n%s", testkit.Patience, p.Log)
		return nil, false
	}
}

// ServeIn starts an engine on a free port with the spec and settings given.
func ServeIn(t testing.TB, dir, specFile, settings string, env ...string) (*Process, bool) {
	t.Helper()
	return Start(t, env, ServeArgs(t, dir, specFile, settings)...)
}

// Serve is ServeIn for an engine that must become ready.
func Serve(t testing.TB, dir, specFile, settings string, env ...string) *Process {
	t.Helper()
	return mustBeReady(t, env, ServeArgs(t, dir, specFile, settings))
}

// Ready is Start for an engine that must become ready.
func Ready(t testing.TB, args ...string) *Process {
	t.Helper()
	return mustBeReady(t, nil, args)
}

func mustBeReady(t testing.TB, env, args []string) *Process {
	t.Helper()
	p, ok := Start(t, env, args...)
	require.True(t, ok && p.WaitReady(t), p.Log.String())
	return p
}

// ServeArgs writes the settings and returns the arguments of an engine that uses them.
func ServeArgs(t testing.TB, dir, specFile, settings string) []string {
	t.Helper()
	args := []string{"serve", "-f", specFile, "--data-dir", filepath.Join(dir, "data"),
		"--web.listen-address", "127.0.0.1:0"}
	if settings != "" {
		args = append(args, "-c", WriteFile(t, dir, "engine.yaml", settings))
	}
	return args
}

// Kill ends the engine at once.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill() // it may have ended already
	<-p.Done
}

// Stop ends the engine as an operator would and fails the test if it can't.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	require.NoError(t, p.Cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.Done:
	case <-time.After(testkit.Patience):
		t.Fatalf("did not stop within %s:\n%s", testkit.Patience, p.Log)
	}
	require.Equal(t, 0, p.Cmd.ProcessState.ExitCode(), p.Log.String())
}

// WaitReady waits until the engine takes events.
func (p *Process) WaitReady(t testing.TB) bool {
	t.Helper()
	for deadline := time.Now().Add(testkit.Patience); time.Now().Before(deadline); {
		res, err := http.Get(p.Base + "/-/ready")
		if err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return true
			}
		}
		select {
		case <-p.Done:
			return false
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Fatalf("not ready within %s:\n%s", testkit.Patience, p.Log)
	return false
}

// WriteFile writes a file of the test's folder and returns its name.
func WriteFile(t testing.TB, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	return file
}

// LinesWith are the lines of the log that hold a text.
func (p *Process) LinesWith(text string) (lines []string) {
	for line := range strings.Lines(p.Log.String()) {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}

// CPUSeconds is the user and system time that a process has used.
func CPUSeconds(t testing.TB, pid int) float64 {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	// The name in parentheses may hold spaces; the fields after it do not.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+2:]))
	user, err := strconv.ParseFloat(fields[11], 64)
	require.NoError(t, err)
	system, err := strconv.ParseFloat(fields[12], 64)
	require.NoError(t, err)
	return (user + system) / 100 // USER_HZ, 100 on every Linux that Go runs on
}
