package expression

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type env struct {
	Event struct {
		Attributes map[string]string `expr:"attributes"`
		Type       string            `expr:"type"`
	} `expr:"event"`
}

// doubled joins a text with itself n times, each time twice as long.
func doubled(n int) string {
	text, last := "", "event.type"
	for i := range n {
		text += fmt.Sprintf("let v%d = %s + %s; ", i, last, last)
		last = fmt.Sprintf("v%d", i)
	}
	return text + last + ` == ""`
}

// An expression that would cost more than its text suggests is refused.
func TestHostileExpressions(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"doubled":           {doubled(20), "texts cannot be joined with + where there are variables"},
		"doubled attribute": {`let a = event.attributes.x + "y"; a == ""`, "texts cannot be joined"},
		"large pattern":     {`event.type matches "(a{1,1000})b"`, "the regular expression is too large: "},
		"nested repeats":    {`event.type matches "((a{0,30}){0,30})*b"`, "the regular expression is too large: "},
		"pattern of data":   {`event.type matches event.attributes.x`, "must be a string literal"},
		"range":             {`len(1..1000000) > 0`, "ranges are not allowed"},
		"many nodes":        {strings.Repeat("not ", 1000) + "true", "maximum allowed nodes"},
	} {
		_, err := Compile[env, bool](c.text)
		require.ErrorContains(t, err, c.want, name)
	}
}

// The dearest of those that are accepted, on the longest attribute that an event can have.
func TestExpressionCost(t *testing.T) {
	var e env
	e.Event.Attributes = map[string]string{"x": strings.Repeat("a", 1024)}
	for _, text := range []string{
		`let n = len(event.attributes.x) * 2; n + n == 4096`,
		`event.attributes.x matches "(a{1,200}){1}b"`,
		`event.attributes.x matches "(x+x+)+y|(a|a?)+$b"`,
		"len(" + strings.Repeat("lower(", 80) + "event.attributes.x" + strings.Repeat(")", 80) + ") > 0",
		"len(event.attributes.x" + strings.Repeat(" + event.attributes.x", 40) + ") > 0",
		strings.Repeat("(", 1000) + "true" + strings.Repeat(")", 1000),
	} {
		p, err := Compile[env, bool](text)
		require.NoError(t, err, text)
		began := time.Now()
		_, err = p.Run(e)
		require.NoError(t, err, text)
		require.Less(t, time.Since(began), 5*time.Second, text) // some 20 ms on an idle machine
	}
}
