package spec

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// lineWidth is how far a mapping or list in one line may reach.
const lineWidth = 110

// yamlNode is something that can be written: yamlMap, yamlList, yamlText or
// yamlPlain.
type yamlNode interface {
	// flow appends the node as part of a line; false if it needs lines of its own.
	flow(b []byte) ([]byte, bool)
	// lines appends the node below a key or dash, indented by so many columns.
	lines(b []byte, indent int) []byte
}

// yamlPlain needs no quotes: numbers, durations, true.
type yamlPlain string

func (p yamlPlain) flow(b []byte) ([]byte, bool)      { return append(b, p...), true }
func (p yamlPlain) lines(b []byte, indent int) []byte { return append(append(b, p...), '\n') }

// yamlText is text, quoted where it must be.
type yamlText string

// plainText reports whether text needs no quotes: words of harmless characters,
// the first beginning with a letter, that are of no other type in any version of
// YAML.
func plainText(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_', c == '/':
		case i > 0 && (c >= '0' && c <= '9' || c == '.' || c == '-'):
		case i > 0 && i < len(s)-1 && (c == ' ' && s[i-1] != ' ' || c == '(' || c == ')'):
		default:
			return false
		}
	}
	switch strings.ToLower(s) {
	case "", "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return false
	}
	return true
}

func (t yamlText) flow(b []byte) ([]byte, bool) {
	if strings.ContainsRune(string(t), '\n') && literal(string(t)) {
		return b, false
	}
	return t.inline(b), true
}

// inline appends the text in one line, whatever it holds.
func (t yamlText) inline(b []byte) []byte {
	s := string(t)
	switch {
	case plainText(s):
		return append(b, s...)
	case !strings.ContainsFunc(s, special):
		return append(append(append(b, '\''), strings.ReplaceAll(s, "'", "''")...), '\'')
	}
	b = append(b, '"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', byte(c))
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\t':
			b = append(b, `\t`...)
		case !special(c):
			b = append(b, string(c)...)
		case c > 0xffff:
			b = fmt.Appendf(b, `\U%08x`, c)
		default:
			b = fmt.Appendf(b, `\u%04x`, c)
		}
	}
	return append(b, '"')
}

// special reports whether a character needs an escape.
func special(c rune) bool {
	return c == '\n' || c == '\t' || c == unicode.ReplacementChar || c == '\ufeff' || !unicode.IsPrint(c)
}

// literal reports whether text of several lines can be written as it is.
func literal(s string) bool {
	if strings.HasSuffix(s, "\n") {
		return false
	}
	for i, l := range strings.Split(s, "\n") {
		if i == 0 && (l == "" || l[0] == ' ') || l != strings.TrimRight(l, " ") || strings.ContainsFunc(l, special) {
			return false
		}
	}
	return true
}

func (t yamlText) lines(b []byte, indent int) []byte {
	if out, ok := t.flow(b); ok {
		return append(out, '\n')
	}
	b = append(b, "|-\n"...)
	for l := range strings.SplitSeq(string(t), "\n") {
		if l != "" {
			b = pad(b, indent)
		}
		b = append(append(b, l...), '\n')
	}
	return b
}

// yamlList is written in one line if it fits.
type yamlList []yamlNode

func (l yamlList) flow(b []byte) ([]byte, bool) {
	b = append(b, '[')
	for i, n := range l {
		if i > 0 {
			b = append(b, ", "...)
		}
		if t, ok := n.(yamlText); ok {
			b = t.inline(b)
			continue
		}
		var ok bool
		if b, ok = n.flow(b); !ok {
			return b, false
		}
	}
	return append(b, ']'), true
}

func (l yamlList) lines(b []byte, indent int) []byte {
	if line, ok := l.flow(nil); ok && len(line)+indent <= lineWidth {
		return append(append(b, line...), '\n')
	}
	return l.items(append(b, '\n'), indent)
}

// items writes every item after a dash.
func (l yamlList) items(b []byte, indent int) []byte {
	for _, n := range l {
		b = append(pad(b, indent), "- "...)
		if m, ok := n.(*yamlMap); ok {
			if line, ok := m.flow(nil); ok && len(line)+indent+2 <= lineWidth {
				b = append(append(b, line...), '\n')
				continue
			}
			b = m.keys(b, indent+2, true)
			continue
		}
		if l, ok := n.(yamlList); ok { // of texts: in one line, however long
			b, _ = l.flow(b)
			b = append(b, '\n')
			continue
		}
		b = n.lines(b, indent+2)
	}
	return b
}

// yamlMap is a mapping in the order of its keys, written in one line if it fits.
type yamlMap struct {
	pairs []*yamlPair
	block bool // never in one line
}

type yamlPair struct {
	key     string
	value   yamlNode
	comment string
	gap     bool // an empty line before it
}

// note adds a comment, which is only written at the end of a line.
func (p *yamlPair) note(comment string) {
	if p != nil {
		p.comment = comment
	}
}

func (m *yamlMap) set(key string, n yamlNode) *yamlPair {
	p := &yamlPair{key: key, value: n}
	m.pairs = append(m.pairs, p)
	return p
}

func (m *yamlMap) with(key string, n yamlNode) *yamlMap {
	m.set(key, n)
	return m
}

func (m *yamlMap) text(key, s string) *yamlPair  { return m.set(key, yamlText(s)) }
func (m *yamlMap) plain(key, s string) *yamlPair { return m.set(key, yamlPlain(s)) }

func (m *yamlMap) textIf(key, s string) *yamlPair {
	if s == "" {
		return nil
	}
	return m.text(key, s)
}

// labels adds texts by their names, in their order; nothing if there are none.
func (m *yamlMap) labels(key string, set map[string]string) *yamlPair {
	if len(set) == 0 {
		return nil
	}
	in := &yamlMap{}
	for _, k := range slices.Sorted(maps.Keys(set)) {
		in.text(k, set[k])
	}
	return m.set(key, in)
}

// section adds a list in lines of its own, after an empty line.
func (m *yamlMap) section(key string, l yamlList) {
	if len(l) > 0 {
		m.set(key, yamlSection(l)).gap = true
	}
}

// yamlSection is a list that is never in one line.
type yamlSection yamlList

func (s yamlSection) flow(b []byte) ([]byte, bool) { return b, false }
func (s yamlSection) lines(b []byte, indent int) []byte {
	return yamlList(s).items(append(b, '\n'), indent)
}

func (m *yamlMap) flow(b []byte) ([]byte, bool) {
	if m.block {
		return b, false
	}
	b = append(b, '{')
	for i, p := range m.pairs {
		if i > 0 {
			b = append(b, ", "...)
		}
		var ok bool
		b = append(appendKey(b, p.key), ": "...)
		if b, ok = p.value.flow(b); !ok {
			return b, false
		}
	}
	return append(b, '}'), true
}

func (m *yamlMap) lines(b []byte, indent int) []byte {
	if line, ok := m.flow(nil); ok && len(line)+indent <= lineWidth {
		return append(append(b, line...), '\n')
	}
	return m.keys(append(b, '\n'), indent, false)
}

// keys writes every key in a line of its own; the first where the line has begun
// already is not indented.
func (m *yamlMap) keys(b []byte, indent int, begun bool) []byte {
	for i, p := range m.pairs {
		if p.gap {
			b = append(b, '\n')
		}
		if i > 0 || !begun {
			b = pad(b, indent)
		}
		b = append(appendKey(b, p.key), ": "...)
		start := len(b)
		b = p.value.lines(b, indent+2)
		if b[start] == '\n' { // nothing follows the colon in its line
			b = slices.Delete(b, start-1, start)
		} else if p.comment != "" && strings.Count(string(b[start:]), "\n") == 1 {
			b = append(append(b[:len(b)-1], "  # "...), p.comment...)
			b = append(b, '\n')
		}
	}
	return b
}

func appendKey(b []byte, key string) []byte { return yamlText(key).inline(b) }

func (m *yamlMap) appendDocument(b []byte) []byte { return m.keys(b, 0, false) }

func pad(b []byte, n int) []byte {
	for range n {
		b = append(b, ' ')
	}
	return b
}
