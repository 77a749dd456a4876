package alerts

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

var docs = filepath.Join("..", "docs")

// Every alert that can be generated has a page, and every page an alert.
func TestRunbooks(t *testing.T) {
	names := Names()
	slices.Sort(names)
	require.Equal(t, names, slices.Compact(slices.Clone(names)))
	var pages []string
	entries, err := os.ReadDir(filepath.Join(docs, "runbooks"))
	require.NoError(t, err)
	for _, e := range entries {
		pages = append(pages, strings.TrimSuffix(e.Name(), ".md"))
	}
	require.Equal(t, names, pages)

	link := regexp.MustCompile(`\]\(([^)]+)\)`)
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(docs, "runbooks", name+".md"))
		require.NoError(t, err)
		text := string(data)
		require.True(t, strings.HasPrefix(text, "# "+name+"\n"), name)
		for _, heading := range []string{"What it means", "How to see it", "First steps", "Usual causes", "When it resolves"} {
			_, after, ok := strings.Cut(text, "\n## "+heading+"\n\n")
			require.True(t, ok, "%s has no %q", name, heading)
			require.Greater(t, len(strings.TrimSpace(strings.SplitN(after, "\n## ", 2)[0])), 15, "%s: %s", name, heading)
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			file, _, _ := strings.Cut(m[1], "#")
			require.FileExists(t, filepath.Join(docs, "runbooks", file), name)
		}
		// What a page tells to look at exists.
		for _, metric := range regexp.MustCompile("sloengine_[a-z_]+").FindAllString(text, -1) {
			require.True(t, knownInTree(t, metric), "%s names %s", name, metric)
		}
	}
}

// knownInTree looks for a metric in the alerts' list and in the code of the engine.
func knownInTree(t *testing.T, metric string) bool {
	if slices.ContainsFunc(EngineMetrics(), func(m Metric) bool { return m.Name == metric }) {
		return true
	}
	for _, pattern := range []string{"ingest/*.go", "sla/evaluator/*.go", "reliability/*/*.go", "rules/series/*.go", "cmd/sloengine/*.go"} {
		files, err := filepath.Glob(filepath.Join("..", pattern))
		require.NoError(t, err)
		for _, f := range files {
			data, err := os.ReadFile(f)
			require.NoError(t, err)
			if strings.Contains(string(data), metric) {
				return true
			}
		}
	}
	return false
}

// Families that are not assumed are in the engine's code under the same name.
func TestEngineMetricsExist(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range EngineMetrics() {
		require.False(t, seen[m.Name], m.Name)
		seen[m.Name] = true
		require.Equal(t, m.Type == "counter", strings.HasSuffix(m.Name, "_total"), m.Name)
		require.NotEmpty(t, m.Help)
		if m.Assumed {
			continue
		}
		found := false
		for _, pattern := range []string{"ingest/*.go", "sla/evaluator/*.go", "reliability/wal/*.go", "cmd/sloengine/*.go"} {
			files, err := filepath.Glob(filepath.Join("..", pattern))
			require.NoError(t, err)
			for _, f := range files {
				data, err := os.ReadFile(f)
				require.NoError(t, err)
				found = found || regexp.MustCompile(`"`+m.Name+`["{]|`+"`"+m.Name+`[{`+"`]").Match(data)
			}
		}
		require.True(t, found, m.Name)
	}
}

func TestDocsNameEverything(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(docs, "alerts.md"))
	require.NoError(t, err)
	text := string(data)
	for _, n := range Names() {
		require.Contains(t, text, "[`"+n+"`](runbooks/"+n+".md)")
	}
	for _, n := range sla.CatalogueNames() {
		require.Contains(t, text, "`"+n+"`")
	}
	for _, m := range EngineMetrics() {
		if m.Assumed {
			require.Contains(t, text, "`"+m.Name+"`")
		}
	}
	s := simple(t, "a/b", "99.9")
	tiers, _ := Tiers(s)
	for _, x := range tiers {
		row := "| `" + x.Name + "` | " + slo.FormatDuration(x.Long) + " | " + slo.FormatDuration(x.Short) + " | " + percent(x.Share) + " | " + number(x.Factor) + " | " + percent(x.Threshold) + " |"
		require.Contains(t, text, row)
	}
}
