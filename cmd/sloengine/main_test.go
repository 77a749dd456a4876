package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/logtest"
)

// asProgram, set in the environment, makes the test binary be sloengine itself,
// so that tests run the real program as a process of its own.
const asProgram = "SLOENGINE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(mainCode())
	}
	testscript.Main(m, map[string]func(){"sloengine": func() { os.Exit(mainCode()) }})
}

func mainCode() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// process is a running engine.
type process struct {
	cmd  *exec.Cmd
	base string // address, once it listens
	log  *logtest.Buffer
	done chan struct{} // closed when it has ended
}

var listening = regexp.MustCompile(`msg=listening .*url=(\S+)`)

// start runs sloengine with the arguments and waits until it listens. It ends
// with the test, whatever happens. ok is false if it died before it listened,
// which the crash tests expect.
func start(t testing.TB, env []string, args ...string) (p *process, ok bool) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return startCommand(t, exec.Command(self, args...), env...)
}

// startCommand is start for a command that ends up as the program.
func startCommand(t testing.TB, cmd *exec.Cmd, env ...string) (p *process, ok bool) {
	t.Helper()
	if os.Getenv("SLOENGINE_QUICK") != "" {
		t.Skip("make quick runs no server")
	}
	p = &process{cmd: cmd, log: &logtest.Buffer{}, done: make(chan struct{})}
	p.cmd.Env = append(append(os.Environ(), asProgram+"=1"), env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := p.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	found := make(chan string, 1)
	go func() {
		defer close(p.done)
		lines := bufio.NewScanner(stderr)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			fmt.Fprintln(p.log, lines.Text())
			if m := listening.FindStringSubmatch(lines.Text()); m != nil {
				found <- m[1]
			}
		}
		_ = p.cmd.Wait() // how it ended is asked through ProcessState
	}()
	t.Cleanup(p.kill)
	select {
	case p.base = <-found:
		return p, true
	case <-p.done:
		return p, false
	case <-time.After(60 * time.Second):
		p.kill()
		t.Fatalf("did not listen within 60s:\n%s", p.log)
		return nil, false
	}
}

// serveIn starts an engine on a free port with the spec and settings given.
func serveIn(t testing.TB, dir, specFile, settings string, env ...string) (*process, bool) {
	t.Helper()
	return start(t, env, serveArgs(t, dir, specFile, settings)...)
}

// serveArgs writes the settings and returns the arguments of an engine that uses them.
func serveArgs(t testing.TB, dir, specFile, settings string) []string {
	t.Helper()
	args := []string{"serve", "-f", specFile, "--data-dir", filepath.Join(dir, "data"), "--web.listen-address", "127.0.0.1:0"}
	if settings != "" {
		args = append(args, "-c", writeFile(t, dir, "engine.yaml", settings))
	}
	return args
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.done
}

// stop ends the engine as an operator would and fails the test if it can't.
func (p *process) stop(t testing.TB) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.done:
	case <-time.After(30 * time.Second):
		t.Fatalf("did not stop within 30s:\n%s", p.log)
	}
	require.Equal(t, 0, p.cmd.ProcessState.ExitCode(), p.log.String())
}

// waitReady waits until the engine takes events.
func (p *process) waitReady(t testing.TB) bool {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); {
		res, err := http.Get(p.base + "/-/ready")
		if err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return true
			}
		}
		select {
		case <-p.done:
			return false
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Fatalf("not ready within 60s:\n%s", p.log)
	return false
}

// writeFile writes a file of the test's folder and returns its name.
func writeFile(t testing.TB, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	return file
}
