package alerts

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// made is a spec with everything that is generated from it.
type made struct {
	in        rules.Spec
	recording []rules.Group
	alerts    []rules.Group
}

func generate(t testing.TB, in rules.Spec, o Options) made {
	t.Helper()
	recording, err := rules.Recording(in, o.Options)
	require.NoError(t, err)
	groups := Rules(in, o)
	return made{in, recording, groups}
}

func (m made) file(header string) []byte {
	return rules.File(header, slices.Concat(m.recording, m.alerts))
}

// specs runs a test for the synthetic spec, the insurance one and more examples.
func specs(t *testing.T, run func(t *testing.T, name string, m made), more ...string) {
	all := map[string]rules.Spec{"synthetic": synthetic(t), "insurance": insurance(t)}
	for _, name := range more {
		all[name] = exampleSpec(t, name)
	}
	for name, in := range all {
		t.Run(name, func(t *testing.T) { run(t, name, generate(t, in, Options{Options: tables})) })
	}
}

func TestRulesAreGolden(t *testing.T) {
	specs(t, func(t *testing.T, name string, m made) {
		testkit.Golden(t, filepath.Join("testdata", name+".alerts.yaml"), rules.File("", m.alerts))
		again := Rules(m.in, Options{Options: tables})
		require.Equal(t, m.alerts, again)
	})
}

func TestFulfilmentIsGolden(t *testing.T) {
	// the others have the engine's
	m := generate(t, exampleSpec(t, "fulfilment"), Options{Options: tables, NoEngine: true})
	testkit.Golden(t, "testdata/fulfilment.alerts.yaml", rules.File("", m.alerts))
}

// Grafana's own alert rules are those of Prometheus: the same queries, labels and times, in the form of its
// provisioning files, whose field names Grafana's reader has.
func TestGrafanaAlertsAreGolden(t *testing.T) {
	to := rules.GrafanaOptions{DataSource: "prom-1", Folder: "SLO"}
	m := generate(t, exampleSpec(t, "fulfilment"), Options{Options: tables, NoEngine: true})
	testkit.Golden(t, "testdata/fulfilment.grafana.yaml", rules.GrafanaAlerts("", m.alerts, to))
	require.Nil(t, rules.GrafanaAlerts("", m.recording, to))
	specs(t, func(t *testing.T, _ string, m made) {
		var file struct {
			APIVersion int `yaml:"apiVersion"`
			Groups     []struct {
				OrgID                  int `yaml:"orgId"`
				Name, Folder, Interval string
				Rules                  []struct {
					UID, Title, Condition string
					Data                  []struct {
						RefID             string                 `yaml:"refId"`
						DatasourceUID     string                 `yaml:"datasourceUid"`
						RelativeTimeRange struct{ From, To int } `yaml:"relativeTimeRange"`
						Model             map[string]any
					}
					NoDataState   string `yaml:"noDataState"`
					ExecErrState  string `yaml:"execErrState"`
					For           string
					KeepFiringFor string `yaml:"keepFiringFor"`
					Labels        map[string]string
					Annotations   map[string]string
				}
			}
		}
		dec := yaml.NewDecoder(bytes.NewReader(rules.GrafanaAlerts("", m.alerts, to)))
		dec.KnownFields(true)
		require.NoError(t, dec.Decode(&file))
		var want []rules.Rule
		for _, g := range m.alerts {
			for _, r := range g.Rules {
				if r.Alert != "" {
					want = append(want, r)
				}
			}
		}
		uids, titles := map[string]bool{}, map[string]bool{}
		for _, g := range file.Groups {
			every, err := model.ParseDuration(g.Interval)
			require.NoError(t, err)
			require.Zero(t, time.Duration(every)%(10*time.Second), g.Name)
			for _, r := range g.Rules {
				of := want[0]
				want = want[1:]
				require.Equal(t, of.Expr, r.Data[0].Model["expr"])
				require.Equal(t, of.Labels, r.Labels)
				held, err := model.ParseDuration(r.For)
				require.NoError(t, err)
				require.Equal(t, of.For, time.Duration(held))
				require.True(t, strings.HasPrefix(r.Title, of.Alert), r.Title)
				queries := 0 // which Grafana's templates have not
				if of.Annotations[AnnotationForecast] != "" {
					queries++
				}
				require.Len(t, r.Annotations, len(of.Annotations)-queries)
				for _, text := range r.Annotations {
					require.NotRegexp(t, `\$\{|\$value\b`, text)
				}
				require.Equal(t, []string{r.Data[1].RefID, "OK", "Error", "prom-1"},
					[]string{r.Condition, r.NoDataState, r.ExecErrState, r.Data[0].DatasourceUID})
				require.LessOrEqual(t, len(r.UID), 40)
				require.False(t, uids[r.UID] || titles[r.Title], r.Title)
				uids[r.UID], titles[r.Title] = true, true
			}
		}
		require.Empty(t, want)
	})
}

func TestRulesLoad(t *testing.T) {
	specs(t, func(t *testing.T, name string, m made) {
		path := filepath.Join(t.TempDir(), "rules.yaml")
		data := m.file("made for a test")
		require.NoError(t, os.WriteFile(path, data, 0o644))
		_, errs := rulefmt.Parse(data, false, model.UTF8Validation, parser.NewParser(parser.Options{}),
			slog.New(slog.DiscardHandler))
		require.Empty(t, errs)
		promtool(t, "check", "rules", path)
		require.NoError(t, os.WriteFile(path, rules.File("", m.alerts), 0o644))
		require.Contains(t, promtool(t, "check", "rules", path), "SUCCESS")
	})
}

// Every series that an alert reads is recorded, exported, or one of the engine's.
func TestExpressionsReadKnownSeries(t *testing.T) {
	for _, naming := range []rules.Naming{rules.Own, rules.Sloth} {
		o := Options{Options: tables}
		o.Names = naming
		for name, in := range map[string]rules.Spec{"synthetic": synthetic(t), "insurance": insurance(t)} {
			m := generate(t, in, o)
			known := map[string]bool{"ALERTS": true, ProcessStart: true}
			for _, g := range m.recording {
				for _, r := range g.Rules {
					known[r.Record] = true
				}
			}
			for _, s := range series.All() {
				known[s.Name] = true
			}
			for _, g := range m.alerts {
				for _, r := range g.Rules {
					expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
					require.NoError(t, err, "%s %s\n%s", name, r.Alert, r.Expr)
					require.Equal(t, parser.ValueTypeVector, expr.Type())
					parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
						if v, ok := n.(*parser.VectorSelector); ok {
							require.True(t, known[v.Name] || metric.Lookup(v.Name) != nil, "%s: %s reads %s", name, r.Alert, v.Name)
						}
						return nil
					})
				}
			}
		}
	}
}

func TestEveryAlertTellsWhatToDo(t *testing.T) {
	camel := regexp.MustCompile(`^[A-Z][A-Za-z0-9]+$`)
	names := Names()
	specs(t, func(t *testing.T, _ string, m made) {
		groupNames := map[string]bool{}
		for _, g := range m.alerts {
			require.False(t, groupNames[g.Name], g.Name)
			groupNames[g.Name] = true
			require.Nil(t, g.Labels)
			require.Zero(t, g.QueryOffset)
			for _, r := range g.Rules {
				require.Regexp(t, camel, r.Alert)
				if r.Alert != "ShopTooManyErrors" {
					require.Contains(t, names, r.Alert)
				}
				for _, a := range []string{"summary", "description", "dashboard", "page", "runbook_url"} {
					require.NotEmpty(t, r.Annotations[a], "%s has no %s", r.Alert, a)
				}
				for _, a := range []string{"dashboard", "page", "runbook_url"} {
					require.Regexp(t, `^https?://`, r.Annotations[a], r.Alert)
				}
				if r.Labels[series.LabelTier] != "" && !strings.HasPrefix(r.Labels[series.LabelTier], "page") {
					require.NotContains(t, r.Annotations["summary"], "fast", "a ticket tells of a burn over days")
				}
				require.NotEmpty(t, r.Labels["severity"], r.Alert)
				require.NotEmpty(t, r.Labels[series.LabelKind], r.Alert)
				if s := r.Labels["severity"]; s != SeverityInfo && s != SeverityNone {
					require.Contains(t, []string{ImpactHigh, ImpactMedium, ImpactLow}, r.Labels[series.LabelImpact], r.Alert)
				}
				if id, ok := r.Labels[series.LabelSLOID]; ok {
					require.Equal(t, id, r.Labels[series.LabelService]+"/"+r.Labels[series.LabelSLO])
				}
			}
		}
	})
}

// Without addresses no alert links to this machine.
func TestNoLinksWithoutAddresses(t *testing.T) {
	groups := Rules(synthetic(t), Options{Options: rules.Options{From: tables.From, Until: tables.Until}})
	for _, g := range groups {
		for _, r := range g.Rules {
			require.NotContains(t, r.Annotations, "page", r.Alert)
			require.NotContains(t, r.Annotations, "dashboard", r.Alert)
			require.NotContains(t, fmt.Sprint(r.Annotations), "127.0.0.1", r.Alert)
			require.NotEmpty(t, r.Annotations["runbook_url"], r.Alert)
		}
	}
}

// Two alerts of a rule file must not be the same alert.
func TestAlertsAreToldApart(t *testing.T) {
	specs(t, func(t *testing.T, _ string, m made) {
		seen := map[string]bool{}
		for _, g := range m.alerts {
			for _, r := range g.Rules {
				key := r.Alert
				for _, k := range []string{series.LabelSLOID, series.LabelService, series.LabelTier,
					series.LabelAgreement, "slo_effect"} {
					key += "|" + r.Labels[k]
				}
				require.False(t, seen[key], key)
				seen[key] = true
			}
		}
	})
}

func TestTiersKeepTheirLabels(t *testing.T) {
	groups := Rules(rules.Spec{SLOs: []*slo.SLO{synthetic(t).SLOs[1]}}, Options{NoEngine: true})
	r := groups[0].Rules[0]
	require.Equal(t, NameBurnPage, r.Alert)
	require.Equal(t, map[string]string{
		"slo_tier": "page-1h", "slo_long": "1h", "slo_short": "5m", "severity": "critical", "slo_impact": "high",
		"slo_kind": "error_rate",
		"slo_id":   "shop/availability", "service": "shop", "slo": "availability",
	}, r.Labels)
	require.Contains(t, r.Expr, " > 0.0144")
	require.Contains(t, r.Expr, ">= 20")
	require.Contains(
		t, r.Annotations["description"], "More than 1.44 % (burn rate 14.4) uses 2 % of the budget of 30d in 1h.")
}

func TestOtherGroupNeverAlerts(t *testing.T) {
	m := generate(t, synthetic(t), Options{Options: tables})
	for _, g := range m.alerts {
		for _, r := range g.Rules {
			if r.Labels["slo_id"] != "shop/errors" || r.Alert == NameNoData {
				continue
			}
			expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
			require.NoError(t, err)
			parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
				// what is observed is no group's
				if v, ok := n.(*parser.VectorSelector); ok && v.Name != "ALERTS" &&
					!strings.HasPrefix(v.Name, series.ObservedRatioPrefix) {
					require.Contains(t, v.String(), `tier!="__other__"`, r.Alert)
				}
				return nil
			})
		}
	}
}

func TestCatalogueFollowsTheAgreements(t *testing.T) {
	var names []string
	for _, e := range Catalogue() {
		names = append(names, e.Name)
		require.NotEmpty(t, e.Alerts)
		require.NotEmpty(t, e.About)
	}
	require.Equal(t, sla.CatalogueNames(), names)
}

func TestCatalogueFindings(t *testing.T) {
	in := synthetic(t)
	in.Thresholds = nil
	a := in.Agreements[0]
	a.Components = a.Components[:1]
	a.Catalogue = []sla.CatalogueAlert{
		{Name: sla.CatalogueLatency}, {Name: sla.CatalogueThroughput, SLOs: []slo.ID{"shop/latency"}}, {Name: "nonsense"},
		{Name: sla.CatalogueErrorRate, SLOs: []slo.ID{"shop/nope"}},
		{Name: sla.CatalogueLatencyCritical, SLOs: []slo.ID{"shop/latency"}},
		{Name: sla.CatalogueThroughputDecline, SLOs: []slo.ID{"shop/throughput"}},
	}
	in.SLOs = slices.DeleteFunc(in.SLOs, func(s *slo.SLO) bool {
		return s.Indicator.Kind == slo.KindEvents && s.ID != "shop/availability"
	})
	in.SLOs[1].Indicator.Valid = nil // now nothing counts the events of the throughput, but the service's counters do
	var got []string
	for _, f := range Lint(in, LintOptions{}) {
		if f.SLO == "shop/gold" || strings.Contains(f.Message, "alert ") && !strings.Contains(f.Message, "window") {
			got = append(got, string(f.SLO)+": "+f.Message)
		}
	}
	require.Equal(t, []string{
		"shop/gold: alert latency is left out: it applies to nothing in the agreement",
		"shop/gold: alert error_rate: unknown SLO shop/nope",
		"shop/gold: alert throughput does not apply to shop/latency, which is latency, and is left out",
		`shop/gold: unknown catalogue alert "nonsense"`,
		"shop/latency: alert latency_critical is left out: no event threshold with a critical time covers these events",
	}, got)
}

func TestSLOsWithoutCounts(t *testing.T) {
	s := simple(t, "legacy/ratio", "99.9")
	s.Indicator = slo.Indicator{Kind: slo.KindPrometheus, PromErrorRatioQuery: `my:error_ratio[$window]`}
	s.Alerting.MinEvents = 20
	groups := Rules(rules.Spec{SLOs: []*slo.SLO{s}}, Options{NoEngine: true})
	for _, r := range groups[0].Rules[:4] {
		require.NotContains(t, r.Expr, "sqrt", "nobody knows how many events a ratio stands for")
		require.NotContains(t, r.Expr, ">= 20")
		require.NotContains(t, r.Expr, "coverage", "the engine does not observe it")
	}
}

func TestTablesAlert(t *testing.T) {
	in := synthetic(t)
	m := generate(t, in, Options{Options: tables})
	var found []rules.Rule
	for _, g := range m.alerts {
		for _, r := range g.Rules {
			if r.Alert == NameTablesRunOut {
				found = append(found, r)
			}
		}
	}
	require.Len(t, found, 1)
	l := newLab(t, rules.Group{Name: "x", Interval: time.Minute, Rules: found})
	l.load(`slo:tables_end:seconds{service="shop"}`, 0, 48*time.Hour, time.Minute, constant(8*24*3600))
	edges := l.run(22*time.Hour, 26*time.Hour, time.Minute, byName)
	require.Equal(t, map[string][]time.Duration{NameTablesRunOut: {24*time.Hour + time.Minute}}, edges)
}

// PromQL has no rules for a volume, but its sender may fall silent all the same, live and in the rules.
func TestSenderOfVolumesMayFallSilent(t *testing.T) {
	in := exampleSpec(t, "conversion")
	in.Agreements = nil
	in.SLOs = slices.DeleteFunc(in.SLOs, func(s *slo.SLO) bool { return s.Indicator.Kind != slo.KindVolume })
	require.Len(t, in.SLOs, 2)
	m := generate(t, in, Options{Options: tables, NoEngine: true})
	require.Empty(t, m.recording)
	require.Len(t, m.alerts, 1)
	require.Len(t, m.alerts[0].Rules, 1)
	got := m.alerts[0].Rules[0]
	require.Equal(t, NameSenderSilent, got.Alert)
	require.Contains(t, got.Expr, `sloengine_events_total{service="insurance-sales"}`)
	all := LiveAlerts(in, Options{})
	i := slices.IndexFunc(all, func(l Live) bool { return l.Kind == LiveSilent })
	require.GreaterOrEqual(t, i, 0)
	require.Equal(t, got.Labels, all[i].Labels)
}
