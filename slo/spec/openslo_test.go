package spec

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
)

// Documents refer to each other whatever files they are in, and whatever order.
func TestOpenSLOOverSeveralFiles(t *testing.T) {
	const head = "apiVersion: openslo/v1\n"
	s, ps := Load([]File{
		{"1.yaml",
			[]byte(head +
				"kind: SLO\nmetadata: {name: a}\nspec: {service: shop, indicatorRef: ok, timeWindow: [{duration: 4w, isRolling: " +
				"true}], budgetingMethod: Occurrences, objectives: [{target: 0.99}], alertPolicies: []}\n")},
		{"2.yaml",
			[]byte(head +
				"kind: SLI\nmetadata: {name: ok}\nspec: {ratioMetric: {counter: true, bad: {metricSource: {metricSourceRef: p, " +
				"spec: {query: x}}}, total: {metricSource: {metricSourceRef: p, spec: {query: y}}}}}\n")},
		{"3.yaml", []byte(head + "kind: DataSource\nmetadata: {name: p}\nspec: {type: prometheus}\n")},
		{"4.yaml", []byte("version: sloengine/v1\nservice: shop\nslas: [{name: gold, components: {a: {weight: 100}}}]\n")},
	})
	require.Empty(t, ps.Errors().String())
	require.Equal(t, slo.Indicator{Kind: slo.KindPrometheus, PromBad: "x", PromTotal: "y"}, s.SLOs[0].Indicator)
	require.Equal(t, slo.ID("shop/a"), s.Agreements[0].Components[0].SLO)
	src, ok := s.Source(KindSLO, "shop", "a")
	require.True(t, ok)
	require.Equal(t, Position{File: "1.yaml", Line: 3, Column: 18}, src.Position)

	s, ps = Load([]File{{"1.yaml", []byte(head + "kind: DataSource\nmetadata: {name: p}\nspec: {type: prometheus}\n")}})
	require.Nil(t, s)
	require.Contains(t, ps.Errors().String(), "the spec has no SLO")
}

func TestOpenSLOWindows(t *testing.T) {
	for text, want := range map[string]string{
		"{duration: 30d, isRolling: true}":                                                     "30d",
		"{duration: 4w, isRolling: true}":                                                      "28d",
		"{duration: 12h, isRolling: true}":                                                     "12h",
		"{duration: 1Q, isRolling: true}":                                                      "91d",
		"{duration: 1Y, isRolling: true}":                                                      "365d",
		"{duration: 1m, isRolling: true}":                                                      "",
		"{duration: 2Y, isRolling: true}":                                                      "",
		"{duration: 585Y, isRolling: true}":                                                    "", // int64 wraps
		"{duration: 1d, calendar: {startTime: 2026-01-03 00:00:00, timeZone: UTC}}":            "day UTC",
		"{duration: 1w, calendar: {startTime: 2026-01-05 00:00:00, timeZone: UTC}}":            "week UTC",
		"{duration: 1w, calendar: {startTime: 2026-01-06 12:00:00, timeZone: UTC}}":            "week UTC",
		"{duration: 1M, calendar: {startTime: 2026-02-01T00:00:00Z, timeZone: Europe/Berlin}}": "month Europe/Berlin",
		"{duration: 3M, calendar: {startTime: 2026-04-01, timeZone: UTC}}":                     "quarter UTC",
		"{duration: 1Q, calendar: {startTime: 2026-02-01, timeZone: UTC}}":                     "quarter UTC",
		"{duration: 1Y, isRolling: false, calendar: {startTime: 2020-01-01, timeZone: UTC}}":   "year UTC",
		"{duration: 1Y, isRolling: true, calendar: {startTime: 2020-01-01, timeZone: UTC}}":    "",
		"{duration: 1Y, isRolling: false}":                                                     "",
		"{duration: 1M, calendar: {startTime: 2026-02-01 00:00:00, timeZone: Mars/Base}}":      "",
		"{duration: 1M, calendar: {startTime: noon, timeZone: UTC}}":                           "",
		"{duration: 1M, calendar: {startTime: 2026-02-01 00:00:00}}":                           "",
		"{isRolling: true}": "",
	} {
		doc :=
			"apiVersion: openslo/v1\nkind: SLO\nmetadata: {name: a}\nspec:\n  service: shop\n  indicator: {metadata: {name: x}" +
				", spec: {ratioMetric: {counter: true, bad: {metricSource: {type: Prometheus, spec: {query: x}}}, total: " +
				"{metricSource: {type: Prometheus, spec: {query: y}}}}}}\n  timeWindow: [" + text +
				"]\n  budgetingMethod: Occurrences\n  objectives: [{target: 0.99}]\n  alertPolicies: []\n"
		s, ps := Load([]File{{"x.yaml", []byte(doc)}})
		if want == "" {
			require.Len(t, ps.Errors(), 1, text)
			require.Equal(t, 7, ps.Errors()[0].Line)
			continue
		}
		require.Empty(t, ps.Errors().String(), text)
		require.Equal(t, want, s.SLOs[0].Window.String())
	}
}

func TestShares(t *testing.T) {
	for text, want := range map[string]string{
		"0.999": "99.9", "0.9995": "99.95", ".95": "95", "0.5": "50", "00.99": "99",
		"0.99999999999999": "99.999999999999", "0.02": "2",
		"0": "", "1": "", "1.0": "", "99.9": "", "0.0001": "", "-0.5": "", "0.9e0": "", "": "", "x": "",
		"0.999999999999999": "",
	} {
		v := scalar(strconv.Quote(text))
		o, ok := readRatio(v)
		require.Equal(t, want != "", ok, text)
		require.Equal(t, want, o.Percent(), text)
	}
}

// A condition looks at one window; its tier's factor is its threshold again.
func TestConditionFactor(t *testing.T) {
	for _, period := range []time.Duration{7 * day, 28 * day, 30 * day} {
		for _, threshold := range []float64{1, 2, 6, 14, 14.4} {
			text := fmt.Sprintf(
				"apiVersion: openslo/v1\nkind: SLO\nmetadata: {name: a}\nspec:\n  service: shop\n  indicator: {metadata: {name: "+
					"x}, spec: {thresholdMetric: {metricSource: {type: Prometheus, spec: {query: sum(x)}}}}}\n  timeWindow: "+
					"[{duration: %s, isRolling: true}]\n  budgetingMethod: Occurrences\n  objectives: [{op: lt, value: 5, target: "+
					"0.999}]\n  alertPolicies: [{kind: AlertPolicy, metadata: {name: p}, spec: {alertWhenBreaching: true, "+
					"conditions: [{kind: AlertCondition, metadata: {name: c}, spec: {severity: page, condition: {kind: burnrate, "+
					"threshold: %v, lookbackWindow: 1h, alertAfter: 5m}}}]}}]\n",
				slo.FormatDuration(period), threshold)
			s, ps := Load([]File{{"x.yaml", []byte(text)}})
			require.Empty(t, ps.String())
			a := s.SLOs[0].Alerting
			require.Len(t, a.Tiers, 1)
			require.Equal(t, a.Tiers[0].Long, a.Tiers[0].Short)
			require.InEpsilon(t, threshold, a.Tiers[0].Factor(period), 4*math.Nextafter(0, 1)+1e-15)
			require.Equal(t, slo.AlertSettings{For: 5 * time.Minute}, a.Page)
			require.True(t, a.Ticket.Disabled)
			require.True(t, a.NoData.Disabled)
			requireRoundTrip(t, s)
		}
	}
}

// What is written in OpenSLO is read again: the same SLOs with the same objectives, windows, labels and groups, and the
// same counters. What is lost is said with a place.
func TestEncodeOpenSLO(t *testing.T) {
	inputs, err := filepath.Glob("testdata/ok-*.yaml")
	require.NoError(t, err)
	examples, err := filepath.Glob("../../testdata/specs/*.yaml")
	require.NoError(t, err)
	counters, events, left := 0, 0, 0
	for _, in := range append(inputs, examples...) {
		data, err := os.ReadFile(in)
		require.NoError(t, err)
		was, ps := Load([]File{{in, data}})
		require.Empty(t, ps.Errors(), in)
		text, lost := EncodeOpenSLO(was)
		again, ps := Load([]File{{"out.yaml", text}})
		require.Empty(t, ps.Errors().String(), "%s:\n%s", in, text)
		for _, p := range lost {
			require.Equal(t, in, p.File, "%s", p)
			require.Positive(t, p.Line, "%s", p)
			require.Equal(t, Warning, p.Severity)
		}
		now := map[slo.ID]*slo.SLO{}
		for _, s := range again.SLOs {
			now[s.ID] = s
		}
		for _, s := range was.SLOs {
			got := now[s.ID]
			if got == nil {
				require.Contains(t, lost.String(), s.ID.Name()+": it, since OpenSLO has no indicator")
				left++
				continue
			}
			require.Equal(t, s.Objective, got.Objective, s.ID)
			require.Equal(t, s.Window.String(), got.Window.String(), s.ID)
			require.True(t, maps.Equal(s.Labels, got.Labels), s.ID)
			require.Equal(t, s.Alerting.Page.Disabled, got.Alerting.Page.Disabled, s.ID)
			switch s.Indicator.PromForm() {
			case slo.PromCounters:
				counters++
				require.Equal(t, s.Indicator, got.Indicator, s.ID)
				require.ElementsMatch(t, s.GroupBy, got.GroupBy, s.ID)
			case slo.PromNone:
				events++
				require.Equal(t, slo.PromCounters, got.Indicator.PromForm(), s.ID)
				require.Contains(t, lost.String(), s.ID.Name()+": its events are queries")
			}
		}
	}
	require.Greater(t, counters, 20)
	require.Greater(t, events, 20)
	require.Positive(t, left)
}
