package suggest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "abc", 0}, {"objective", "objectve", 1}, {"kitten", "sitting", 3},
		{"form", "from", 1}, {"ключ", "луч", 2},
	} {
		require.Equal(t, c.want, distance(c.a, c.b), "%s %s", c.a, c.b)
		require.Equal(t, c.want, distance(c.b, c.a), "%s %s", c.b, c.a)
	}
	require.Equal(t, "group_by", Closest("groupBy", []string{"name", "group_by"}))
	require.Equal(t, "group_by", Closest("group-by", []string{"name", "group_by"}))
	require.Empty(t, Closest("colour", []string{"name", "group_by"}))
	require.Empty(t, Closest(strings.Repeat("x", 65), []string{strings.Repeat("x", 64)}))
}
