package collector

import (
	"maps"
	"math"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/reliability/metric"
)

// maxTeams bounds the values of the label team, which people type. Teams beyond it, by name, share otherTeam.
const (
	maxTeams  = 50
	otherTeam = "__other__"
)

// automatedPeriods are the values of the label period.
var automatedPeriods = []struct {
	name string
	time.Duration
}{{"24h", 24 * time.Hour}, {"7d", 7 * 24 * time.Hour}, {"30d", 30 * 24 * time.Hour}}

// gatherIncidents counts the incidents of the book. It computes histograms from the incidents themselves, so that they
// are the same after a restart. They fall when the retention of an incident ends, which looks like a reset of a
// counter.
func gatherIncidents(v *incident.View, now time.Time) []*dto.MetricFamily {
	detection, response := map[string][]time.Duration{}, map[string][]time.Duration{}
	open := map[[2]string]int{}
	automated, all := make([]int, len(automatedPeriods)), make([]int, len(automatedPeriods))
	for inc := range v.All() {
		severity := string(inc.Severity)
		detection[severity] = append(detection[severity], inc.Detection())
		if d, ok := inc.Response(); ok {
			response[inc.ResponseTeam()] = append(response[inc.ResponseTeam()], d)
		}
		if !inc.IsResolved() {
			open[[2]string{severity, string(inc.State)}]++
		}
		for i, p := range automatedPeriods {
			if age := now.Sub(inc.Detected); age >= 0 && age < p.Duration {
				all[i]++
				if inc.Automated {
					automated[i]++
				}
			}
		}
	}
	x := &families{}
	severities := []string{string(incident.Critical), string(incident.Warning)}
	x.family(metric.IncidentDetection)
	for _, severity := range severities {
		x.durations(metric.IncidentDetection, severity, detection[severity])
	}
	x.family(metric.IncidentResponse)
	teams := slices.Sorted(maps.Keys(response))
	if len(teams) > maxTeams {
		for _, team := range teams[maxTeams:] {
			response[otherTeam] = append(response[otherTeam], response[team]...)
		}
		teams = append(teams[:maxTeams], otherTeam)
	}
	for _, team := range teams {
		x.durations(metric.IncidentResponse, team, response[team])
	}
	x.family(metric.AutomatedDetection)
	for i, p := range automatedPeriods {
		if all[i] > 0 {
			x.sample(x.labels(metric.AutomatedDetection.LabelNames(), p.name), nil, float64(automated[i])/float64(all[i]), nil)
		}
	}
	x.family(metric.OpenIncidents)
	for _, severity := range severities {
		for _, state := range []string{string(incident.Open), string(incident.Acknowledged)} {
			x.sample(x.labels(metric.OpenIncidents.LabelNames(), severity, state), nil,
				float64(open[[2]string{severity, state}]), nil)
		}
	}
	return x.sorted()
}

// durations adds a histogram with one label.
func (x *families) durations(f *metric.Family, label string, all []time.Duration) {
	buckets := make([]bucket, len(f.Buckets), len(f.Buckets)+1)
	sum := 0.0
	for i, le := range f.Buckets {
		buckets[i].le = le
	}
	buckets = append(buckets, bucket{le: math.Inf(1)})
	for _, d := range all {
		sum += d.Seconds()
		for i := range buckets {
			if d.Seconds() <= buckets[i].le {
				buckets[i].count++
			}
		}
	}
	x.histogram(x.labels(f.LabelNames(), label), buckets, sum)
}
