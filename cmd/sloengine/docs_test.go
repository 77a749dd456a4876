package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/runbooks/*.md", "deploy/*.md", "ingest/*/*.md", "reliability/*/*.md", "slo/*/*.md"} {
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
