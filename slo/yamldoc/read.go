package yamldoc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

const (
	// MaxFileBytes is how large one file may be.
	MaxFileBytes = 8 << 20
	// maxNodes bounds what the aliases of one document may expand to.
	maxNodes = 200_000
	maxDepth = 64
)

// Options say what a Reader knows about the format.
type Options struct {
	// Synonyms are keys that people bring along from other formats, in the form of suggest.Fold, and what they are
	// called here.
	Synonyms map[string]string
	// Misplaced are hints for keys that belong somewhere else, by the name of their mapping, a dot and the key.
	Misplaced map[string]string
	// Secret says that values may be secrets: problems do not quote them.
	Secret bool
	// Lenient asks readers to take text that others understand and they do not, with a warning.
	Lenient bool
}

// Reader reads files and collects their problems. The zero value is ready for use.
type Reader struct {
	Options
	seen   map[Problem]bool
	all    Problems
	errors int // how many of all are errors
}

// file is what the values of a file have in common.
type file struct {
	*Reader
	name  string
	lines []string
}

func (f *file) at(n *yaml.Node) Position {
	return Position{File: f.name, Line: n.Line, Column: n.Column}
}

// Document reads the only document of a file. It returns nil if there is none, without a problem, or if the file is
// not YAML, with one. The value has no name: problems with it begin with what is wrong.
func (r *Reader) Document(name string, data []byte) *Value {
	var first *Value
	for v := range r.Documents(name, data) {
		if first != nil {
			v.Errorf("merge them into one document", "the file has a second YAML document")
			return first
		}
		first = v
	}
	return first
}

// Documents yields every document of a file that is not empty. Where the file stops being YAML, reading ends with one
// problem.
func (r *Reader) Documents(name string, data []byte) iter.Seq[*Value] {
	return func(yield func(*Value) bool) {
		top := Position{File: name}
		if len(data) > MaxFileBytes {
			r.Errorf(top, "split it", "the file is larger than %d bytes", MaxFileBytes)
			return
		}
		f := &file{Reader: r, name: name, lines: splitLines(string(data))}
		for i, line := range f.lines {
			if !utf8.ValidString(line) {
				r.Errorf(Position{File: name, Line: i + 1}, "save the file as UTF-8", "the line is not valid UTF-8")
				return
			}
		}
		dec := yaml.NewDecoder(bytes.NewReader(data))
		for {
			doc, err := decode(dec)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				f.syntaxError(err)
				return
			}
			if len(doc.Content) == 0 || isNull(doc.Content[0]) {
				continue // nothing between two separators
			}
			if f.bounded(doc) && !yield(newValue(f, doc.Content[0], "")) {
				return
			}
		}
	}
}

// lineBreaks are those of YAML 1.1, by which the library counts lines.
var lineBreaks = regexp.MustCompile("\r\n|[\r\n\u0085\u2028\u2029]")

func splitLines(text string) []string {
	if !strings.ContainsAny(text, "\r\u0085\u2028\u2029") {
		return strings.Split(text, "\n")
	}
	return lineBreaks.Split(text, -1)
}

// decode turns a panic of the YAML library on hostile input into an error.
func decode(dec *yaml.Decoder) (doc *yaml.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("yaml: cannot be read: %v", p)
		}
	}()
	doc = &yaml.Node{}
	err = dec.Decode(doc)
	return doc, err
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(?:(?s)(.*))$`)

var yamlAnchor = regexp.MustCompile(`^unknown anchor '(.+)' referenced$`)

func (f *file) syntaxError(err error) {
	at, msg := Position{File: f.name}, err.Error()
	if m := yamlLine.FindStringSubmatch(msg); m != nil {
		at.Line, _ = strconv.Atoi(m[1])
		msg = m[2]
	}
	at.Line = min(max(at.Line, 1), len(f.lines))
	hint := "check indentation, quotes and colons around here"
	if m := yamlAnchor.FindStringSubmatch(msg); m != nil {
		// The library does not say where.
		for i, l := range f.lines {
			if c := strings.Index(l, "*"+m[1]); c >= 0 {
				at.Line, at.Column = i+1, utf8.RuneCountInString(l[:c])+1
				break
			}
		}
		hint = "quote the text if the asterisk is part of it"
		if f.Secret {
			msg = "unknown anchor referenced"
		}
	}
	for i := max(0, at.Line-2); i <= at.Line && i < len(f.lines); i++ {
		if l := f.lines[i]; strings.HasPrefix(strings.TrimLeft(l, " "), "\t") {
			at.Line, at.Column = i+1, strings.IndexByte(l, '\t')+1
			hint = "indent with spaces; YAML does not allow tabs"
			break
		}
	}
	if at.Column == 0 {
		l := f.lines[at.Line-1]
		at.Column = len(l) - len(strings.TrimLeft(l, " ")) + 1
	}
	f.Errorf(at, hint, "not valid YAML: %s", Printable(msg))
}

// bounded counts what a document is with its aliases expanded, so that a few lines of nested aliases cannot keep the
// reader busy.
func (f *file) bounded(doc *yaml.Node) bool {
	left, ok := maxNodes, true
	var walk func(n, from *yaml.Node, depth int)
	walk = func(n, from *yaml.Node, depth int) {
		if !ok {
			return
		}
		left--
		switch {
		case left < 0:
			ok = false
			f.Errorf(f.at(from), "write it without aliases, or with fewer",
				"the document has more than %d values once its aliases are expanded", maxNodes)
		case depth > maxDepth:
			ok = false
			f.Errorf(f.at(from), "flatten it, and check that no alias contains itself",
				"values are nested more than %d deep", maxDepth)
		case n.Kind == yaml.AliasNode:
			walk(n.Alias, n, depth+1)
		default:
			for _, c := range n.Content {
				if from.Kind == yaml.AliasNode {
					walk(c, from, depth+1)
				} else {
					walk(c, c, depth+1)
				}
			}
		}
	}
	walk(doc, doc, 0)
	return ok
}

func isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// Printable escapes what would break a line or a terminal.
func Printable(s string) string {
	const most = 200
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	q := strconv.Quote(s)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}

// Clip shortens hostile text for a message.
func Clip(s string) string {
	const most = 80
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
