package ingest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/ingest/source/sourcetest"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/ratelimit"
	"github.com/sloengine/sloengine/reliability/wal"
)

// folded is a State that counts how often each id was stored.
type folded struct {
	ids    map[string]uint64
	events uint64 // by their count and weight
	stored int    // events in records

	each func(payload []byte) // of events; may be nil
}

func (s *folded) Apply(rec wal.Record, refuse engine.Refuse) error {
	if rec.Type != record.TypeEvents {
		return nil
	}
	if s.each != nil {
		s.each(rec.Payload)
	}
	return engine.EachEvent(rec.Payload, func(_ bool, v *event.View) error {
		s.ids[string(v.ID)]++
		s.events += uint64(v.Count) * uint64(v.Weight)
		s.stored++
		return nil
	}, refuse)
}

func (s *folded) Parts() []engine.Part         { return nil }
func (s *folded) Restore(string, []byte) error { return nil }
func (s *folded) FinishRestore() error         { return nil }
func (s *folded) Loss(string) (string, bool)   { return "", false }

// realEngine is an engine that runs until the end of the test, or until stop is called.
type realEngine struct {
	*engine.Engine
	state *folded
	stop  func() // waits for Run
}

func runEngine(t testing.TB, disk fsys.FS, dir string, change func(*engine.Options)) *realEngine {
	t.Helper()
	r := &realEngine{state: &folded{ids: map[string]uint64{}}}
	opt := sourcetest.Options(dir, r.state)
	opt.FS = disk
	change(&opt)
	r.Engine, r.stop = sourcetest.Open(t, opt)
	return r
}

// rateLimiter allows that many events an hour, in all and of each type.
func rateLimiter(t testing.TB, limit int64, strategy ratelimit.Strategy, rate float64) *ratelimit.Limiter {
	t.Helper()
	window := time.Hour
	values := ratelimit.Values{Limit: &limit, Window: &window, OnExceeded: &strategy, SampleRate: &rate}
	policy, err := ratelimit.Compile(ratelimit.Config{Global: &values, Default: values})
	require.NoError(t, err)
	l, err := ratelimit.New(ratelimit.Options{Policy: policy})
	require.NoError(t, err)
	return l
}
