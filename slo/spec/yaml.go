package spec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

const (
	// maxNodes bounds what the aliases of one document may expand to.
	maxNodes = 200_000
	maxDepth = 64
)

// reader reads one file.
type reader struct {
	*collector
	file  string
	lines []string
}

func (r *reader) at(n *yaml.Node) Position {
	return Position{File: r.file, Line: n.Line, Column: n.Column}
}

// readFile reads every document of a file. A file that is not YAML gives one
// problem, at the place where reading stopped.
func (l *loader) readFile(f File) {
	top := Position{File: f.Name}
	if len(f.Data) > MaxFileBytes {
		l.errorf(top, "split it: several files may describe one service", "the file is larger than %d bytes", MaxFileBytes)
		return
	}
	r := &reader{collector: l.collector, file: f.Name}
	r.lines = splitLines(string(f.Data))
	for i, line := range r.lines {
		if !utf8.ValidString(line) {
			l.errorf(Position{File: f.Name, Line: i + 1}, "save the file as UTF-8", "the line is not UTF-8 text")
			return
		}
	}
	dec := yaml.NewDecoder(bytes.NewReader(f.Data))
	for {
		doc, err := decode(dec)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			r.syntaxError(err)
			return
		}
		if len(doc.Content) == 0 || isNull(doc.Content[0]) {
			continue // nothing between two separators
		}
		if r.bounded(doc) {
			l.document(newValue(r, doc.Content[0], "spec"))
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

func (r *reader) syntaxError(err error) {
	at, msg := Position{File: r.file}, err.Error()
	if m := yamlLine.FindStringSubmatch(msg); m != nil {
		at.Line, _ = strconv.Atoi(m[1])
		msg = m[2]
	}
	at.Line = min(max(at.Line, 1), len(r.lines))
	hint := "check indentation, quotes and colons around here"
	if m := yamlAnchor.FindStringSubmatch(msg); m != nil {
		// The library does not say where.
		for i, l := range r.lines {
			if c := strings.Index(l, "*"+m[1]); c >= 0 {
				at.Line, at.Column = i+1, utf8.RuneCountInString(l[:c])+1
				break
			}
		}
		hint = "quote the text if the asterisk is part of it"
	}
	for i := max(0, at.Line-2); i <= at.Line && i < len(r.lines); i++ {
		if l := r.lines[i]; strings.HasPrefix(strings.TrimLeft(l, " "), "\t") {
			at.Line, at.Column = i+1, strings.IndexByte(l, '\t')+1
			hint = "indent with spaces; YAML does not allow tabs"
			break
		}
	}
	if at.Column == 0 {
		l := r.lines[at.Line-1]
		at.Column = len(l) - len(strings.TrimLeft(l, " ")) + 1
	}
	r.errorf(at, hint, "not valid YAML: %s", printable(msg))
}

// bounded counts what a document is with its aliases expanded, so that a few
// lines of nested aliases cannot keep the reader busy.
func (r *reader) bounded(doc *yaml.Node) bool {
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
			r.errorf(r.at(from), "write it out, or with fewer aliases", "the document has more than %d values once its aliases are expanded", maxNodes)
		case depth > maxDepth:
			ok = false
			r.errorf(r.at(from), "take it apart; an alias must not contain itself", "values are nested more than %d deep", maxDepth)
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

// printable escapes what would break a line or a terminal.
func printable(s string) string {
	const most = 200
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	q := strconv.Quote(s)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}
