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
		for _, family := range regexp.MustCompile("sloengine_[a-z_]+").FindAllString(text, -1) {
			require.NotNil(t, metric.Lookup(family), "%s names %s", name, family)
		}
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
	s := simple(t, "a/b", "99.9")
	tiers, _ := Tiers(s)
	for _, x := range tiers {
		row := "| `" + x.Name + "` | " + slo.FormatDuration(x.Long) + " | " + slo.FormatDuration(x.Short) + " | " + percent(x.Share) + " | " + number(x.Factor) + " | " + percent(x.Threshold) + " |"
		require.Contains(t, text, row)
	}
}
