package app

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/slo/spec"
)

// BenchmarkTick is a tick of a whole engine with 10,000 groups: 100 services with 5 SLOs of 20 products each. In the
// second half two products of every service fail, so 1,000 page alerts fire and 100 incidents are open.
// cpu-ms/op is all that the process does, and so holds what follows a tick: incidents, notifications, files.
func BenchmarkTick(b *testing.B) {
	for _, firing := range []int{0, 1000} {
		b.Run(fmt.Sprintf("firing=%d", firing), func(b *testing.B) {
			a := tenThousandGroups(b, firing > 0, "")
			require.Eventually(b, func() bool {
				r, err := a.evaluation.Tick(b.Context(), time.Now())
				require.NoError(b, err)
				got := 0
				for _, x := range a.alerts.machine.View().Active {
					if x.State == state.Firing {
						got++
					}
				}
				return len(r.SLOs) == 10_000 && got == firing && len(a.incidents.book.View().Open()) == firing/10
			}, testkit.Patience, 200*time.Millisecond)
			began := processCPU(b)
			for b.Loop() {
				_, err := a.evaluation.Tick(b.Context(), time.Now())
				require.NoError(b, err)
			}
			b.ReportMetric(float64((processCPU(b)-began).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
}

// BenchmarkTickWithForecasts is a tick of a whole engine with 10,000 groups, a thousand of which have a history of four
// weeks and are forecast or not. Ticks are ten seconds apart on the clock of the reports, and what follows a tick is
// over before the next: cpu-ms/op holds it.
func BenchmarkTickWithForecasts(b *testing.B) {
	for _, forecasts := range []int{0, 1000} {
		b.Run(fmt.Sprintf("forecasts=%d", forecasts), func(b *testing.B) {
			a := tenThousandGroups(b, false, fmt.Sprintf("forecast: {groups: %d}\n", forecasts))
			fourWeeks(b, a)
			now := time.Now()
			tick := func() (made int) {
				now = now.Add(10 * time.Second)
				r, err := a.evaluation.Tick(b.Context(), now)
				require.NoError(b, err)
				require.Len(b, r.SLOs, 10_000)
				for i := range r.SLOs {
					if o := r.SLOs[i].Outlook; o != nil && len(o.Forecast.Points) > 0 {
						made++
					}
				}
				return made
			}
			require.Eventually(b, func() bool { return tick() == forecasts }, testkit.Patience, 200*time.Millisecond)
			began := processCPU(b)
			for b.Loop() {
				tick()
				b.StopTimer()
				testkit.Pause(300 * time.Millisecond)
				b.StartTimer()
			}
			b.ReportMetric(float64((processCPU(b)-began).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
}

// fourWeeks gives two products of each service a past.
func fourWeeks(b *testing.B, a *app) {
	clock := time.Now().UTC().Truncate(time.Hour)
	covers := clock.Add(-28*24*time.Hour).Format(time.RFC3339) + "/" + clock.Format(time.RFC3339)
	for s := range 100 {
		var body strings.Builder
		for hour := range 28 * 24 {
			at := clock.Add(-time.Duration(hour+1) * time.Hour).Format(time.RFC3339)
			for p := range 2 {
				for _, x := range []struct {
					outcome string
					n       int
				}{{"success", 3000 + 50*((hour*7)%24)}, {"failure", (hour * 31) % 5}} {
					if x.n > 0 {
						fmt.Fprintf(&body,
							"{\"service\":\"s%02d\",\"type\":\"order\",\"time\":%q,\"count\":%d,\"outcome\":%q,"+
								"\"attributes\":{\"product\":\"p%02d\"}}\n", s, at, x.n, x.outcome, p)
					}
				}
			}
		}
		rec := request(a, "POST", "/api/v1/events?backfill=true&covers="+covers, "localhost", body.String(), "Content-Type",
			"application/x-ndjson")
		require.Equal(b, http.StatusAccepted, rec.Code, rec.Body)
	}
}

func processCPU(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// tenThousandGroups is a running app that evaluates only when it is told to.
func tenThousandGroups(b *testing.B, failing bool, settings string) *app {
	const services, slos, products = 100, 5, 20
	var files []spec.File
	for s := range services {
		var text strings.Builder
		fmt.Fprintf(&text, "version: sloengine/v1\nservice: s%02d\nslos:\n", s)
		for i := range slos {
			fmt.Fprintf(&text, `  - name: slo-%d
    objective: 99.9
    window: 30d
    group_by: [product]
    indicator: {events: {valid: '{type="order"}', bad: '{outcome="failure"}'}}
    alerting: {no_data: {disabled: true}, tiers: [{severity: page, long: 30m, short: 5m, budget: 0.1}]}
`, i)
		}
		files = append(files, spec.File{Name: fmt.Sprintf("s%02d.yaml", s), Data: []byte(text.String())})
	}
	opt := testOptions(b, b.TempDir(), "evaluator: {interval: 1h}\n"+settings, "127.0.0.1:0")
	opt.LoadSpec = func() (*spec.Spec, spec.Problems, error) {
		sp, problems := spec.Load(files)
		return sp, problems, nil
	}
	a, g := builtFrom(b, opt)
	b.Cleanup(serving(b, a, g))
	var body strings.Builder
	for s := range services {
		for p := range products {
			outcome := "success"
			if failing && p < 2 {
				outcome = "failure"
			}
			for range 50 {
				fmt.Fprintf(&body,
					"{\"service\":\"s%02d\",\"type\":\"order\",\"outcome\":%q,\"attributes\":{\"product\":\"p%02d\"}}\n",
					s, outcome, p)
			}
		}
		rec := request(a, "POST", "/api/v1/events", "localhost", body.String(), "Content-Type", "application/x-ndjson")
		require.Equal(b, http.StatusAccepted, rec.Code, rec.Body)
		body.Reset()
	}
	return a
}
