package config

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The examples of docs/notifications.md are settings.
func TestExamplesOfNotifications(t *testing.T) {
	data, err := os.ReadFile("../../../../docs/notifications.md")
	require.NoError(t, err)
	dir := t.TempDir()
	secretsIn(t, dir)
	cert, err := os.ReadFile(dir + "/redis-ca.pem")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(dir+"/ca.pem", cert, 0o600))
	n := 0
	for i, block := range strings.Split(string(data), "```yaml\n") {
		code, _, _ := strings.Cut(block, "```")
		if i == 0 || !strings.HasPrefix(code, "notifications:") {
			continue
		}
		_, err := load(t, dir, code)
		require.NoError(t, err, code)
		n++
	}
	require.GreaterOrEqual(t, n, 2)
}
