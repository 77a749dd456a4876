package main

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
)

// TestContents holds the list of modules in the binary, with the number of packages of each: a new one, or more of an
// old one, is a decision that a review sees. The size of the binary is checked by scripts/release.
func TestContents(t *testing.T) {
	t.Parallel()
	const path = "testdata/contents.txt"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-tags", "nomsgpack", "-deps", "-f",
		"{{with .Module}}{{.Path}}{{end}}", ".").Output()
	require.NoError(t, err)
	packages := map[string]int{}
	for _, module := range strings.Fields(string(out)) {
		packages[module]++
	}
	delete(packages, "github.com/sloengine/sloengine")
	var lines []string
	for module, n := range packages {
		lines = append(lines, fmt.Sprintf("%s %d\n", module, n))
	}
	slices.Sort(lines)
	testkit.Golden(t, path, strings.Join(lines, "")) // modules and their packages in the binary
}
