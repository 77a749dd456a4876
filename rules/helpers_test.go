package rules_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/slo/spec"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares with a file below testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got), "%s is out of date; look at the difference after go test -update", path)
}

// load reads a spec of the user's format.
func load(t testing.TB, text string) rules.Spec {
	t.Helper()
	sp, problems := spec.Load([]spec.File{{Name: "test.yaml", Data: []byte(text)}})
	require.NoError(t, problems.Err())
	return rules.Spec{SLOs: sp.SLOs, Thresholds: sp.Thresholds, Agreements: sp.Agreements}
}

func insurance(t testing.TB) rules.Spec { return example(t, "insurance") }

// example reads an example spec.
func example(t testing.TB, name string) rules.Spec {
	t.Helper()
	text, err := os.ReadFile("../testdata/specs/" + name + ".yaml")
	require.NoError(t, err)
	return load(t, string(text))
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
