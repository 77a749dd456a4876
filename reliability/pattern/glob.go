package pattern

import "strings"

// Glob reports whether text fits a pattern of * and ?, without compiling it. It goes back to the last * only, so it
// takes at most len(pattern) * len(text) steps.
func Glob(pattern, text string) bool {
	p, t, star, from := 0, 0, -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			from++
			p, t = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// globsOverlap reports whether any text matches both patterns.
func globsOverlap(a, b string) bool {
	// row[j] is whether a[i:] and b[j:] have a text in common, from the ends forwards.
	row, next := make([]bool, len(b)+1), make([]bool, len(b)+1)
	for i := len(a); i >= 0; i-- {
		row, next = next, row
		for j := len(b); j >= 0; j-- {
			switch {
			case i == len(a) && j == len(b):
				row[j] = true
			case i < len(a) && a[i] == '*':
				row[j] = next[j] || j < len(b) && row[j+1]
			case j < len(b) && b[j] == '*':
				row[j] = row[j+1] || i < len(a) && next[j]
			case i == len(a) || j == len(b):
				row[j] = false
			default:
				row[j] = (a[i] == '?' || b[j] == '?' || a[i] == b[j]) && next[j+1]
			}
		}
	}
	return row[0]
}
