package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sloengine/sloengine/ingest"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/wal"
	"github.com/sloengine/sloengine/slo/fold"
)

// foldState is the fold as the log's reader sees it: records in, parts out.
type foldState struct {
	fold *fold.Fold
}

// Apply folds one record. Events of a record are refused one by one.
func (s foldState) Apply(rec wal.Record, refuse ingest.Refuse) error {
	if rec.Lost > 0 {
		s.fold.Gap()
	}
	switch rec.Type {
	case ingest.RecordEvents:
		s.fold.Advance(rec.Time, fold.Tick)
		return ingest.EachEvent(rec.Payload, func(backfill bool, v *event.View) error {
			mode := fold.Live
			if backfill {
				mode = fold.Backfill
			}
			return s.fold.Apply(rec.Time, mode, v)
		}, refuse)
	case ingest.RecordReplay:
		s.fold.Advance(rec.Time, fold.Tick)
		return ingest.EachEvent(rec.Payload, func(_ bool, v *event.View) error {
			return s.fold.Apply(rec.Time, fold.Replay, v)
		}, refuse)
	case ingest.RecordDropped:
		s.fold.Advance(rec.Time, fold.Tick)
		return ingest.ParseDropped(rec.Payload, func(d *ingest.Dropped) {
			s.fold.Dropped(rec.Time, d.Service, d.Type, d.Time, d.N, string(d.Reason))
		})
	case ingest.RecordForget:
		f, err := ingest.ParseForget(rec.Payload)
		if err != nil {
			return err
		}
		s.fold.Advance(rec.Time, fold.Tick)
		s.fold.Forget(f.Generations, f.Services)
		return nil
	case ingest.RecordConfig:
		var cfg fold.Config
		if err := json.Unmarshal(rec.Payload, &cfg); err != nil {
			return fmt.Errorf("config record: %w", err)
		}
		s.fold.Advance(rec.Time, fold.Tick)
		return s.fold.SetConfig(&cfg, rec.Time)
	case ingest.RecordHeartbeat:
		beat, err := ingest.ParseBeat(rec.Payload)
		if err != nil {
			return err
		}
		switch beat {
		case ingest.BeatStart:
			s.fold.Advance(rec.Time, fold.Start)
		case ingest.BeatStop:
			s.fold.Advance(rec.Time, fold.Stop)
		default:
			s.fold.Advance(rec.Time, fold.Tick)
		}
		return nil
	}
	return fmt.Errorf("record type %d is of a newer version", rec.Type)
}

// Parts are the fold's own.
func (s foldState) Parts() []ingest.Part {
	parts := s.fold.Parts()
	out := make([]ingest.Part, len(parts))
	for i, p := range parts {
		out[i] = ingest.Part{Name: p.Name, Version: p.Version, Encode: p.Encode, Vital: p.Vital}
	}
	return out
}

// Restore gives one part back, or goes on without it.
func (s foldState) Restore(name string, data []byte) error {
	if data == nil {
		return s.fold.RestoreLost(name)
	}
	return s.fold.RestorePart(name, data)
}

// Loss says what a part is worth.
func (s foldState) Loss(name string) (string, bool) { return fold.PartLoss(name) }

// FinishRestore says that all parts were given.
func (s foldState) FinishRestore() error { return s.fold.FinishRestore() }

// encodeConfig is the payload of a config record.
func encodeConfig(cfg *fold.Config) ([]byte, error) {
	if cfg == nil {
		return nil, errors.New("no config")
	}
	return json.Marshal(cfg)
}
