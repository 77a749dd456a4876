package yamldoc

import (
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Inside is the place in the file of the byte at offset in the text of a
// scalar. Where YAML folds lines together it is the place of the scalar.
func (v *Value) Inside(offset int) Position {
	at := v.At()
	text := v.n.Value
	if offset < 0 || offset > len(text) || at.Line < 1 || at.Line > len(v.file.lines) {
		return at
	}
	if v.n.Style&yaml.LiteralStyle != 0 {
		return v.insideLiteral(offset)
	}
	if strings.Contains(text, "\n") {
		return at
	}
	line := []rune(v.file.lines[at.Line-1])
	rest := line[min(at.Column-1, len(line)):]
	switch {
	case v.n.Style&yaml.DoubleQuotedStyle != 0:
		return shifted(at, walkQuoted(rest, '"', text[:offset]))
	case v.n.Style&yaml.SingleQuotedStyle != 0:
		return shifted(at, walkQuoted(rest, '\'', text[:offset]))
	case v.n.Style&yaml.FoldedStyle != 0:
		return at
	}
	// A plain scalar over several lines is not found whole in its first line.
	if !strings.HasPrefix(string(rest), text) {
		return at
	}
	return shifted(at, utf8.RuneCountInString(text[:offset]))
}

func shifted(at Position, columns int) Position {
	at.Column += max(0, columns)
	return at
}

// walkQuoted counts the characters of source that spell the text before the
// wanted place, the opening quote and escapes included. 0 if they do not.
func walkQuoted(source []rune, quote rune, before string) int {
	if len(source) == 0 || source[0] != quote {
		return 0
	}
	i := 1
	for range before {
		if i >= len(source) {
			return 0
		}
		switch {
		case quote == '\'' && source[i] == '\'':
			i += 2
		case quote == '"' && source[i] == '\\' && i+1 < len(source):
			i += escapeLength(source[i+1])
		default:
			i++
		}
	}
	return i
}

// escapeLength is the length of a YAML escape by the character after the backslash.
func escapeLength(c rune) int {
	switch c {
	case 'x':
		return 4
	case 'u':
		return 6
	case 'U':
		return 10
	}
	return 2
}

// insideLiteral finds a place in a block scalar, whose lines start below it.
func (v *Value) insideLiteral(offset int) Position {
	at := v.At()
	before := v.n.Value[:offset]
	row := strings.Count(before, "\n")
	column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
	line := at.Line + row // the block's first line is the one after the indicator
	if line >= len(v.file.lines) {
		return at
	}
	wanted := strings.SplitN(v.n.Value, "\n", row+2)[row]
	source := v.file.lines[line]
	if !strings.HasSuffix(source, wanted) {
		return at
	}
	indent := utf8.RuneCountInString(strings.TrimSuffix(source, wanted))
	return Position{File: at.File, Line: line + 1, Column: indent + column + 1}
}
