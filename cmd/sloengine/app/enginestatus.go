package app

import (
	"context"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/web"
)

// status is the engine's condition as page and API show it.
func (a *App) status() web.EngineStatus {
	h := a.engine.Health()
	s := web.EngineStatus{
		State: webState(h.Status), Reason: h.Reason, Progress: h.Progress, Started: a.started,
		Log:        web.LogStatus{Bytes: h.Log.Bytes, Segments: h.Log.Segments, Seq: h.Log.Durable},
		Checkpoint: web.CheckpointStatus{Time: h.Checkpoint.At, Bytes: h.Checkpoint.State},
		IDs:        web.IDStatus{Known: uint64(h.IDs.Count), Bytes: h.IDs.Bytes, HorizonSeconds: h.IDs.Horizon.Seconds()},
		Fold:       web.FoldStatus{Lag: h.Log.Lag, Watermark: h.Watermark},
		Disk:       web.DiskStatus{Dir: a.opt.DataDir, FreeBytes: h.Disk.Free, LowBytes: uint64(max(0, h.Disk.LowWater))},
	}
	if a.stopping.Load() && (s.State == web.Ready || s.State == web.DiskLow) {
		s.State, s.Reason = web.Stopping, "the engine is shut down"
	}
	n := a.http.Totals()
	s.Ingest = web.IngestStatus{
		Received: n.Received, Accepted: n.Accepted, Duplicates: n.Duplicates, Rejected: n.Rejected,
		Limited: n.Limited, Sampled: n.Sampled, DeadLettered: n.DeadLettered,
		Refused: h.DeadLetters, Queue: h.Queue.Requests,
	}
	if st := a.foldStats.Load(); st != nil {
		s.Ingest.Late = st.Late
		s.Fold.Groups, s.Fold.Bytes = st.Groups, st.Bytes
		s.Fold.Full = fullGroups(st)
	}
	s.Parked = a.parkedStatus()
	now := a.specs.current.Load()
	s.Spec = web.SpecStatus{Loaded: now.loaded, Hash: now.hash, SLOs: len(now.spec.SLOs)}
	s.Spec.Change = a.change.Load()
	if f := a.specs.failed.Load(); f != nil {
		s.Spec.Failed = f.at
		s.Spec.Problems = f.problems
		if len(f.problems) == 0 {
			s.Spec.Problems = []spec.Problem{{Severity: spec.Error, Message: f.err.Error()}}
		}
	}
	for _, t := range h.Troubles {
		s.Troubles = append(s.Troubles, web.TroubleStatus(t))
	}
	conns := a.conns.Status()
	s.Connections = web.ConnectionStatus{Open: conns.Open, Limit: conns.Limit, RefusedAt: conns.RefusedAt}
	a.delivery.status(&s)
	return s
}

func webState(s engine.Status) web.EngineState {
	switch s {
	case engine.StatusStarting:
		return web.Starting
	case engine.StatusRecovering:
		return web.Recovering
	case engine.StatusReady:
		return web.Ready
	case engine.StatusDiskLow:
		return web.DiskLow
	case engine.StatusPoisoned:
		return web.Poisoned
	case engine.StatusStopping, engine.StatusStopped:
		return web.Stopping
	}
	return web.Failed
}

// counts answers queries at one position of the log.
func (a *App) counts(ctx context.Context, queries []fold.ReadRequest) (out []fold.ReadResult, err error) {
	err = a.engine.Do(ctx, func() { out = a.fold.Read(queries) })
	return out, err
}

// kept says what share of the events offered to counters no limit dropped.
func (a *App) kept(ctx context.Context, ids []string, sp slo.Span) (out []float64, err error) {
	err = a.engine.Do(ctx, func() { out = a.fold.Kept(ids, sp) })
	return out, err
}
