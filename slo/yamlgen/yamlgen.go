// Package yamlgen writes the YAML of all generated files: rules, rule tests, Alertmanager's configuration, Kubernetes
// manifests and specs. Mappings stay in the order in which they are built, and the same values give the same bytes.
// The encoder and its quoting are those of yaml.v3.
//
// The package does not know what it writes, and it reads nothing. Package yamldoc reads.
package yamlgen

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Node is a value of a document.
type Node = yaml.Node

// lineWidth is how long a mapping or list on one line may be, in bytes, without its key and indentation.
const lineWidth = 104

// Document encodes v, a [Node] or a value with yaml tags, as one document with indentation by two spaces. Each line
// of the header becomes a comment above it. Document panics if v holds what YAML cannot express, such as a channel.
func Document(header string, v any) []byte {
	var b bytes.Buffer
	for line := range strings.Lines(header) {
		b.WriteString(strings.TrimRight("# "+strings.Map(visible, strings.TrimRight(line, "\r\n")), " ") + "\n")
	}
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Errorf("encode YAML: %w", err))
	}
	return b.Bytes()
}

// visible replaces the characters that YAML allows in no comment.
func visible(r rune) rune {
	if special(r) {
		return '?'
	}
	return r
}

// Text is a string: plain if every YAML reader takes it for a string then, a literal block if it has several lines,
// otherwise quoted. Invalid UTF-8 becomes the replacement character.
func Text(s string) *Node {
	if mistaken(s) || strings.ContainsFunc(s, special) && !isBlock(s) {
		return Quoted(s)
	}
	return scalar("!!str", s, 0)
}

// mistaken reports whether a reader of YAML 1.1 takes a word for a boolean, a number in base 60, a merge key or a
// default value. yaml.v3 quotes only what YAML 1.2 takes for something else.
func mistaken(s string) bool {
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off", "<<", "=":
		return true
	}
	return s != "" && strings.Trim(s, "0123456789:._+-") == ""
}

// isBlock reports whether yaml.v3 writes a literal block that reads as s again.
func isBlock(s string) bool {
	if !strings.Contains(s, "\n") || strings.HasPrefix(s, " ") || strings.HasPrefix(s, "\n") ||
		strings.HasSuffix(s, "\n") {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return r != '\n' && special(r) })
}

// special reports whether a character stands for itself only in double quotes.
func special(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }

// Quoted is a string in double quotes, for values that may change their type when they change, such as labels.
func Quoted(s string) *Node { return scalar("!!str", s, yaml.DoubleQuotedStyle) }

// SingleQuoted is a string in single quotes, for PromQL and the notation of series, which contain double quotes.
func SingleQuoted(s string) *Node {
	if strings.ContainsFunc(s, special) {
		return Quoted(s)
	}
	return scalar("!!str", s, yaml.SingleQuotedStyle)
}

// Block is a literal block of lines, such as a file in a manifest. It is quoted if it holds characters that are not
// printable or beyond the basic multilingual plane.
func Block(s string) *Node { return scalar("!!str", s, yaml.LiteralStyle) }

// Plain is a scalar without quotes, such as a number, a duration or a boolean.
func Plain(s string) *Node { return scalar("", s, 0) }

func scalar(tag, s string, style yaml.Style) *Node {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, string(unicode.ReplacementChar))
	}
	return &Node{Kind: yaml.ScalarNode, Tag: tag, Value: s, Style: style}
}

// Map is a mapping in the order in which its keys are set. The zero value is an empty mapping.
type Map struct{ node Node }

// Set adds a key with its value, which it returns.
func (m *Map) Set(key string, value *Node) *Node {
	m.node.Content = append(m.node.Content, Text(key), value)
	return value
}

// Text adds a string, as the function Text writes it. An empty one is left out, and the result is nil.
func (m *Map) Text(key, s string) *Node {
	if s == "" {
		return nil
	}
	return m.Set(key, Text(s))
}

// Plain adds a scalar without quotes. An empty one is left out, and the result is nil.
func (m *Map) Plain(key, s string) *Node {
	if s == "" {
		return nil
	}
	return m.Set(key, Plain(s))
}

// List adds a list, unless it is empty.
func (m *Map) List(key string, items []*Node) {
	if len(items) > 0 {
		m.Set(key, List(items...))
	}
}

// Len is the number of keys.
func (m *Map) Len() int { return len(m.node.Content) / 2 }

// Node is the mapping with a line for each key.
func (m *Map) Node() *Node {
	m.node.Kind = yaml.MappingNode
	return &m.node
}

// Line is the mapping on one line, as the function Line decides.
func (m *Map) Line() *Node { return Line(m.Node()) }

// Strings is a mapping of strings, ordered by key.
func Strings(set map[string]string, value func(string) *Node) *Node {
	var m Map
	for _, k := range slices.Sorted(maps.Keys(set)) {
		m.Set(k, value(set[k]))
	}
	return m.Node()
}

// List is a list with a line for each item.
func List(items ...*Node) *Node { return &Node{Kind: yaml.SequenceNode, Content: items} }

// Texts is a list of strings on one line.
func Texts(words []string) *Node {
	n := &Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, w := range words {
		n.Content = append(n.Content, Text(w))
	}
	return n
}

// Line puts a mapping or a list on one line if it is short enough, without the comments inside. It returns the node.
func Line(n *Node) *Node {
	line := *n
	line.Style = yaml.FlowStyle
	line.Content = uncommented(n.Content)
	if len(Document("", &line)) > lineWidth {
		return n
	}
	return &line
}

func uncommented(nodes []*Node) []*Node {
	out := make([]*Node, len(nodes))
	for i, n := range nodes {
		c := *n
		c.LineComment, c.Content = "", uncommented(n.Content)
		out[i] = &c
	}
	return out
}

// Comment adds a comment at the end of the line of n, if n is on one line. n may be nil.
func Comment(n *Node, comment string) {
	if n == nil || comment == "" || n.Kind != yaml.ScalarNode && n.Style != yaml.FlowStyle {
		return
	}
	n.LineComment = "# " + comment
}

// Visible replaces the characters of a text that YAML allows in no comment.
func Visible(s string) string { return strings.Map(visible, s) }
