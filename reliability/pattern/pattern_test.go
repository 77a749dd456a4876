package pattern

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func mustCompile(t require.TestingT, text string) Pattern {
	p, err := Compile(text, nil)
	require.NoError(t, err)
	return p
}

func lower(name string) bool {
	for _, c := range name {
		if (c < 'a' || c > 'z') && c != '.' {
			return false
		}
	}
	return true
}

func TestPattern(t *testing.T) {
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"audit", "audit", true}, {"audit", "audit.x", false}, {"audit.*", "audit.x", true}, {"a?dit", "audit", true},
		{`/^audit\./`, "audit.login", true}, {`/^audit\./`, "no.audit.x", false}, {"/login/", "audit.login.ok", true},
	} {
		p, err := Compile(tt.pattern, lower)
		require.NoError(t, err, tt.pattern)
		require.Equal(t, tt.want, p.Match(tt.name), tt)
		require.Equal(t, tt.pattern, p.String())
	}
	for text, want := range map[string]string{
		"":               "empty pattern",
		"Audit.*":        `"Audit.*" can never match: no name has the characters "Audit."`,
		"/(/":            "pattern /(/: error parsing regexp: missing closing ): `(`",
		"/":              `"/" can never match: no name has the characters "/"`,
		"/(a{1,900}b)+/": "pattern /(a{1,900}b)+/: the regular expression is too large: 1805 instructions (at most 500)",
	} {
		_, err := Compile(text, lower)
		require.EqualError(t, err, want)
	}
}

func TestOverlap(t *testing.T) {
	for _, tt := range []struct {
		p, q string
		want bool
	}{
		{`/^audit\./`, "audit.x", true}, {"audit.x", `/^audit\./`, true}, {`/^audit\./`, "order", false},
		{"/a/", "/a/", true}, {"/a/", "b*", false},
	} {
		require.Equal(t, tt.want, mustCompile(t, tt.p).Overlap(mustCompile(t, tt.q)), tt)
	}
}
