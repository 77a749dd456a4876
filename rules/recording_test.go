package rules_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/rules"
)

func TestInsuranceGolden(t *testing.T) {
	for _, c := range []struct {
		file  string
		names rules.Naming
	}{{"insurance.yaml", rules.Own}, {"insurance-sloth.yaml", rules.Sloth}} {
		o := year
		o.Names = c.names
		doc := rules.File("Made by sloengine.", recording(t, insurance(t), o))
		parsed(t, doc)
		golden(t, c.file, doc)
		promtool(t, doc)
	}
}

// promtool checks a rule file with the real program of Prometheus 2.42.
func promtool(t *testing.T, doc []byte) {
	t.Helper()
	bin, err := exec.LookPath("promtool")
	if err != nil {
		t.Log("promtool is not installed; only the parser of the module checked the rules")
		return
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(file, doc, 0o600))
	out, err := exec.Command(bin, "check", "rules", file).CombinedOutput()
	require.NoError(t, err, "%s", out)
}
