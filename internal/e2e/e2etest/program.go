// Package e2etest builds the program, runs it as a process of its own, and asks it: what the end-to-end tests beside it
// share. It knows nothing of what they are about.
package e2etest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

var (
	building sync.Mutex
	built    = map[string]string{} // files by their tags
)

// Program builds the program with the tags, once in a process, and returns its file. All packages share the file, which
// go build leaves alone while no source has changed.
func Program(tags ...string) string {
	building.Lock()
	defer building.Unlock()
	key := strings.Join(tags, "-")
	if built[key] == "" {
		file, err := build(tags)
		if err != nil {
			panic(fmt.Sprintf("build the program: %v", err))
		}
		built[key] = file
	}
	return built[key]
}

func build(tags []string) (string, error) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		return "", err
	}
	readFolders(root)
	name := strings.Join(append([]string{"sloengine"}, tags...), "-")
	args := []string{"build", "-buildvcs=false", "-ldflags=-w", "-tags", strings.Join(append(tags, "nomsgpack"), ",")}
	if RaceDetector {
		name += "-race"
		args = append(args, "-race")
	}
	file := filepath.Join(root, "bin", "test", name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return "", err
	}
	lock, err := os.Create(file + ".lock")
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	cmd := exec.Command("go", append(args, "-o", file, "./cmd/sloengine")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return file, nil
}

// readFolders reads every folder of the sources. go test keeps a result while what the test has read is unchanged, and
// sees nothing of what the program is built from.
func readFolders(root string) {
	_ = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && p != root && (d.Name() == "bin" || strings.HasPrefix(d.Name(), ".")) {
			return fs.SkipDir
		}
		return nil
	})
}

// Run runs a command of the program and returns its exit code.
func Run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	cmd := exec.CommandContext(ctx, Program(), args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, errs
	_ = cmd.Run() // the exit code says how it ended
	return cmd.ProcessState.ExitCode()
}

// Command runs a command of the program and returns what it wrote.
func Command(t testing.TB, args ...string) (out, errOut string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	code = Run(t.Context(), args, nil, &o, &e)
	return o.String(), e.String(), code
}
