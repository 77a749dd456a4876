package web

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

// partsView is the reliability layer on the page.
type partsView struct {
	Limits    []status.LimitStatus
	Offenders []status.OffenderStatus
	Hidden    bool // values of offenders are not shown as they are
	Redis     *redisView
	Breakers  []breakerRow
	Bulkheads []status.BulkheadStatus
	Sinks     []sinkView
	Sources   []sinkView

	Notified []sinkView // Alertmanagers and receivers
	Off      bool       // notifications.send is false
	Reports  []sinkView
}

type redisView struct {
	Mark  chart.Mark
	Facts []site.Fact
}

type breakerRow struct {
	status.BreakerStatus
	Mark chart.Mark
}

type sinkView struct {
	Mark       chart.Mark
	Name, Kind string
	Lag        chart.Gauge // Class "" if there is no bound
	Facts      []site.Fact
}

func newPartsView(e *status.Engine, now time.Time) partsView {
	p := partsView{Limits: e.Limits, Offenders: e.Offenders, Bulkheads: e.Bulkheads, Redis: newRedisView(e.Redis, now)}
	p.Hidden = slices.ContainsFunc(e.Offenders, func(o status.OffenderStatus) bool {
		return strings.HasPrefix(o.Value, redactedPrefix)
	})
	for _, b := range e.Breakers {
		p.Breakers = append(p.Breakers, breakerRow{b, breakerMark(b.State)})
	}
	for i := range e.Sinks {
		p.Sinks = append(p.Sinks, newSinkView(&e.Sinks[i], now))
	}
	for i := range e.Sources {
		p.Sources = append(p.Sources, newSourceView(&e.Sources[i], now))
	}
	p.Off = e.NotificationsOff
	for i := range e.Alertmanagers {
		p.Notified = append(p.Notified, newNotifiedView("alertmanager", &e.Alertmanagers[i], now))
	}
	for i := range e.Receivers {
		p.Notified = append(p.Notified, newNotifiedView("receiver", &e.Receivers[i], now))
	}
	for i := range e.Reports {
		p.Reports = append(p.Reports, newReportView(&e.Reports[i], now))
	}
	return p
}

func newReportView(r *status.ReportStatus, now time.Time) sinkView {
	v := sinkView{Name: format.Safe(r.Name, format.MaxName), Kind: "every " + format.Safe(r.Every, format.MaxName),
		Mark: chart.None("nothing yet")}
	if !r.Next.IsZero() {
		v.Facts = append(v.Facts, site.Fact{Name: "Next", Value: r.Next.UTC().Format("Mon 2 Jan 2006 15:04 UTC"),
			At: format.NewStamp(r.Next, now)})
	}
	failing := false
	for i := range r.Targets {
		t := &r.Targets[i]
		f := site.Fact{Name: format.Safe(string(t.Kind), format.MaxName), Value: format.Safe(t.Name, format.MaxTitle),
			Note: "nothing yet"}
		if t.Outcome != "" {
			f.Note = format.Safe(t.Period, format.MaxName) + " " + outcomeText(string(t.Outcome))
			f.At = format.NewStamp(t.At, now)
			if !failing {
				v.Mark = chart.OK("delivering")
			}
		}
		if !t.FailingSince.IsZero() {
			failing = true
			v.Mark = chart.Bad("failing")
			f.Note += ", " + format.Plural(t.Failures, "failure") + ": " + format.Safe(t.Cause, format.MaxTitle)
		}
		v.Facts = append(v.Facts, f)
	}
	return v
}

// outcomeText says what became of a report.
func outcomeText(outcome string) string {
	switch outcome {
	case "sent":
		return "sent"
	case "sending":
		return "not delivered yet"
	case "late":
		return "not sent, the engine was down for too long"
	}
	return "given up"
}

func newNotifiedView(kind string, a *status.AlertmanagerStatus, now time.Time) sinkView {
	v := sinkView{Name: format.Safe(a.Name, format.MaxName), Kind: kind, Mark: chart.OK("delivering")}
	switch {
	case a.Breaker == status.BreakerOpen:
		v.Mark = chart.Bad("breaker open")
	case !a.FailingSince.IsZero():
		v.Mark = chart.Bad("failing")
	case a.LastSuccess.IsZero():
		v.Mark = chart.None("nothing yet")
	}
	v.Facts = []site.Fact{
		{Name: "Address", Value: format.Safe(a.URL, format.MaxTitle)},
		{Name: "Sent", Value: format.Plural(a.Sent, "alert"), Note: format.Plural(a.Pending, "alert") + " not delivered yet"},
		{Name: "Last delivery", Value: format.Ago(a.LastSuccess, now), At: format.NewStamp(a.LastSuccess, now)},
	}
	if !a.LastSuccess.IsZero() {
		v.Facts[2].Note = "took " + format.Milliseconds(a.LastSuccessSeconds)
	}
	if kind == "receiver" {
		v.Facts = v.Facts[1:] // the address may be a secret
		v.Facts[0].Note = format.Plural(a.Pending, "notification") + " not delivered yet"
	}
	if !a.FailingSince.IsZero() {
		v.Facts = append(v.Facts, site.Fact{
			Name: "Failing", Value: "for " + format.Duration(max(0, now.Sub(a.FailingSince))),
			At:   format.NewStamp(a.FailingSince, now),
			Note: format.Plural(a.Failures, "failure") + ": " + format.Safe(a.Cause, format.MaxTitle),
		})
	}
	return v
}

// redactedPrefix begins what stands for a value that is redacted.
const redactedPrefix = "(redacted)"

func newRedisView(r *status.RedisStatus, now time.Time) *redisView {
	if r == nil {
		return nil
	}
	v := &redisView{Mark: chart.Bad("not reachable")}
	connection := site.Fact{Name: "Not reachable", Value: "since the start"}
	if r.Connected {
		v.Mark, connection.Name = chart.OK("connected"), "Connected"
	}
	if !r.Since.IsZero() {
		connection.Value, connection.At = "for "+format.Duration(now.Sub(r.Since)), format.NewStamp(r.Since, now)
	}
	if !r.Connected {
		connection.Note = "rate limits are local, as limits.shared.fallback says"
	}
	v.Facts = []site.Fact{
		connection,
		{Name: "Round trip", Value: format.Milliseconds(r.RoundTripSeconds)},
		{Name: "Decisions without Redis", Value: format.Count(r.Fallbacks)},
	}
	if r.LastError != "" {
		v.Facts = append(v.Facts, site.Fact{Name: "Last error", Value: format.Safe(r.LastError, format.MaxTitle)})
	}
	return v
}

// sinkMark says how a sink does, the worst first.
func sinkMark(s *status.SinkStatus) chart.Mark {
	age := format.Seconds(s.OldestAgeSeconds)
	switch {
	case slices.ContainsFunc(s.Troubles, func(t status.SinkTrouble) bool { return t.Blocked }):
		return chart.Bad("blocked")
	case s.Breaker == status.BreakerOpen:
		return chart.Bad("breaker open")
	case len(s.Troubles) > 0:
		return chart.Bad("failing")
	case s.MaxLagBytes > 0 && s.LagBytes > s.MaxLagBytes/2, age >= status.LagAge:
		return chart.Risk("lagging")
	case s.HeldSeconds > 0:
		return chart.Risk("paused")
	case s.Breaker == status.BreakerHalfOpen:
		return chart.Risk("probing")
	case s.Recovering:
		return chart.Wait("recovering")
	case s.Delivered == 0 && s.LastDelivery.IsZero():
		return chart.None("no delivery yet")
	}
	return chart.OK("delivering")
}

func newSinkView(s *status.SinkStatus, now time.Time) sinkView {
	v := sinkView{Mark: sinkMark(s), Name: format.Safe(s.Name, format.MaxName), Kind: format.Safe(s.Kind, format.MaxName)}
	unit, oldest := "event", "the oldest event is "
	behind := site.Fact{
		Name: "Behind the log", Value: format.Plural(s.LagRecords, "record") + ", " + format.Bytes(s.LagBytes)}
	if s.Kind == status.RemoteWrite {
		unit, oldest = "sample", "the oldest is "
		behind.Name, behind.Value = "On disk", format.Plural(s.LagRecords, "file")+", "+format.Bytes(s.LagBytes)
	}
	if s.OldestAgeSeconds > 0 {
		behind.Note = oldest +
			format.Duration(max(time.Second, format.Seconds(s.OldestAgeSeconds))) + " old; "
	}
	if s.MaxLagBytes > 0 {
		v.Lag = chart.UseGauge(float64(s.LagBytes), float64(s.MaxLagBytes),
			format.Bytes(s.LagBytes)+" behind, at most "+format.Bytes(s.MaxLagBytes))
		if v.Lag.Class == "ok" && s.LagBytes > s.MaxLagBytes/2 {
			v.Lag.Class = "risk"
		}
		behind.Note += "at most " + format.Bytes(s.MaxLagBytes)
	}
	behind.Note = strings.TrimSuffix(behind.Note, "; ")
	v.Facts = []site.Fact{
		behind,
		{Name: "Delivered", Value: format.Plural(s.Delivered, unit),
			Note: fmt.Sprintf("%s retries, %s dropped", format.Count(s.Retries), format.Count(s.Dropped))},
		{Name: "Last delivery", Value: format.Ago(s.LastDelivery, now), At: format.NewStamp(s.LastDelivery, now),
			Note: inFlight(s.InFlight)},
	}
	for _, t := range s.Troubles {
		v.Facts = append(v.Facts, site.Fact{
			Name: "Failing", Value: strings.ReplaceAll(format.Safe(t.Kind, format.MaxName), "_", " ") + ", for " +
				format.Duration(max(0, now.Sub(t.Since))),
			At:   format.NewStamp(t.Since, now),
			Note: format.Plural(t.Failures, "failure") + ": " + format.Safe(t.Cause, format.MaxTitle),
		})
	}
	if len(s.Answers) > 0 {
		var codes []string
		for _, code := range slices.Sorted(maps.Keys(s.Answers)) {
			codes = append(codes, format.Safe(code, format.MaxName)+": "+format.Count(s.Answers[code]))
		}
		v.Facts = append(v.Facts, site.Fact{Name: "Answers", Value: strings.Join(codes, ", "), Note: "by status"})
	}
	if s.Breaker != "" && s.Breaker != status.BreakerClosed {
		v.Facts = append(v.Facts, site.Fact{Name: "Breaker", Value: breakerMark(s.Breaker).Word})
	}
	if s.Recovering {
		v.Facts = append(v.Facts, site.Fact{Name: "Recovering", Value: "the backlog is sent in stages"})
	}
	if s.HeldSeconds > 0 {
		v.Facts = append(v.Facts, site.Fact{Name: "Paused", Value: "for " + format.Duration(format.Seconds(s.HeldSeconds)),
			Note: "as requested by the sink"})
	}
	for _, reason := range slices.Sorted(maps.Keys(s.DeadLetters)) {
		v.Facts = append(v.Facts, site.Fact{Name: "Dead letters", Value: format.Count(s.DeadLetters[reason]),
			Note: format.Safe(reason, format.MaxName)})
	}
	if s.LastError != "" {
		v.Facts = append(v.Facts, site.Fact{Name: "Last error", Value: format.Safe(s.LastError, format.MaxTitle),
			Note: format.Ago(s.LastErrorAt, now)})
	}
	return v
}

func inFlight(n int) string {
	if n <= 0 {
		return ""
	}
	if n == 1 {
		return "1 batch in flight"
	}
	return format.Count(n) + " batches in flight"
}

func breakerMark(state string) chart.Mark {
	switch state {
	case status.BreakerClosed:
		return chart.OK("closed")
	case status.BreakerHalfOpen:
		return chart.Risk("half open")
	case status.BreakerOpen:
		return chart.Bad("open")
	}
	return chart.None("unknown")
}
