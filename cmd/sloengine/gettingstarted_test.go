package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/nettest"
)

// TestGettingStarted runs docs/getting-started.md: it writes its files, runs its commands in one shell, and compares
// what they print. In the document, ".." stands for any text, and on a line of its own for any lines.
func TestGettingStarted(t *testing.T) {
	t.Parallel()
	if os.Getenv("SLOENGINE_QUICK") != "" {
		t.Skip("make quick starts no servers")
	}
	for _, need := range []string{"bash", "curl", "prometheus", "promtool"} {
		if _, err := exec.LookPath(need); err != nil {
			t.Skip(need + " is not installed")
		}
	}
	steps := documentSteps(t, "../../docs/getting-started.md")
	require.Greater(t, len(steps), 15)
	sh := newShell(t)
	began := time.Now()
	for _, s := range steps {
		if s.file != "" {
			require.NoError(t, os.WriteFile(filepath.Join(sh.dir, s.file), []byte(s.want), 0o644))
			continue
		}
		want := wanted(s.want)
		// What is only read may need another report or scrape until it says so.
		var within time.Duration
		if strings.HasPrefix(s.command, "sloengine status") || strings.Contains(s.command, "/api/v1/query") {
			within = 2 * time.Minute
		}
		var got string
		if !testkit.Within(within, func() bool { got = sh.run(s.command); return want.MatchString(got) }) {
			t.Fatalf("line %d: %s\nprinted\n%s\ninstead of\n%s\nlog of the engine:\n%s", s.line, s.command, got, s.want,
				readText(t, filepath.Join(sh.dir, "engine.log")))
		}
	}
	t.Logf("%d steps in %s", len(steps), time.Since(began).Round(time.Second))
	require.Less(t, time.Since(began), 10*time.Minute)
}

// step is a command with what it prints, or a file with its content.
type step struct {
	line                int
	command, file, want string
}

var fileComment = regexp.MustCompile(`^<!-- file: (\S+) -->$`)

// documentSteps reads the console blocks of a document, and the blocks below a comment that names a file.
func documentSteps(t *testing.T, name string) (steps []step) {
	t.Helper()
	var block, file string // kind of the open block, "" outside; file of the next block
	for i, line := range strings.Split(readText(t, name), "\n") {
		if m := fileComment.FindStringSubmatch(line); m != nil && block == "" {
			file = m[1]
			continue
		}
		kind, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && block == "":
			block = "other"
			if file != "" {
				block = "file"
				steps = append(steps, step{line: i + 1, file: file})
			} else if kind == "console" {
				block = "console"
			}
			file = ""
		case fence:
			block = ""
		case block == "console" && strings.HasPrefix(line, "$ "):
			steps = append(steps, step{line: i + 1, command: line[2:]})
		case block == "console" || block == "file":
			require.NotEmpty(t, steps, "line %d: output without a command", i+1)
			steps[len(steps)-1].want += line + "\n"
		}
	}
	return steps
}

// wanted makes a pattern of the output in a document.
func wanted(text string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`\A`)
	for line := range strings.Lines(text) {
		if line == "..\n" {
			b.WriteString(`(?s:.*)`)
			continue
		}
		parts := strings.Split(strings.TrimRight(line, "\n"), "..")
		for i, p := range parts {
			parts[i] = strings.Join(strings.Fields(" "+regexp.QuoteMeta(p)+" "), `\s+`)
		}
		b.WriteString(`\s*` + strings.Join(parts, `[^\n]*`) + `[^\S\n]*(\n|\z)`)
	}
	b.WriteString(`\s*\z`)
	return regexp.MustCompile(b.String())
}

// shell is one bash for all commands, with addresses of its own in place of those of the document.
type shell struct {
	t         *testing.T
	dir       string
	engine    string
	addresses *strings.Replacer
	in        *os.File
	out       *bufio.Scanner
	n         int
}

func newShell(t *testing.T) *shell {
	t.Helper()
	s := &shell{t: t, dir: t.TempDir()}
	engine, prometheus := nettest.FreeAddress(t), nettest.FreeAddress(t)
	s.engine, s.addresses = engine, strings.NewReplacer("127.0.0.1:8080", engine, "127.0.0.1:9090", prometheus)
	cmd := exec.Command("bash", "--noprofile", "--norc")
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	inR, inW, err := os.Pipe()
	require.NoError(t, err)
	outR, outW, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, outW
	require.NoError(t, cmd.Start())
	inR.Close()
	outW.Close()
	s.in, s.out = inW, bufio.NewScanner(outR)
	s.out.Buffer(nil, 16<<20)
	t.Cleanup(func() {
		inW.Close()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the servers that the document leaves running, too
		_ = cmd.Wait()
		outR.Close()
	})
	// The document uses the default address, which another program may have.
	s.run(`sloengine() {
	case $1 in
	serve) command sloengine "$@" --web.listen-address ` + engine + ` ;;
	status|send) command sloengine "$@" --url http://` + engine + ` ;;
	generate) command sloengine "$@" --engine-url http://` + engine + ` --scrape-interval 5s ;;
	*) command sloengine "$@" ;;
	esac
}`)
	return s
}

// run runs a command and returns what it prints. After serve it waits until the engine is ready.
func (s *shell) run(command string) string {
	s.t.Helper()
	s.n++
	end := fmt.Sprintf("--- end of command %d", s.n)
	command = s.addresses.Replace(command)
	if strings.HasPrefix(command, "sloengine serve") {
		command += "\nfor i in $(seq 600); do curl -fs -o ready http://" + s.engine + "/-/ready && break; sleep 0.1; done"
	}
	_, err := fmt.Fprintf(s.in, "%s\necho; echo %q\n", command, end)
	require.NoError(s.t, err)
	var b strings.Builder
	for s.out.Scan() {
		if s.out.Text() == end {
			return b.String()
		}
		b.WriteString(s.out.Text() + "\n")
	}
	s.t.Fatalf("the shell ended at %s: %v\n%s", command, s.out.Err(), b.String())
	return ""
}
