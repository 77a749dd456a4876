package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// settingsFile is an engine.yaml while it is read, and afterwards: where each of
// its values stands, and all that is wrong with them.
type settingsFile struct {
	name     string // for errors
	dir      string // that relative file names begin at
	env      string // whose values are taken
	config   *Config
	nodes    map[string]*yaml.Node // by path, such as sinks[0].http.url
	problems []problem
}

// problem is one thing that is wrong with the settings.
type problem struct {
	line, column int // from 1; 0 for what is not in the file
	path         string
	text         string
	hint         string // what to do; may be ""
}

// at gives the node of a value, or of the nearest thing around it that is there.
func (f *settingsFile) at(path string) *yaml.Node {
	for {
		if n := f.nodes[path]; n != nil {
			return n
		}
		if path == "" {
			return nil
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
}

// has reports whether the value is written there. Nothing is in an absent file.
func (f *settingsFile) has(path string) bool { return f != nil && f.nodes[path] != nil }

// addProblem notes a problem with the value of a path.
func (f *settingsFile) addProblem(path, hint, format string, args ...any) {
	f.addProblemAt(f.at(path), path, hint, format, args...)
}

func (f *settingsFile) addProblemAt(n *yaml.Node, path, hint, format string, args ...any) {
	p := problem{path: path, hint: hint, text: fmt.Sprintf(format, args...)}
	if n != nil {
		p.line, p.column = n.Line, n.Column
	}
	f.problems = append(f.problems, p)
}

// broken reports whether something is wrong already with the value or a part of it:
// what else could be said of it would be about a value that was not meant.
func (f *settingsFile) broken(path string) bool {
	return slices.ContainsFunc(f.problems, func(p problem) bool {
		rest, ok := strings.CutPrefix(p.path, path)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

// err joins all problems, in the order of the file, one per line.
func (f *settingsFile) err() error {
	slices.SortStableFunc(f.problems, func(a, b problem) int {
		return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.column, b.column))
	})
	var errs []error
	for _, p := range f.problems {
		errs = append(errs, errors.New(f.name+": "+oneLine(p.String())))
	}
	return errors.Join(errs...)
}

func (p problem) String() string {
	var b strings.Builder
	if p.line > 0 {
		fmt.Fprintf(&b, "line %d, column %d: ", p.line, p.column)
	}
	if p.path != "" {
		b.WriteString(p.path + ": ")
	}
	b.WriteString(p.text)
	if p.hint != "" {
		b.WriteString(" (" + p.hint + ")")
	}
	return b.String()
}

// oneLine keeps what a file says from breaking the line of a problem.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}

// child is the path of a key below path.
func child(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// item is the path of an element of a list.
func item(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

// closest gives the word that was probably meant, or "".
func closest(word string, known []string) string {
	best, fewest := "", max(1, len(word)/3)+1
	if len(word) > 64 {
		return ""
	}
	folded := strings.ToLower(strings.ReplaceAll(word, "-", "_"))
	for _, k := range known {
		if strings.HasPrefix(k, folded+"_") { // password, for password_file
			return k
		}
		if n := edits(folded, k); n < fewest {
			best, fewest = k, n
		}
	}
	return best
}

// edits is the Levenshtein distance of two short words.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// meant is the hint for a word that is none of the known ones.
func meant(word string, known []string) string {
	if c := closest(word, known); c != "" {
		return fmt.Sprintf("did you mean %q?", c)
	}
	return "one of " + strings.Join(known, ", ")
}
