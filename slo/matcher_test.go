package slo_test

import (
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/slo"
)

func matcher(t testing.TB, name string, op slo.MatchOp, value string) slo.Matcher {
	t.Helper()
	m, err := slo.NewMatcher(name, op, value)
	require.NoError(t, err)
	return m
}

func TestMatcher(t *testing.T) {
	for _, c := range []struct {
		op       slo.MatchOp
		value    string
		yes, not []string
	}{
		{slo.OpEqual, "a", []string{"a"}, []string{"", "A", "ab"}},
		{slo.OpEqual, "", []string{""}, []string{"a"}},
		{slo.OpNotEqual, "a", []string{"", "b"}, []string{"a"}},
		{slo.OpNotEqual, "", []string{"a"}, []string{""}},
		{slo.OpRegexp, "5..", []string{"500", "5\n5"}, []string{"", "1500", "5000"}},
		{slo.OpRegexp, "a|b", []string{"a", "b"}, []string{"ab", "ac", "cb", ""}},
		{slo.OpRegexp, ".*", []string{"", "a", "a\nb"}, nil},
		{slo.OpRegexp, ".+", []string{"a", "\n"}, []string{""}},
		{slo.OpNotRegexp, "a.*", []string{"", "b"}, []string{"a", "ab"}},
		{slo.OpNotRegexp, ".+", []string{""}, []string{"a"}},
		{slo.OpRegexp, "(?i)mdm", []string{"MDM", "mdm"}, []string{"mdm2"}},
	} {
		m := matcher(t, "x", c.op, c.value)
		for _, v := range c.yes {
			require.True(t, m.Matches(v), "%s on %q", m, v)
		}
		for _, v := range c.not {
			require.False(t, m.Matches(v), "%s on %q", m, v)
		}
	}
	for _, bad := range []string{"(", "a)|(b", "[", "*", `\`, "a{2,1}"} {
		_, err := slo.NewMatcher("x", slo.OpRegexp, bad)
		require.ErrorContains(t, err, "label x", bad)
	}
	_, err := slo.NewMatcher("x", "==", "a")
	require.ErrorContains(t, err, "unknown operator")
}

var matchTypes = map[slo.MatchOp]labels.MatchType{
	slo.OpEqual: labels.MatchEqual, slo.OpNotEqual: labels.MatchNotEqual, slo.OpRegexp: labels.MatchRegexp,
	slo.OpNotRegexp: labels.MatchNotRegexp,
}

func TestMatcherAgreesWithPrometheus(t *testing.T) {
	text := rapid.OneOf(
		rapid.StringMatching(`[ab|.*+?()^$\[\]{}\n,1-]{0,8}`),
		rapid.SampledFrom([]string{"", "a", "b", "ab", "a|b", "(?i)A", "a.*", ".*b", ".+", "a\nb", "5..", `\d+`, "^a$",
			"(?s).", "(?-s).", "(?m)^b$"}),
	)
	rapid.Check(t, func(t *rapid.T) {
		op := rapid.SampledFrom([]slo.MatchOp{slo.OpEqual, slo.OpNotEqual, slo.OpRegexp, slo.OpNotRegexp}).Draw(t, "op")
		value, label := text.Draw(t, "value"), text.Draw(t, "label")
		want, wantErr := labels.NewMatcher(matchTypes[op], "x", value)
		got, err := slo.NewMatcher("x", op, value)
		require.Equal(t, wantErr == nil, err == nil, "%s %q: %v, Prometheus: %v", op, value, err, wantErr)
		if err == nil {
			require.Equal(t, want.Matches(label), got.Matches(label), "%s on %q", got, label)
		}
	})
}

func TestSelector(t *testing.T) {
	s := slo.Selector{matcher(t, "type", slo.OpEqual, "task"), matcher(t, "severity", slo.OpNotEqual, "business")}
	event := map[string]string{"type": "task"}
	get := func(n string) string { return event[n] }
	require.True(t, s.Matches(get), "a missing attribute is empty")
	event["severity"] = "business"
	require.False(t, s.Matches(get))
	event["severity"], event["type"] = "critical", "stage"
	require.False(t, s.Matches(get))
	require.True(t, slo.Selector(nil).Matches(get))
	require.Equal(t, `{type="task",severity!="business"}`, s.String())
	require.Equal(t, "{}", slo.Selector(nil).String())
}

// What a selector prints is PromQL that means the same.
func TestSelectorPrintsPromQL(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.String().Draw(t, "value")
		name := rapid.SampledFrom([]string{"x", "http.status", "_a1", "1a", "a-b"}).Draw(t, "name")
		m, err := slo.NewMatcher(name, slo.OpEqual, value)
		require.NoError(t, err)
		got, err := parser.NewParser(parser.Options{}).ParseMetricSelector(slo.Selector{m}.String())
		require.NoError(t, err)
		require.Len(t, got, 1)
		require.Equal(t, name, got[0].Name)
		require.Equal(t, value, got[0].Value)
	})
}

func TestNames(t *testing.T) {
	id := slo.NewID("shop", "a.b-c")
	require.Equal(t, "shop", id.Service())
	require.Equal(t, "a.b-c", id.Name())
	require.False(t, slo.Group{"a"}.IsOther())
	require.True(t, slo.Group{slo.OtherGroup, slo.OtherGroup}.IsOther())
	require.False(t, slo.Group(nil).IsOther())
	require.NotEqual(t, slo.Group{"a", "b,c"}.Key(), slo.Group{"a,b", "c"}.Key())
	require.NotEqual(t, slo.Group{"a", ""}.Key(), slo.Group{"", "a"}.Key())
}
