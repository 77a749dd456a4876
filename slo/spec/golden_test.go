package spec

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
)

// Each testdata/NAME.yaml has a NAME.problems with everything that is wrong in
// it, which is nothing for those whose name begins with ok.
func TestGoldenProblems(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.yaml")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(inputs), 40)
	for _, in := range inputs {
		t.Run(strings.TrimSuffix(filepath.Base(in), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(in)
			require.NoError(t, err)
			s, ps := Load([]File{{Name: filepath.Base(in), Data: data}})
			require.Equal(t, ps.HasErrors(), s == nil, "a Spec is given exactly if there is no error")
			if strings.HasPrefix(filepath.Base(in), "ok-") {
				require.Empty(t, ps.Errors())
			} else {
				require.NotEmpty(t, ps)
			}
			checkProblems(t, data, ps)

			golden := strings.TrimSuffix(in, ".yaml") + ".problems"
			testkit.Golden(t, golden, ps.String())
			checkWritten(t, strings.TrimSuffix(in, ".yaml")+".written", s)
		})
	}
}

// checkWritten compares a spec, written in the own format, with its golden file.
// Specs with errors have none.
func checkWritten(t *testing.T, golden string, s *Spec) {
	t.Helper()
	if s == nil {
		require.NoFileExists(t, golden)
		return
	}
	text := Encode(s)
	testkit.Golden(t, golden, text)
	requireRoundTrip(t, s)
}

func TestNoStaleGolden(t *testing.T) {
	for _, end := range []string{".problems", ".written"} {
		goldens, err := filepath.Glob("testdata/*" + end)
		require.NoError(t, err)
		for _, g := range goldens {
			require.FileExists(t, strings.TrimSuffix(g, end)+".yaml")
		}
	}
}

// lineBreaks are those of YAML 1.1.
var lineBreaks = regexp.MustCompile("\r\n|[\r\n\u0085\u2028\u2029]")

// checkProblems checks what holds for the problems of every input.
func checkProblems(t testing.TB, data []byte, ps Problems) {
	t.Helper()
	lines := lineBreaks.Split(string(data), -1)
	seen := map[Problem]bool{}
	for i, p := range ps {
		require.False(t, seen[p], "told twice: %s", p)
		seen[p] = true
		require.NotEmpty(t, p.Message)
		require.NotContains(t, p.String(), "\n")
		require.NotContains(t, p.String(), "\x1b")
		require.GreaterOrEqual(t, p.Line, 1, "%s", p)
		require.LessOrEqual(t, p.Line, len(lines), "%s", p)
		require.GreaterOrEqual(t, p.Column, 1, "%s", p)
		require.LessOrEqual(t, p.Column, len([]rune(lines[p.Line-1]))+1, "%s", p)
		if i > 0 {
			require.False(t, ps[i-1].Line > p.Line, "not sorted: %s", p)
		}
	}
}
