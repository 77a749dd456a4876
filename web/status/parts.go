package status

import (
	"fmt"
	"time"

	"github.com/sloengine/sloengine/alerts/notify"
	"github.com/sloengine/sloengine/ingest/otlp"
	"github.com/sloengine/sloengine/ingest/rejects"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/reliability/bulkhead"
	"github.com/sloengine/sloengine/reliability/connlimit"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/ratelimit"
	"github.com/sloengine/sloengine/reliability/ratelimit/shared"
	"github.com/sloengine/sloengine/sla/delivery"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
)

// What parts say of themselves. Values of OffenderStatus come from events: they are hostile text.
type (
	AlertmanagerStatus = notify.Status // of one Alertmanager, or of one integration of a receiver
	ConnectionStatus   = connlimit.Status
	KeptAttributes     = otlp.Kept // of spans of a service
	LimitStatus        = ratelimit.Status
	OffenderStatus     = ratelimit.Offender
	RedisStatus        = shared.Status // of the connection that instances share limits and dead letters by
	RejectedCode       = rejects.Code
	RejectedSender     = rejects.Row
	UnknownType        = rejects.Type // events that no spec counts; its names are hostile
	ReportStatus       = delivery.Status
	ReportTarget       = delivery.TargetStatus
	SeenOperation      = otlp.SeenOperation
	SeenService        = otlp.SeenService // spans that no spec counts; its texts are hostile
	Finding            = otlp.Finding     // what makes numbers wrong
	BulkheadStatus     = bulkhead.Status  // of calls to one sink
	SinkStatus         = dispatch.Status
	SinkTrouble        = dispatch.Trouble
	SourceTopic        = source.Topic
	SourceTrouble      = source.Trouble
)

// The states of a breaker.
const (
	BreakerClosed   = "closed"
	BreakerHalfOpen = "half_open"
	BreakerOpen     = "open"
)

// BreakerStatus is one circuit breaker.
type BreakerStatus struct {
	Name              string    `json:"name"`
	State             string    `json:"state"` // closed, half_open or open
	Since             time.Time `json:"since,omitzero"`
	Reason            string    `json:"reason,omitempty"`    // of the last change of state
	RetryAfterSeconds float64   `json:"retry_after_seconds"` // 0 while calls may go through
}

// DeadLetterStatus is what the dead letters hold.
type DeadLetterStatus struct {
	Storage  string           `json:"storage"` // file, redis or memory
	Count    int64            `json:"count"`
	Bytes    int64            `json:"bytes"`
	Oldest   time.Time        `json:"oldest,omitzero"`
	Newest   time.Time        `json:"newest,omitzero"`
	ByOrigin map[string]int64 `json:"by_origin,omitempty"`
	ByReason map[string]int64 `json:"by_reason,omitempty"`
	BySink   map[string]int64 `json:"by_sink,omitempty"`

	Damaged      int64 `json:"damaged,omitempty"`       // places in files that cannot be read
	DamagedBytes int64 `json:"damaged_bytes,omitempty"` // their size
	LostEntries  int64 `json:"lost_entries,omitempty"`  // what was there, at most
}

// DegradedPart is something that does not work as it should while events are
// still taken and counted.
type DegradedPart struct {
	// log, log_marker, history, rebuild, fold, checkpoint, dead_letters, deduplication, clock, notifications,
	// audit, subscriptions, connections, engine, slo, redis, breaker, alertmanager, report, source, token, budget,
	// sink or remote_write
	Part   string `json:"part"`
	Name   string `json:"name,omitempty"`
	Reason string `json:"reason"`
}

// RemoteWrite is the kind of a sink that gets the engine's own series. Its records are files of samples on disk, and
// what it counts are samples.
const RemoteWrite = "remote_write"

// LagAge is the age of the oldest event on its way to a sink from which on the
// sink is said to lag.
const LagAge = 5 * time.Minute

// refusedFor is how long it is shown that connections were turned away.
const refusedFor = time.Minute

// Degraded lists what does not work as it should, for whoever may read. It names parts of the configuration, and leaves
// out texts of errors.
func (e *Engine) Degraded(now time.Time) []DegradedPart {
	var out []DegradedPart
	add := func(part, name, reason string) {
		out = append(out, DegradedPart{part, format.Safe(name, format.MaxName), reason})
	}
	for _, t := range e.Troubles {
		add(t.Part, "", t.Reason)
	}
	for i := range e.Fleet {
		f := &e.Fleet[i]
		switch {
		case f.State == FleetWaiting:
		case f.Out():
			add("engine", f.Name, "its events are not in the numbers: "+f.brief(now))
		case f.Reason != "":
			add("engine", f.Name, f.Reason)
		}
	}
	if at := e.Connections.RefusedAt; !at.IsZero() && now.Sub(at) < refusedFor {
		add("connections", "",
			"more clients connect than web.max_connections allows; connections without credentials are closed first")
	}
	for i := range e.Budgets {
		if b := &e.Budgets[i]; b.Lately {
			add("budget", b.Service, fmt.Sprintf("it exceeds its budget; %s refused", format.Plural(b.Refused, "request")))
		}
	}
	for i := range e.Tokens {
		if t := &e.Tokens[i]; t.Expiring {
			verb := "expires"
			if !now.Before(t.Expires) {
				verb = "expired"
			}
			add("token", t.Token, fmt.Sprintf("a key of it that is in use %s at %s", verb,
				t.Expires.UTC().Format("2006-01-02 15:04:05Z")))
		}
	}
	for _, f := range e.Fold.Full {
		add("slo", f.SLO, fmt.Sprintf("all %s are taken; new values share the group %s, which never alerts",
			format.Plural(f.MaxGroups, "group"), slo.OtherGroup))
	}
	for _, x := range e.Fold.Crowded {
		add("slo", x.SLO, fmt.Sprintf("work in flight has reached max_in_flight (%s); %s not tracked, which lowers coverage",
			format.Count(x.MaxInFlight), format.Plural(x.Untracked, "start event")))
	}
	if d := e.DeadLetters; d != nil && d.Damaged > 0 {
		add("dead_letters", "", fmt.Sprintf("%s in the files cannot be read (%s); at most %s lost",
			format.Plural(d.Damaged, "place"), format.Bytes(d.DamagedBytes), format.Plural(d.LostEntries, "dead letter")))
	}
	if e.Redis != nil && !e.Redis.Connected {
		add("redis", "", "not reachable, so rate limits are local, as limits.shared.fallback says")
	}
	for i := range e.Alertmanagers {
		if a := &e.Alertmanagers[i]; !a.FailingSince.IsZero() {
			add("alertmanager", a.Name, fmt.Sprintf("it has accepted no alerts since %s: %s; %s wait",
				a.FailingSince.UTC().Format("2006-01-02 15:04:05Z"), format.Safe(a.Brief, format.MaxName),
				format.Plural(a.Pending, "alert")))
		}
	}
	for i := range e.Reports {
		addReport(&e.Reports[i], add)
	}
	if e.ReportsUnsaved {
		add(
			"report", "", "it cannot be saved which reports were sent; after a restart some are sent again, and new ones wait")
	}
	for i := range e.Receivers {
		if r := &e.Receivers[i]; !r.FailingSince.IsZero() {
			add("receiver", r.Name, fmt.Sprintf("it has accepted no notifications since %s: %s; %s wait",
				r.FailingSince.UTC().Format("2006-01-02 15:04:05Z"), format.Safe(r.Brief, format.MaxName),
				format.Plural(r.Pending, "notification")))
		}
	}
	for i := range e.Sources {
		e.Sources[i].degraded(add)
	}
	told := map[string]bool{}
	for _, b := range e.Breakers {
		if reason := breakerText(b.State); reason != "" {
			told[b.Name] = true
			add("breaker", b.Name, reason)
		}
	}
	for i := range e.Sinks {
		s := &e.Sinks[i]
		age := time.Duration(s.OldestAgeSeconds * float64(time.Second))
		reason := breakerText(s.Breaker)
		for _, t := range s.Troubles {
			part := "sink"
			if s.Kind == RemoteWrite {
				part = s.Kind
			}
			add(part, s.Name, troubleText(t))
		}
		switch {
		case s.MaxLagBytes > 0 && s.LagBytes > s.MaxLagBytes/2:
			add("sink", s.Name, fmt.Sprintf("it is behind by %s; beyond %s the oldest events become dead letters",
				format.Bytes(s.LagBytes), format.Bytes(s.MaxLagBytes)))
		case age >= LagAge && s.Kind == RemoteWrite:
			add(RemoteWrite, s.Name, "the oldest samples that it has not received are "+format.Duration(age)+" old")
		case age >= LagAge:
			add("sink", s.Name, "the oldest undelivered event is "+format.Duration(age)+" old")
		case s.HeldSeconds > 0:
			add("sink", s.Name, "the sink asked to pause")
		case reason != "" && !told[s.Name] && len(s.Troubles) == 0:
			add("sink", s.Name, reason)
		}
	}
	return out
}

// troubleText says what fails, in the words of this program alone.
func troubleText(t SinkTrouble) string {
	text := map[string]string{
		"delivery":     "delivery fails",
		"flush":        "delivered events cannot be made durable",
		"log":          "the log cannot be read for it",
		"dead_letters": "its dead letters cannot be saved, so delivery waits",
		"cursor":       "its cursor cannot be saved; a restart would send events again",
		"lag":          "it is too far behind, and the skipped part of the log cannot be saved",
	}[t.Kind]
	if text == "" {
		text = "it fails"
	}
	text += " since " + t.Since.UTC().Format("2006-01-02 15:04:05Z") + ": " + format.Safe(t.Brief, format.MaxName)
	if t.Blocked && t.Kind == "delivery" {
		text += "; its events wait"
	}
	return text
}

func breakerText(state string) string {
	switch state {
	case "", BreakerClosed:
		return ""
	case BreakerHalfOpen:
		return "its breaker is half open: only probes pass"
	}
	return "its circuit breaker is open, delivery is paused"
}
