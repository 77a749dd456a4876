package shape

import "strings"

// Texts are what no type says about the keys of a format, from a file of lines such as
//
//	PATH: TEXT
//	default PATH: VALUE
//	example PATH: VALUE
//
// A * at the beginning of a path stands for anything, and as the second of three parts for one part. Lines with # are
// comments.
type Texts map[string]string

// ParseTexts reads such a file.
func ParseTexts(file string) Texts {
	texts := Texts{}
	for line := range strings.Lines(file) {
		if path, text, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && !strings.HasPrefix(path, "#") {
			texts[path] = text
		}
	}
	return texts
}

// Of is the line of a path, or of a pattern that stands for several; "" if there is none. kind is "", or a word before
// the path with the space behind it.
func (t Texts) Of(kind, path string) string {
	first, rest, _ := strings.Cut(path, ".")
	_, last, _ := strings.Cut(rest, ".")
	for _, pattern := range []string{path, first + ".*." + last} {
		if text, ok := t[kind+pattern]; ok {
			return text
		}
	}
	for rest != "" {
		if text, ok := t[kind+"*."+rest]; ok {
			return text
		}
		_, rest, _ = strings.Cut(rest, ".")
	}
	return ""
}
