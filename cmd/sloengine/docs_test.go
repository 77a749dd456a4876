package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/alertmanager"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/slo/yamldoc/shape"
)

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	sourcePath   = regexp.MustCompile("`([a-z]+/[a-z0-9_/]+\\.go)`")
	headingPunct = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// TestDocs follows every link between documents, to the heading, and every path of a Go file that a document names.
func TestDocs(t *testing.T) {
	root := filepath.Join("..", "..")
	var documents []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/reference/*.md", "docs/runbooks/*.md", "deploy/*.md",
		"ingest/*/*.md", "reliability/*/*.md", "slo/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		documents = append(documents, found...)
	}
	require.Greater(t, len(documents), 60)
	headings := map[string]map[string]bool{}
	for _, file := range documents {
		headings[filepath.Clean(file)] = headingAnchors(readText(t, file))
	}
	for _, file := range documents {
		text := withoutCode(readText(t, file))
		for _, m := range markdownLink.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			to, anchor, _ := strings.Cut(m[1], "#")
			target := filepath.Clean(file)
			if to != "" {
				target = filepath.Join(filepath.Dir(file), to)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which does not exist", file, m[1])
			} else if anchors, ok := headings[target]; ok && anchor != "" && !anchors[anchor] {
				t.Errorf("%s links to %s, which has no such heading", file, m[1])
			}
		}
		for _, m := range sourcePath.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("%s names %s, which does not exist", file, m[1])
			}
		}
	}
}

// TestWays checks that what the tables of architecture.md say of a file is in that file: a declaration, or the name as
// it stands there.
func TestWays(t *testing.T) {
	method := regexp.MustCompile("`([A-Za-z]+)\\.([A-Za-z]+)`")
	checked := 0
	for line := range strings.Lines(readText(t, filepath.Join("..", "..", "docs", "architecture.md"))) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 || !sourcePath.MatchString(cells[1]) {
			continue
		}
		var code strings.Builder
		for _, m := range sourcePath.FindAllStringSubmatch(cells[1], -1) {
			code.WriteString(readText(t, filepath.Join("..", "..", m[1])))
		}
		for _, m := range method.FindAllStringSubmatch(cells[2], -1) {
			checked++
			declared := regexp.MustCompile(`func \((\w+ )?\*?` + m[1] + `\) ` + m[2] + `\(`)
			if !declared.MatchString(code.String()) && !strings.Contains(code.String(), m[1]+"."+m[2]) {
				t.Errorf("architecture.md says that%s has %s.%s", cells[1], m[1], m[2])
			}
		}
	}
	require.GreaterOrEqual(t, checked, 6)
}

// TestDocumentIndex checks that the index names every document, and that some document links each runbook and shows
// each picture.
func TestDocumentIndex(t *testing.T) {
	docs := filepath.Join("..", "..", "docs")
	linked := func(files ...string) map[string]bool {
		found := map[string]bool{}
		for _, file := range files {
			for _, m := range markdownLink.FindAllStringSubmatch(readText(t, file), -1) {
				to, _, _ := strings.Cut(m[1], "#")
				found[filepath.Join(filepath.Dir(file), to)] = true
			}
		}
		return found
	}
	glob := func(patterns ...string) (all []string) {
		for _, p := range patterns {
			found, err := filepath.Glob(filepath.Join(docs, p))
			require.NoError(t, err)
			all = append(all, found...)
		}
		return all
	}
	index := linked(filepath.Join(docs, "README.md"))
	for _, file := range glob("*.md", "reference/*.md") {
		if file != filepath.Join(docs, "README.md") && !index[file] {
			t.Errorf("docs/README.md does not link %s", file)
		}
	}
	all := linked(append(glob("*.md", "reference/*.md", "runbooks/*.md"), filepath.Join(docs, "..", "README.md"))...)
	for _, file := range glob("runbooks/*.md", "pictures/*") {
		if !all[file] {
			t.Errorf("no document links %s", file)
		}
	}
	entries, err := os.ReadDir(docs)
	require.NoError(t, err)
	for _, e := range entries {
		known := strings.HasSuffix(e.Name(), ".md") || e.Name() == "pictures" || e.Name() == "runbooks" ||
			e.Name() == "reference"
		require.True(t, known, "docs/%s is neither a document nor a folder that the index knows", e.Name())
	}
}

// TestDocumentExamples reads the complete examples of alerting and of receivers with the readers of the program.
func TestDocumentExamples(t *testing.T) {
	block := func(name, heading string) string {
		text := readText(t, filepath.Join("..", "..", "docs", name))
		_, after, found := strings.Cut(text, "\n"+heading+"\n")
		require.True(t, found, "%s has no %s", name, heading)
		_, after, found = strings.Cut(after, "```yaml\n")
		require.True(t, found, name)
		code, _, _ := strings.Cut(after, "```")
		return code
	}
	alerting := block("specs.md", "## Alerting")
	s, problems := spec.Load([]spec.File{{Name: "specs.md", Data: []byte(alerting)}})
	require.Empty(t, problems.String(), "the example of alerting has neither errors nor warnings")
	a := s.SLOs[0].Alerting
	require.True(t, a.NoData.Disabled)
	require.NotZero(t, a.Soon.Within)
	require.Len(t, a.Tiers, 3)
	described := spec.Shape()
	described.Walk("", func(path string, m *shape.Shape) {
		if path == "slos[].alerting" {
			for _, k := range m.Keys {
				require.Contains(t, alerting, k.Name+":", "the example shows every key of alerting")
			}
		}
	})

	text := block("receivers.md", "## Example")
	r, err := alertmanager.ReadReceivers("receivers.md", []byte(text))
	require.NoError(t, err)
	require.Len(t, r.Receivers, 5)
	described = alertmanager.Shape()
	described.Walk("", func(path string, m *shape.Shape) {
		for _, k := range m.Keys {
			if k.Name != "tls" { // whose default is the only good choice
				require.Contains(t, text, k.Name+":", "the example shows every key")
			}
		}
	})
}

func readText(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(data)
}

// withoutCode leaves code blocks out.
func withoutCode(text string) string {
	var b strings.Builder
	for i, part := range strings.Split(text, "```") {
		if i%2 == 0 {
			b.WriteString(part)
		}
	}
	return b.String()
}

// headingAnchors are the anchors of a document's headings, as GitHub makes them.
func headingAnchors(text string) map[string]bool {
	anchors := map[string]bool{}
	for line := range strings.SplitSeq(withoutCode(text), "\n") {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			anchors[strings.ReplaceAll(headingPunct.ReplaceAllString(strings.ToLower(title), ""), " ", "-")] = true
		}
	}
	return anchors
}
