package spec

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

const specs = "../../testdata/specs/"

func loadClean(t *testing.T, paths ...string) *Spec {
	t.Helper()
	s, ps, err := LoadPaths(paths, nil)
	require.NoError(t, err)
	require.Empty(t, ps.String())
	return s
}

func TestStarterIsValid(t *testing.T) {
	for _, service := range []string{"shop", "a", "insurance-unpaid.v2"} {
		text := Starter(service)
		s, ps := Load([]File{{Name: "starter.yaml", Data: text}})
		require.Empty(t, ps.String())
		require.Len(t, s.SLOs, 2)
		require.Equal(t, service, s.Services[0].Name)
		require.Equal(t, []string{"request"}, s.Services[0].Types)
		require.NotContains(t, string(text), "SERVICE")
		require.Less(t, bytes.Count(text, []byte("\n")), 45)
	}
	uncommented := strings.NewReplacer("# corrections:", "corrections:", "#   - {name",
		"  - {name").Replace(string(Starter("shop")))
	s, ps := Load([]File{{Name: "starter.yaml", Data: []byte(uncommented)}})
	require.Empty(t, ps.String())
	require.Len(t, s.SLOs[0].Corrections, 1, "the commented example is valid too")
}

func TestMinimalFile(t *testing.T) {
	data, err := os.ReadFile(specs + "minimal.yaml")
	require.NoError(t, err)
	require.Equal(t, 12, bytes.Count(data, []byte("\n")))
	s := loadClean(t, specs+"minimal.yaml")
	require.Len(t, s.SLOs, 1)
	o := s.SLOs[0]
	require.Equal(t, slo.ID("shop/checkout"), o.ID)
	require.Equal(t, 0.001, o.Objective.Budget())
	require.Equal(t, slo.Window{Rolling: 30 * day}, o.Window)
	require.Equal(t, slo.Occurrences, o.Budgeting.Method)
	require.Equal(t, uint64(20), o.Alerting.MinEvents)
}

func TestBrokenFileHasFiveMistakes(t *testing.T) {
	s, ps, err := LoadPaths([]string{"../../testdata/mistakes/broken.yaml"}, nil)
	require.NoError(t, err)
	require.Nil(t, s)
	require.Len(t, ps, 5)
	for i, want := range []string{"did you mean 99.9?", `did you mean "failure"?`, `did you mean "objective"?`,
		"did you mean 15s", `did you mean "latency"?`} {
		require.Equal(t, Error, ps[i].Severity)
		require.Contains(t, ps[i].Suggestion, want)
	}
	require.ErrorContains(t, ps.Err(), ps[4].Message)
}

func TestInsuranceFile(t *testing.T) {
	s := loadClean(t, specs+"insurance.yaml")
	byName := map[string]*slo.SLO{}
	for _, o := range s.SLOs {
		byName[o.ID.Name()] = o
		require.Equal(t, "insurance-unpaid", o.ID.Service())
		require.Equal(t, "unpaid", o.Labels["team"])
	}
	products := []slo.Group{{"MEDCARE"}, {"SOMLT"}, {"TRVL10"}}
	for name, objective := range map[string]string{"availability": "99.9", "latency": "95", "throughput": "99",
		"quality": "99", "error-rate": "99"} {
		require.Equal(t, objective, byName[name].Objective.Percent(), name)
		require.Equal(t, []string{"product"}, byName[name].GroupBy, name)
		require.Equal(t, products, byName[name].Expect, name)
	}
	require.Equal(t, 15*time.Minute, byName["latency"].Indicator.Threshold)
	require.Equal(t, slo.Month, byName["error-rate"].Window.Calendar)
	require.Equal(t, slo.Timeslices, byName["stage-uptime"].Budgeting.Method)
	require.GreaterOrEqual(t, 3*byName["throughput"].Indicator.AtLeast, uint64(100))
	require.Equal(t, uint64(100), byName["throughput-total"].Indicator.AtLeast)

	type limit struct {
		warning, critical time.Duration
		each              string
	}
	limits := map[string]limit{}
	for _, l := range s.Thresholds {
		limits[l.Name] = limit{l.Warning, l.Critical, l.Each}
	}
	require.Equal(t, map[string]limit{
		"createApplication": {warning: time.Minute}, "generatePolicy": {warning: 5 * time.Minute},
		"getClientInfo": {warning: 30 * time.Second}, "signOperation": {warning: 2 * time.Minute},
		"mdm": {warning: 5 * time.Second}, "insurance-application": {warning: 10 * time.Second},
		"catalogue": {warning: 3 * time.Second}, "digital-sign": {warning: 15 * time.Second},
		"processing":          {warning: 15 * time.Minute, critical: 30 * time.Minute},
		"integration_failure": {each: "critical"}, "task_execution": {each: "critical"},
	}, limits)
	// What slows a call beyond its limit also counts against its SLO.
	for _, system := range []string{"mdm", "insurance-application", "catalogue", "digital-sign"} {
		require.Equal(t, limits[system].warning, byName[system+"-latency"].Indicator.Threshold, system)
	}

	require.Len(t, s.Agreements, 2)
	require.Equal(t, sla.Attainment, s.Agreements[0].Method)
	require.Equal(t, sla.Bands, s.Agreements[1].Method)
	for _, a := range s.Agreements {
		var weights []float64
		for _, c := range a.Components {
			weights = append(weights, c.Weight)
		}
		require.Equal(t, []float64{40, 30, 20, 10}, weights)
		require.Equal(t, 95.0, a.Warning)
		require.Equal(t, 90.0, a.Critical)
	}
	require.Equal(t, []sla.Band{
		{Quantile: 0.95, Threshold: 5 * time.Minute, Score: 100}, {Quantile: 0.95, Threshold: 15 * time.Minute, Score: 80},
		{Quantile: 0.95, Threshold: 30 * time.Minute, Score: 50}, {Score: 20},
	}, s.Agreements[1].Components[1].Bands)

	// The maintenance recurs on first Sundays, at one o'clock in Moscow.
	cs := byName["availability"].Corrections
	require.Len(t, cs, 1)
	sp := slo.Span{From: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), To: time.Date(2026, 12, 31, 0, 0, 0, 0, time.UTC)}
	got := slo.Excluded(cs, sp)
	require.Len(t, got, 1, "that of November began in October, UTC: 2026-10-31T22:00Z to midnight")
	require.Equal(t, time.Date(2026, 12, 5, 22, 0, 0, 0, time.UTC), got[0].From.UTC())
	require.Equal(t, 2*time.Hour, got[0].Duration())
	require.Empty(t, byName["quality"].Corrections)

	src, ok := s.Source(KindSLO, "insurance-unpaid", "latency")
	require.True(t, ok)
	line := strings.Split(string(mustRead(t, specs+"insurance.yaml")), "\n")[src.Line-1]
	require.Equal(t, "  - name: latency", line)
	require.Equal(t, "latency", line[src.Column-1:])
}

func mustRead(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	return data
}

func TestLoadPaths(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	one := func(name string) string {
		return "version: sloengine/v1\nservice: shop\nslos: [{name: " + name +
			", objective: 99, indicator: {events: {bad: '{outcome=\"failure\"}'}}}]\n"
	}
	write("b.yaml", one("b"))
	write("sub/a.yml", one("a"))
	write("notes.txt", "not a spec")
	write(".hidden.yaml", "not a spec")
	write("..data/c.yaml", one("c"))
	require.NoError(t, os.Symlink("..data/c.yaml", filepath.Join(dir, "c.yaml")))

	s := loadClean(t, dir, filepath.Join(dir, "b.yaml"), filepath.Join(dir, ".", "b.yaml"))
	var ids []slo.ID
	for _, o := range s.SLOs {
		ids = append(ids, o.ID)
	}
	require.Equal(t, []slo.ID{"shop/a", "shop/b", "shop/c"}, ids)

	s, ps, err := LoadPaths([]string{"-"}, strings.NewReader(one("x")))
	require.NoError(t, err)
	require.Empty(t, ps)
	require.Equal(t, "<stdin>", s.Sources[0].File)

	_, ps, err = LoadPaths([]string{"-"}, bytes.NewReader(make([]byte, yamldoc.MaxFileBytes+5)))
	require.NoError(t, err)
	require.Contains(t, ps.String(), "larger than 8388608 bytes")

	for _, bad := range [][]string{{filepath.Join(dir, "none.yaml")}, {t.TempDir()}, {}, {"-"}} {
		_, _, err := LoadPaths(bad, nil)
		require.ErrorContains(t, err, "read spec")
	}
}

func TestServiceOverSeveralFiles(t *testing.T) {
	const head = "version: sloengine/v1\nservice: shop\n"
	s, ps := Load([]File{
		{"1.yaml",
			[]byte(head +
				"labels: {team: a}\ntypes: [order]\nbuckets: [1s, 5s]\nslas: [{name: gold, components: {x: {slo: lat, weight: " +
				"100}}}]\n")},
		{"2.yaml",
			[]byte(head +
				"dimensions: [region]\nbuckets: [10ms, 5s]\ntypes: [refund]\nslos: [{name: lat, objective: 99, indicator: " +
				"{latency: {valid: '{type=\"order\"}', threshold: 1s}}}]\n")},
		{"3.yaml", []byte(
			head + "corrections: [{name: c, start: 2026-01-01T00:00:00Z, duration: 1h, author: me, reason: r, slos: [lat]}]\n")},
	})
	require.Empty(t, ps.String())
	require.Equal(t, []Service{{Name: "shop", Types: []string{"order", "refund"}, Dimensions: []string{"region"},
		Buckets: []time.Duration{10 * time.Millisecond, time.Second, 5 * time.Second},
		Labels:  map[string]string{"team": "a"}}}, s.Services)
	require.Equal(t, map[string]string{"team": "a"}, s.SLOs[0].Labels)
	require.Len(t, s.SLOs[0].Corrections, 1)
	require.Equal(t, slo.ID("shop/lat"), s.Agreements[0].Components[0].SLO)

	_, ps = Load([]File{{"b.yaml", []byte(head + "slos: 1\n")}, {"a.yaml", []byte(head + "slos: 2\n")}})
	require.Equal(t, []string{"a.yaml", "b.yaml"}, []string{ps[0].File, ps[1].File})
}

func TestDerivedTypes(t *testing.T) {
	const slos = "slos: [{name: a, objective: 99, indicator: {events: {valid: '%s', bad: '{outcome=\"failure\"}'}}}]\n"
	for selector, want := range map[string][]string{
		`{type="order"}`:                       {"order"},
		`{type=~"order|refund"}`:               {"order", "refund"},
		`{type=~"(order|refund)"}`:             {"order", "refund"},
		`{type=~"order|refund",type!="order"}`: {"refund"},
		`{type=~"order.*"}`:                    nil,
		`{type!="order"}`:                      nil,
		`{product="x"}`:                        nil,
		`{}`:                                   nil,
	} {
		text := "version: sloengine/v1\nservice: shop\n" + strings.Replace(slos, "%s", selector, 1) +
			"limits: [{name: l, match: '{type=\"order\"}', warning: 1s}]\n"
		s, ps := Load([]File{{"x.yaml", []byte(text)}})
		require.Empty(t, ps.String(), selector)
		if want != nil && want[0] == "refund" {
			want = []string{"order", "refund"} // the limit's
		}
		require.Equal(t, want, s.Services[0].Types, selector)
	}
}

func TestEverythingIsRead(t *testing.T) {
	s, ps := Load([]File{{"x.yaml", mustRead(t, "testdata/ok-everything.yaml")}})
	require.Empty(t, ps.String())
	o := s.SLOs[0]
	require.Equal(t, slo.ID("shop/old"), o.Was)
	require.Equal(t, "99.5", o.Objective.Percent())
	require.Equal(t, "quarter America/Sao_Paulo", o.Window.String())
	require.Equal(t, slo.Budgeting{Method: slo.RatioTimeslices, Slice: 30 * time.Second}, o.Budgeting)
	require.Equal(t, []slo.Group{{"eu", "web"}, {"us", "app"}}, o.Expect)
	require.Equal(t, 7, o.MaxGroups)
	require.Equal(t, map[string]string{"team": "web", "tier": "2"}, o.Labels)
	require.Equal(t, slo.Alerting{
		MinEvents: 3, FalsePages: 0.5,
		Page:   slo.AlertSettings{For: 2 * time.Minute, Labels: map[string]string{"severity": "high"}},
		Ticket: slo.AlertSettings{Disabled: true},
	}, o.Alerting)
	require.Equal(t, `{outcome!="success"}`, s.SLOs[1].Indicator.Bad.String())
	require.Equal(t, uint64(5), s.SLOs[2].Indicator.AtLeast)
	require.Equal(t, time.Minute, s.SLOs[2].Indicator.Per)
	require.Equal(t, `up{job="x"}`, s.SLOs[3].Indicator.PromGood)
	require.Nil(t, s.Services[0].Types)

	s, _ = Load([]File{{"x.yaml", mustRead(t, "testdata/ok-quoted-numbers.yaml")}})
	require.Equal(t, "99.9", s.SLOs[0].Objective.Percent())
	require.Equal(t, []slo.Group{{"1"}, {"2"}, {"true"}}, s.SLOs[0].Expect)
	s, _ = Load([]File{{"x.yaml", mustRead(t, "testdata/ok-merge-key.yaml")}})
	require.Equal(t, "99.5", s.SLOs[1].Objective.Percent())
	require.Equal(t, s.SLOs[0].Indicator, s.SLOs[1].Indicator)
}

func TestProblemForms(t *testing.T) {
	_, ps := Load([]File{{"x.yaml", mustRead(t, "testdata/sla-warnings.yaml")}})
	require.False(t, ps.HasErrors())
	require.NoError(t, ps.Err())
	require.Equal(t, ps, ps.Warnings())
	out, err := json.Marshal(ps[0])
	require.NoError(t, err)
	require.JSONEq(t,
		`{"file":"x.yaml","line":9,"column":28,"severity":"warning","message":"sla w1: the weights add up to 70",`+
			`"suggestion":"they are scaled to 100"}`, string(out))
	s, _ := Load([]File{{"x.yaml", mustRead(t, "testdata/sla-warnings.yaml")}})
	require.Equal(t, ps[0].String(), s.Warnings[0])
	require.Equal(t, 40.0, s.Agreements[0].Components[0].Weight, "as written")
}

// limits is the old name of thresholds. It reads the same, but not beside the new one.
func TestOldKeyOfThresholds(t *testing.T) {
	const head, items = "version: sloengine/v1\nservice: shop\n", ":\n  - {name: a, match: '{type=\"x\"}', critical: 1h}\n"
	load := func(text string) (*Spec, Problems) { return Load([]File{{Name: "f", Data: []byte(head + text)}}) }
	now, ps := load("thresholds" + items)
	require.Empty(t, ps)
	require.Len(t, now.Thresholds, 1)
	old, ps := load("limits" + items)
	require.Empty(t, ps)
	require.Equal(t, now.Thresholds, old.Thresholds)
	_, ps = load("thresholds" + items + "limits" + items)
	require.ErrorContains(t, ps.Err(),
		"f:5:1: spec: limits is the old name of thresholds, and only one of them may be given (move its items to thresholds)")
}

func TestAdmitUnknownTypes(t *testing.T) {
	const text = "version: sloengine/v1\nservice: shop\ntypes: [order]\nadmit_unknown_types: true\n" +
		"slos: [{name: a, objective: 99, indicator: {events: {bad: '{outcome=\"failure\"}'}}}]\n"
	s, ps := Load([]File{{Name: "a.yaml", Data: []byte(text)}})
	require.Empty(t, ps)
	require.True(t, s.Services[0].AdmitUnknownTypes)
	require.Contains(t, string(Encode(s)), "admit_unknown_types: true")
	_, ps = Load([]File{{Name: "a.yaml", Data: []byte(strings.Replace(text, "[order]", "any", 1))}})
	require.Len(t, ps, 1)
	require.Equal(t, 4, ps[0].Line)
	require.Contains(t, ps[0].Message, "has no effect, because shop takes events of every type")
}
