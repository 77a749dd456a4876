package spec

import (
	"fmt"
	"slices"
	"strings"
)

// didYouMean suggests the known word that is closest to what was written, or ""
// if none is close.
func didYouMean(word string, known []string) string {
	if best := closest(word, known); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return ""
}

func closest(word string, known []string) string {
	best, bestDist := "", max(1, len(word)/3)+1
	if len(word) > 64 {
		return ""
	}
	folded := strings.ToLower(strings.ReplaceAll(word, "-", "_"))
	for _, k := range known {
		if len(k) > 128 {
			continue
		}
		if d := distance(folded, strings.ToLower(k)); d < bestDist {
			best, bestDist = k, d
		}
	}
	return best
}

// distance is the number of single-character edits (insert, delete, replace,
// swap of neighbours) that make a into b.
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

// oneOf lists words for a message: "a, b or c".
func oneOf(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
