package event

import (
	"bytes"
	"fmt"
	"strconv"
)

// quoteBytes is how much of a sender's text an error repeats.
const quoteBytes = 64

// quote makes text from outside safe to show: cut, quoted and escaped.
func quote(text []byte) string {
	if len(text) <= quoteBytes {
		return strconv.Quote(string(text))
	}
	return strconv.Quote(string(text[:quoteBytes])) + "..."
}

// fail records a problem of the event. Only the first problem is kept.
func (s *scanner) fail(code Code, format string, args ...any) {
	if s.problem != "" {
		return
	}
	s.problem = code
	if !s.quiet {
		s.detail = fmt.Sprintf(format, args...)
	}
}

// syntaxReason describes the syntax error, without its place.
func (s *scanner) syntaxReason() string {
	if s.syntaxAt >= len(s.b) {
		return s.syntaxWhy + ", found end of input"
	}
	rest := s.b[s.syntaxAt:]
	switch {
	case bytes.HasPrefix(rest, []byte("\xef\xbb\xbf")):
		return s.syntaxWhy + ", found a byte order mark (remove it)"
	case hasFold(rest, "nan") || hasFold(rest, "inf") || hasFold(rest, "-inf"):
		return s.syntaxWhy + " (JSON has no NaN or infinity, so leave the field out)"
	case rest[0] == '\'':
		return s.syntaxWhy + " (JSON strings use double quotes)"
	}
	return s.syntaxWhy + ", found " + quote(firstWord(rest))
}

func hasFold(b []byte, prefix string) bool {
	return len(b) >= len(prefix) && bytes.EqualFold(b[:len(prefix)], []byte(prefix))
}

// firstWord returns enough of b to recognise the place by.
func firstWord(b []byte) []byte {
	n := 1
	for n < len(b) && n < 16 && b[n] > ' ' && b[n] != ',' {
		n++
	}
	return b[:n]
}

// bodyError places an error in the body.
func bodyError(body []byte, offset int, code Code, reason string) *BodyError {
	before := body[:offset]
	return &BodyError{
		Code:   code,
		Reason: reason,
		Offset: offset,
		Line:   bytes.Count(before, []byte{'\n'}) + 1,
		Column: offset - bytes.LastIndexByte(before, '\n'),
	}
}
