// Package slotest makes the objectives and matchers of tests.
package slotest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
)

// Objective is that of a percentage such as 99.9.
func Objective(t testing.TB, percent string) slo.Objective {
	t.Helper()
	o, err := slo.ParsePercent(percent)
	require.NoError(t, err)
	return o
}

// Matcher is one that parses.
func Matcher(t testing.TB, name string, op slo.MatchOp, value string) slo.Matcher {
	t.Helper()
	m, err := slo.NewMatcher(name, op, value)
	require.NoError(t, err)
	return m
}
