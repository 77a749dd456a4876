package kafkatest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// MockVersion is the newest version of Kafka whose requests the mock cluster of Debian's librdkafka answers correctly.
// Its answers to newer ones, for versions, for records and for offsets, are not those of the protocol.
const MockVersion = "0.11.0"

// mockBootstrap is how librdkafka says where its mock cluster listens.
var mockBootstrap = regexp.MustCompile(`original bootstrap.servers .* replaced with (\S+)`)

// Mock starts a mock cluster of librdkafka, which shares no code with Apache Kafka and with the engine's client, and
// returns the addresses of its brokers. A client needs [MockVersion]. The cluster creates topics by itself, with 4
// partitions, holds everything in memory, and ends with the test, which is skipped where kcat is missing.
func Mock(t testing.TB, brokers int) []string {
	t.Helper()
	if os.Getenv("SLOENGINE_QUICK") != "" {
		t.Skip("make quick runs no Kafka")
	}
	if _, err := exec.LookPath("kcat"); err != nil {
		t.Skip("kcat is not installed: apt-get install kcat")
	}
	// The consumer of a topic without records runs until it is killed, and with it the mock cluster.
	cmd := exec.Command("kcat", "-X", fmt.Sprintf("test.mock.num.brokers=%d", brokers), "-b", "x",
		"-C", "-t", "kcat-waits")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var seen strings.Builder
	lines := bufio.NewReader(stderr)
	for {
		line, err := lines.ReadString('\n')
		seen.WriteString(line)
		if m := mockBootstrap.FindStringSubmatch(line); m != nil {
			go func() { _, _ = io.Copy(io.Discard, stderr) }() // ends with the process
			return strings.Split(m[1], ",")
		}
		require.NoError(t, err, seen.String())
	}
}
