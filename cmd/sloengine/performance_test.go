package main

import (
	"cmp"
	"crypto/sha256"
	"flag"
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// measured is given by scripts/bench, which has measured these sections: what to write above their figures is printed.
var measured = flag.String(
	"measured", "", "print the line above the figures of these `sections` of docs/performance.md")

// measurement is the line of a section that says when and with what its figures were measured.
var measurement = regexp.MustCompile(
	"Measured on (\\d+ \\w+ 20\\d\\d) with `make bench SECTION=(\\w+)`, of (`[^:]*`): `([0-9a-f]*)`\\.")

// TestPerformanceFigures fails when a figure in docs/performance.md is older than what it measures: each section names
// packages, or a generated document, and their fingerprint when it was measured. Comments do not count.
func TestPerformanceFigures(t *testing.T) {
	root := filepath.Join("..", "..")
	script := readText(t, filepath.Join(root, "scripts", "bench"))
	sections := strings.Split(readText(t, filepath.Join(root, "docs", "performance.md")), "\n## ")
	for _, section := range sections[1:] {
		title, text, _ := strings.Cut(section, "\n")
		m := measurement.FindStringSubmatch(strings.ReplaceAll(text, "\n", " "))
		if m == nil {
			t.Errorf("section %q does not say when and of what its figures were measured", title)
			continue
		}
		date, name, fingerprint := m[1], m[2], m[4]
		paths := strings.Split(strings.ReplaceAll(m[3], "`", ""), ", ")
		require.Contains(t, script, "\n"+name+")\n", "scripts/bench measures no section %q", name)
		_, err := time.Parse("2 January 2006", date)
		require.NoError(t, err)
		now := codeFingerprint(t, root, paths)
		if slices.Contains(strings.Split(*measured, " "), name) {
			fmt.Printf("Measured on %s with `make bench SECTION=%s`, of `%s`: `%s`.\n",
				time.Now().UTC().Format("2 January 2006"), name, strings.Join(paths, "`, `"), now)
			continue
		}
		if now != fingerprint {
			t.Errorf("section %q of docs/performance.md was measured on %s, and %s changed since: run make bench SECTION=%s, "+
				"write down its figures, and the line that it prints at its end", title, date, strings.Join(paths, ", "), name)
		}
	}
}

// unmeasured is what a document of rules costs Prometheus nothing: comments, the texts of alerts until they fire,
// layout and quotes of YAML.
var unmeasured = regexp.MustCompile(`(?m)^ *#.*\n|^ +(summary|description|runbook_url): .*\n|[\s"{},]`)

// codeFingerprint identifies the code of packages without their tests, comments and layout, and other files without
// what is unmeasured.
func codeFingerprint(t *testing.T, root string, paths []string) string {
	sum := sha256.New()
	for _, path := range paths {
		files := []string{filepath.Join(root, path)}
		if filepath.Ext(path) == "" {
			var err error
			files, err = filepath.Glob(filepath.Join(root, path, "*.go"))
			require.NoError(t, err)
			files = slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, "_test.go") })
			require.NotEmpty(t, files, "%s is no package", path)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			if filepath.Ext(file) != ".go" {
				sum.Write(unmeasured.ReplaceAll(data, nil))
				continue
			}
			for _, t := range codeTokens(file, data) {
				fmt.Fprintln(sum, t)
			}
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil))[:8]
}

// codeTokens are the tokens of Go without what lines only need to be broken: ends of statements, commas before closing
// brackets, and the signs between parts of a text.
func codeTokens(file string, data []byte) (out []string) {
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile(file, -1, len(data)), data, nil, 0)
	last := func(n int) string {
		if len(out) < n {
			return ""
		}
		return out[len(out)-n]
	}
	for _, tok, lit := s.Scan(); tok != token.EOF; _, tok, lit = s.Scan() {
		switch text := cmp.Or(lit, tok.String()); {
		case tok == token.SEMICOLON:
		case tok == token.STRING && last(1) == "+" && strings.HasPrefix(last(2), `"`) && text[0] == '"':
			out = append(out[:len(out)-2], strings.TrimSuffix(last(2), `"`)+text[1:])
		case last(1) == "," && (tok == token.RPAREN || tok == token.RBRACE || tok == token.RBRACK):
			out[len(out)-1] = text
		default:
			out = append(out, text)
		}
	}
	return out
}

// A comment and a line break change no fingerprint, code does.
func TestCodeFingerprint(t *testing.T) {
	root := t.TempDir()
	of := func(code string) string {
		require.NoError(t, os.WriteFile(filepath.Join(root, "a.go"), []byte(code), 0o600))
		return codeFingerprint(t, root, []string{""})
	}
	first := of("package a\n\n// One is one.\nconst One = 1\n")
	require.Equal(t, first, of("package a\n\nconst One = 1 // the first\n"))
	require.NotEqual(t, first, of("package a\n\nconst One = 2\n"))
	require.NoError(t, os.WriteFile(filepath.Join(root, "a_test.go"), []byte("package a\n"), 0o600))
	require.Equal(t, first, of("package a\nconst One = 1"))

	first = of("package a\n\nfunc f() { g(1, \"a b\") }\n")
	require.Equal(t, first, of("package a\n\nfunc f() {\n\tg(\n\t\t1,\n\t\t\"a \"+\n\t\t\t\"b\",\n\t)\n}\n"))
	require.NotEqual(t, first, of("package a\n\nfunc f() { g(1, \"a c\") }\n"))
}
