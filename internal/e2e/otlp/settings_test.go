package otlp

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

// A token is sent as docs/opentelemetry.md writes it. One that is wrong is refused, and both sides say why.
func TestTokens(t *testing.T) {
	t.Parallel()
	tokens := e2etest.WriteFile(t, t.TempDir(), "tokens.yaml", fmt.Sprintf(
		"- {name: shops, sha256: %x, services: ['*'], allow: [send]}\n",
		sha256.Sum256([]byte("a token of thirty-two characters"))))
	e := startEngine(t, "auth: {tokens_file: "+tokens+"}\n")
	e.WaitReady(t)
	const right = "OTEL_EXPORTER_OTLP_HEADERS=Authorization=Bearer%20a%20token%20of%20thirty-two%20characters"
	const wrong = right + "x"
	shops := []*shop{startShop(t, "python", grpc, e.endpoint(grpc), right),
		startShop(t, "node", protobuf, e.endpoint(protobuf), right)}
	const reason = "the token is not in the tokens file"
	refused := map[string]*shop{
		"401, reason: Unauthorized": startShop(t, "python", protobuf, e.endpoint(protobuf), wrong),
		reason:                      startShop(t, "node", grpc, e.endpoint(grpc), wrong, "OTEL_LOG_LEVEL=error"),
	}
	v := visit(t, 20*time.Millisecond, shops...)
	others := visit(t, 20*time.Millisecond, slices.Collect(maps.Values(refused))...)
	testkit.Pause(time.Second)
	v.stop()
	others.stop()
	for _, s := range shops {
		s.stop(t)
	}
	for said, s := range refused {
		require.NotEmpty(t, s.stop(t))
		require.Contains(t, s.log.String(), said)
	}
	e.Stop(t)
	denied := e.LinesWith("request denied")
	require.NotEmpty(t, denied)
	require.Contains(t, denied[0], reason)

	e.configure(t, "") // who compares has no token
	e.start(t)
	e.sameAs(t, v, shops...)
	e.Stop(t)
}

// The Collector accepts the configuration for Kubernetes, and refuses it with a mistake.
func TestCollectorOfKubernetesIsValid(t *testing.T) {
	t.Parallel()
	program, dir := collectorProgram(t), t.TempDir()
	data, err := os.ReadFile("../../../deploy/kubernetes/collector/configmap.yaml")
	require.NoError(t, err)
	var config struct{ Data map[string]string }
	require.NoError(t, yaml.Unmarshal(data, &config))
	text := strings.ReplaceAll(config.Data["collector.yaml"], "/var/lib/collector", dir)
	validate := func(text string) (string, error) {
		file := filepath.Join(dir, "collector.yaml")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		cmd := exec.Command(program, "validate", "--config", file)
		cmd.Env = append(os.Environ(), "SLOENGINE_TOKEN=x")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := validate(text)
	require.NoError(t, err, out)
	require.Empty(t, out)
	out, err = validate(strings.ReplaceAll(text, "queue_size", "queue_length"))
	require.Error(t, err)
	require.Contains(t, out, "queue_length")
}
