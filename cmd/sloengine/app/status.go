package app

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/ingest"
	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/reliability/connlimit"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/reliability/retained"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/status"
)

// engineStatus asks all parts how they are.
type engineStatus struct {
	parts
	specs    *counting.Specs
	reloader *reloader
	conns    *connlimit.Limit
	dir      string // the data directory
	lateness time.Duration
	disk     uint64 // how large its file system is
	started  time.Time
	stopping atomic.Bool // readiness is off
}

// diskSize is how large the file system of a folder is; 0, which means unknown, if nothing says so.
func diskSize(dir string, log *slog.Logger) uint64 {
	size, err := fsys.Size(dir)
	if err != nil {
		log.Warn("size of the disk is unknown", "dir", dir, "err", err)
	}
	return size
}

// brief is what every page shows of the engine's condition.
func (e *engineStatus) brief() status.Engine {
	h := e.storage.engine.Health()
	return e.briefOf(&h)
}

func (e *engineStatus) briefOf(h *engine.Health) status.Engine {
	now := e.specs.InForce()
	s := status.Engine{
		State: webState(h.Status), Reason: h.Reason, Progress: h.Progress, Started: e.started,
		Spec: status.SpecStatus{Loaded: now.Loaded, Hash: now.Hash, SLOs: len(now.Spec.SLOs),
			Change: e.evaluation.changes.Last()},
		Rebuild: e.evaluation.rebuilds.Progress(),
	}
	if e.stopping.Load() && (s.State == status.Ready || s.State == status.DiskLow || s.State == status.ClockJump) {
		s.State, s.Reason = status.Stopping, "the engine is shutting down"
	}
	e.reloader.failed.Load().status(&s.Spec)
	return s
}

// shortIDs is the trouble that ids of spans are forgotten while such spans are accepted.
func shortIDs(h *engine.Health, lateness time.Duration) []status.TroubleStatus {
	if h.IDs.Short == 0 || h.IDs.Short >= lateness {
		return nil
	}
	return []status.TroubleStatus{{
		Part: "deduplication",
		Reason: fmt.Sprintf("ids of spans are known for %s, and ingest.allowed_lateness is %s; spans that ended between "+
			"become dead letters; raise known_ids.memory", format.Duration(h.IDs.Short), format.Duration(lateness)),
		Since: h.Watermark,
	}}
}

// get is the engine's condition as its page and the API show it.
func (e *engineStatus) get() status.Engine {
	h := e.storage.engine.Health()
	s := e.briefOf(&h)
	history := e.storage.engine.History()
	s.Log = status.LogStatus{Bytes: h.Log.Bytes, Segments: h.Log.Segments, Seq: h.Log.Durable}
	e.history(&h, &s.Log)
	s.Checkpoint = status.CheckpointStatus{Time: h.Checkpoint.At, Bytes: h.Checkpoint.State}
	s.IDs = status.IDStatus{Known: uint64(h.IDs.Count), Bytes: h.IDs.Bytes, WindowSeconds: h.IDs.Window.Seconds()}
	s.Fold = status.FoldStatus{Lag: h.Log.Lag, Watermark: h.Watermark}
	s.Disk = status.DiskStatus{
		Dir: e.dir, FreeBytes: h.Disk.Free, LowBytes: uint64(max(0, h.Disk.LowWater)), TotalBytes: e.disk}
	n := e.intake.http.Totals()
	s.Ingest = status.IngestStatus{
		Received: n.Received, Accepted: n.Accepted, Duplicates: n.Duplicates, Rejected: n.Rejected,
		Limited: n.Limited, Sampled: n.Sampled, DeadLettered: n.DeadLettered,
		Refused: h.DeadLetters, Queue: h.Queue.Requests,
	}
	if st := e.evaluation.counts.Stats(); st != nil {
		s.Ingest.Late = st.Late
		s.Fold.Groups, s.Fold.Bytes = st.Groups, st.Bytes
		s.Fold.Full, s.Fold.Crowded = counting.FullGroups(st), counting.CrowdedWork(st)
	}
	s.Parked = e.evaluation.parking.Status()
	for _, t := range h.Troubles {
		s.Troubles = append(s.Troubles, status.TroubleStatus(t))
	}
	s.Troubles = append(s.Troubles, shortIDs(&h, e.lateness)...)
	if at := e.alerts.receivers.UnsavedSince(); !at.IsZero() {
		s.Troubles = append(s.Troubles, status.TroubleStatus{
			Part:   "notifications",
			Reason: "it cannot be saved who was notified; after a restart some notifications are repeated", Since: at,
		})
	}
	if at := history.FailingSince(); !at.IsZero() {
		s.Troubles = append(s.Troubles, status.TroubleStatus{
			Part: "history", Reason: "closed segments of the log cannot be retained; the oldest are given up once 16 wait",
			Since: at,
		})
	}
	if at, reason := e.evaluation.rebuilds.Failing(); !at.IsZero() {
		s.Troubles = append(s.Troubles, status.TroubleStatus{Part: "rebuild", Reason: reason, Since: at})
	}
	if at := e.storage.trail.file.Failing(); !at.IsZero() {
		s.Troubles = append(s.Troubles, status.TroubleStatus{
			Part:   "audit",
			Reason: "actions cannot be recorded on disk; the newest wait in memory, and are in the log of the engine", Since: at,
		})
	}
	if e.subscribed != nil {
		if at := e.subscribed.UnsavedSince(); !at.IsZero() {
			s.Troubles = append(s.Troubles, status.TroubleStatus{
				Part:   "subscriptions",
				Reason: "subscriptions to the public page cannot be saved; new ones are refused, and a restart sends some again",
				Since:  at,
			})
		}
	}
	s.Connections = e.conns.Status()
	e.delivery(&s)
	return s
}

// history says what is retained, and whether that is enough for the spec in force.
func (e *engineStatus) history(h *engine.Health, s *status.LogStatus) {
	now, known := time.Now(), Known(e.specs.InForce().Spec)
	kept, b, r := e.reach(h, now)
	s.HistoryBytes, s.HistoryFrom, s.HistoryLimit = kept.Bytes, kept.From, b.Bytes
	s.HistoryReach, s.HistoryLeft = r.Limit.Seconds(), r.Left.Seconds()
	s.HistoryShort = ShortHistory(&kept, b, now, known)
	s.HistoryEvents, s.RebuildSeconds = kept.Events, e.evaluation.rebuilds.Takes().Seconds()
}

// reach says how far back the history reaches, in the bounds that settings and disk allow.
func (e *engineStatus) reach(h *engine.Health, now time.Time) (retained.Stats, retained.Bounds, retained.Reach) {
	history := e.storage.engine.History()
	kept, b := history.Stats(), history.Bounds()
	b.Bytes = spaceFor(&kept, b.Bytes, h.Disk.Free, h.Disk.LowWater)
	return kept, b, kept.Reach(now, b)
}

// measureHistory publishes how far back the history reaches.
func (e *engineStatus) measureHistory(set *metrics.Set) {
	reach := func() retained.Reach {
		h := e.storage.engine.Health()
		_, _, r := e.reach(&h, time.Now())
		return r
	}
	metric.HistoryReach.Read(set, func() float64 { return reach().Limit.Seconds() })
	metric.HistoryLeft.Read(set, func() float64 { return reach().Left.Seconds() })
	metric.HistoryNeeded.Read(set, func() float64 { return Known(e.specs.InForce().Spec).LongestWindow.Seconds() })
}

func webState(s engine.Status) status.State {
	if s == engine.StatusStopped {
		return status.Stopping
	}
	return status.State(s)
}

// delivery adds rate limits, notifications, reports, sources, sinks and dead letters.
func (e *engineStatus) delivery(s *status.Engine) {
	s.Limits, s.Offenders = e.intake.rates.Limiter.Status(),
		e.intake.redaction.ShowOffenders(e.intake.rates.Limiter.Offenders())
	if link := e.intake.redis.link; link != nil {
		l := link.Status()
		s.Redis = &l
	}
	s.Alertmanagers, s.Receivers = e.alerts.notifier.Status(), e.alerts.receivers.Status()
	s.NotificationsOff = e.alerts.off.Load()
	s.Reports, s.ReportsUnsaved = e.reports.Status(), e.reports.Unsaved() != nil
	s.Tokens, s.Budgets = tokenStatus(e.intake.auth, time.Now()), e.intake.budgets.Status(time.Now())
	s.Sources = e.sources.Status()
	e.sinks.status(s)
	e.written.status(s)
	if st, ok := e.deadLetters.stats(); ok {
		s.DeadLetters = &status.DeadLetterStatus{
			Storage: st.Backend, Count: st.Count, Bytes: st.Bytes, Oldest: st.Oldest, Newest: st.Newest, ByOrigin: st.ByOrigin,
			ByReason: st.ByReason, BySink: st.BySink,
			Damaged: st.Damaged,
		}
		if st.Lost != nil {
			s.DeadLetters.LostEntries, s.DeadLetters.DamagedBytes = st.Lost.Entries, st.Lost.Bytes
		}
	}
}

func tokenStatus(auth *ingest.Auth, now time.Time) (out []status.TokenStatus) {
	for _, k := range auth.Keys() {
		out = append(out, status.TokenStatus{
			Token: k.Token, Key: k.ID, Expires: k.Expires, LastUsed: k.LastUsed, Requests: k.Requests,
			Expiring: k.Soon(now) && k.Used(now),
		})
	}
	return out
}
