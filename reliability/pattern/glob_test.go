package pattern

import (
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Patterns over two letters, against path.Match, which agrees as long as there is no /.
func TestGlobMatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringMatching(`[ab*?]{0,8}`).Draw(t, "pattern")
		text := rapid.StringMatching(`[ab]{0,8}`).Draw(t, "text")
		want, err := path.Match(pattern, text)
		require.NoError(t, err)
		require.Equal(t, want, Glob(pattern, text))
	})
}

// Two patterns overlap if one of all short texts fits both: those of up to 8 characters
// suffice for patterns of up to 4.
func TestGlobsOverlap(t *testing.T) {
	var texts []string
	for n := range 9 {
		for bits := range 1 << n {
			var b strings.Builder
			for i := range n {
				b.WriteByte("ab"[bits>>i&1])
			}
			texts = append(texts, b.String())
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.StringMatching(`[ab*?]{0,4}`).Draw(t, "p")
		q := rapid.StringMatching(`[ab*?]{0,4}`).Draw(t, "q")
		var common string
		found := false
		for _, s := range texts {
			if Glob(p, s) && Glob(q, s) {
				common, found = s, true
				break
			}
		}
		require.Equal(t, found, globsOverlap(p, q), "common text %q", common)
		if p != "" && q != "" {
			require.Equal(t, found, mustCompile(t, p).Overlap(mustCompile(t, q)))
		}
	})
}
