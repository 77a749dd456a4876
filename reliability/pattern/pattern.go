// Package pattern matches names against patterns in settings: a name, a name with * (any characters) and ? (one
// byte), or /an RE2 expression/, which may match anywhere in the name.
//
// It does not know the objects of the names: its caller says which characters a name can have.
package pattern

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

// maxInstructions bounds a regular expression: matching takes time by the length of the text and this.
const maxInstructions = 500

// Pattern is a compiled pattern. It never changes.
type Pattern struct {
	text string
	re   *regexp.Regexp // nil: a name, with or without * and ?
}

// Compile reads a pattern. valid reports whether a text can be a name, nil: anything. A pattern with other
// characters could never match.
func Compile(text string, valid func(name string) bool) (Pattern, error) {
	if text == "" {
		return Pattern{}, errors.New("empty pattern")
	}
	if len(text) > 1 && text[0] == '/' && text[len(text)-1] == '/' {
		re, err := Regexp(text[1 : len(text)-1])
		if err != nil {
			return Pattern{}, fmt.Errorf("pattern %s: %w", text, err)
		}
		return Pattern{text, re}, nil
	}
	for piece := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '*' || r == '?' }) {
		if valid != nil && !valid(piece) {
			return Pattern{}, fmt.Errorf("%q can never match: no name has the characters %q", text, piece)
		}
	}
	return Pattern{text: text}, nil
}

// Regexp is regexp.Compile for expressions of a bounded size.
func Regexp(text string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	if n := len(program.Inst); n > maxInstructions {
		return nil, fmt.Errorf("the regular expression is too large: %d instructions (at most %d)", n, maxInstructions)
	}
	return re, nil
}

// Match reports whether the pattern matches a name.
func (p Pattern) Match(name string) bool {
	if p.re != nil {
		return p.re.MatchString(name)
	}
	return Glob(p.text, name)
}

// String is the pattern as it was written.
func (p Pattern) String() string { return p.text }

// Exact reports whether the pattern is a name.
func (p Pattern) Exact() bool { return p.re == nil && !strings.ContainsAny(p.text, "*?") }

// Literals orders patterns by how much they say: the bytes of a name that stand for themselves, -1 for a regular
// expression.
func (p Pattern) Literals() int {
	if p.re != nil {
		return -1
	}
	return len(p.text) - strings.Count(p.text, "*") - strings.Count(p.text, "?")
}

// Overlap reports whether some name matches both. It does not know of two regular expressions, nor of one beside * and
// ?.
func (p Pattern) Overlap(q Pattern) bool {
	switch {
	case p.Exact():
		return q.Match(p.text)
	case q.Exact():
		return p.Match(q.text)
	case p.re != nil || q.re != nil:
		return p.text == q.text
	default:
		return globsOverlap(p.text, q.text)
	}
}
