package alerts

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/metric"
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
		meaning, ok := strings.CutPrefix(text, "# "+name+"\n\n")
		require.True(t, ok, name)
		meaning, after, ok := strings.Cut(meaning, "\n\n## Steps\n\n")
		require.True(t, ok, "%s has no steps", name)
		steps, resolves, own := strings.Cut(after, "\n\n## Resolves\n\n")
		require.Greater(t, len(meaning), 50, "%s: %s", name, meaning)
		require.Contains(t, steps, "\n2. ", "%s: %s", name, steps)
		require.Equal(t, own, len(resolves) > 15, "%s: %s", name, resolves)
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			file, _, _ := strings.Cut(m[1], "#")
			require.FileExists(t, filepath.Join(docs, "runbooks", file), name)
		}
		// What a page tells to look at exists.
		for _, family := range regexp.MustCompile("sloengine_[a-z_]+").FindAllString(text, -1) {
			require.NotNil(t, metric.Lookup(family), "%s names %s", name, family)
		}
	}
}

func TestDocsNameEverything(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(docs, "alerts.md"))
	require.NoError(t, err)
	text := string(data)
	engine, err := os.ReadFile(filepath.Join(docs, "reference", "alerts.md"))
	require.NoError(t, err)
	listed := text + strings.ReplaceAll(string(engine), "](../", "](")
	for _, n := range Names() {
		require.Contains(t, listed, "[`"+n+"`](runbooks/"+n+".md)")
	}
	for _, n := range sla.CatalogueNames() {
		require.Contains(t, text, "`"+n+"`")
	}
	s := simple(t, "a/b", "99.9")
	tiers, _ := Tiers(s)
	for _, x := range tiers {
		row := "| `" + x.Name + "` | " + slo.FormatDuration(x.Long) + " | " + slo.FormatDuration(x.Short) + " | " +
			percent(x.Share) + " | " + number(x.Factor) + " | " + percent(x.Threshold) + " |"
		require.Contains(t, text, row)
	}
}
