// Package suggest finds the known word that a misspelt one was meant to be. It holds the only edit distance of the
// module and does not know where the words come from.
package suggest

import (
	"fmt"
	"strings"
)

// Words longer than these bytes are not compared: the distance costs the product of both lengths.
const (
	maxWord  = 64
	maxKnown = 128
)

// Closest returns the known word that is closest to word, or "" if none is close: at most a third of the characters may
// differ. Case is ignored, and a dash equals an underscore. A known word that continues word after an underscore wins,
// so that "password" finds "password_file".
func Closest(word string, known []string) string {
	best, fewest := "", max(1, len(word)/3)+1
	if word == "" || len(word) > maxWord {
		return ""
	}
	folded := Fold(word)
	for _, k := range known {
		if len(k) > maxKnown {
			continue
		}
		lower := strings.ToLower(k)
		if strings.HasPrefix(lower, folded+"_") {
			return k
		}
		if d := distance(folded, lower); d < fewest {
			best, fewest = k, d
		}
	}
	return best
}

// DidYouMean is a hint with the closest known word, or "".
func DidYouMean(word string, known []string) string {
	if best := Closest(word, known); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return ""
}

// Fold is the form in which words are compared: lower case, underscores for dashes.
func Fold(word string) string { return strings.ToLower(strings.ReplaceAll(word, "-", "_")) }

// OneOf lists words for a message: "a, b or c".
func OneOf(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// distance is the number of single-character edits (insert, delete, replace, swap of neighbours) that turn a into b.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	before, prev := make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := range x {
		row := make([]int, len(y)+1)
		row[0] = i + 1
		for j := range y {
			cost := 1
			if x[i] == y[j] {
				cost = 0
			}
			row[j+1] = min(row[j]+1, prev[j+1]+1, prev[j]+cost)
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, prev = prev, row
	}
	return prev[len(y)]
}
