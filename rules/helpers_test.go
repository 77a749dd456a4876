package rules_test

import (
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit/spectest"
	"github.com/sloengine/sloengine/rules"
)

// load reads a spec of the user's format.
func load(t testing.TB, text string) rules.Spec {
	t.Helper()
	return spectest.Rules(spectest.Spec(t, "test.yaml", text))
}

func insurance(t testing.TB) rules.Spec { return example(t, "insurance") }

// example reads an example spec.
func example(t testing.TB, name string) rules.Spec {
	t.Helper()
	return spectest.Rules(spectest.Example(t, name))
}

// year is a year of tables.
var year = rules.Options{
	From:  time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	Until: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC),
}

func recording(t testing.TB, in rules.Spec, o rules.Options) []rules.Group {
	t.Helper()
	groups, err := rules.Recording(in, o)
	require.NoError(t, err)
	return groups
}

// parsed checks a rule file as Prometheus would.
func parsed(t testing.TB, doc []byte) *rulefmt.RuleGroups {
	t.Helper()
	out, errs := rulefmt.Parse(doc, false, model.UTF8Validation, parser.NewParser(parser.Options{}), nil)
	require.Empty(t, errs)
	return out
}
