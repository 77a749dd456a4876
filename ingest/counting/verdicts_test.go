package counting

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/position"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/retained"
	"github.com/sloengine/sloengine/reliability/wal"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// The verdicts on a log add up to what a fold of the last definition counts of the events that the folds of their time
// took, and of those that were replayed.
func TestVerdicts(t *testing.T) {
	config := func(types []string, bad string, kinds ...fold.Kind) *fold.Config {
		cfg := &fold.Config{Version: fold.ConfigVersion, Services: []fold.Service{{Name: "shop", Types: types}}}
		for _, kind := range kinds {
			ind := fold.Indicator{ID: "shop/" + string(kind), Service: "shop", Kind: kind, Retention: 24 * time.Hour}
			switch kind {
			case fold.Events:
				ind.Bad = []fold.Matcher{{Name: "outcome", Op: slo.OpEqual, Value: bad}}
			case fold.Latency:
				ind.Edges = []time.Duration{10 * time.Millisecond, 50 * time.Millisecond}
			case fold.Ratio:
				ind.Numerator = []fold.Matcher{{Name: "outcome", Op: slo.OpEqual, Value: bad}}
			}
			cfg.Indicators = append(cfg.Indicators, ind)
		}
		return cfg
	}
	last := config(nil, "failure", fold.Events, fold.Latency, fold.Ratio)
	dir := t.TempDir()
	log, err := wal.Open(wal.Options{FS: fsys.OS(), Dir: filepath.Join(dir, "wal"), SegmentBytes: 1 << 20,
		RuleType: record.TypeConfig})
	require.NoError(t, err)
	newState := func() FoldState {
		f, err := fold.New(fold.Options{})
		require.NoError(t, err)
		return FoldState{Fold: f, Incidents: incident.NewBook(), Positions: position.NewBook()}
	}
	then, want, seq := newState(), newState(), uint64(0)
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	require.NoError(t, want.Fold.SetConfig(last, now.UnixNano()))
	var refused []byte // events, for their replay
	refusals := 0
	write := func(typ byte, payload []byte) {
		now, seq = now.Add(time.Second), seq+1
		rec := wal.Record{Seq: seq, Type: typ, Time: now.UnixNano(), Payload: payload}
		require.NoError(t, log.Append([]wal.Pending{{Time: rec.Time, Type: typ, Payload: payload}}))
		is := map[int]bool{}
		require.NoError(t, then.Apply(rec, func(i int, e []byte, _ string) {
			is[i] = true
			refused, refusals = append(refused, e...), refusals+1
		}))
		if typ == record.TypeConfig {
			return
		}
		i := -1
		want.Wants = func(*event.View) bool { i++; return !is[i] }
		require.NoError(t, want.Apply(rec, nil))
	}
	specs := func(cfg *fold.Config) {
		payload, err := EncodeConfig(cfg, nil)
		require.NoError(t, err)
		write(record.TypeConfig, payload)
	}
	r := rand.New(rand.NewPCG(3, 4))
	events := func() {
		payload := record.AppendHead(nil, 100, new(event.Batch), nil)
		for range 100 {
			e := event.Event{ID: fmt.Sprint(r.Uint64()), Service: []string{"shop", "other"}[r.IntN(8)/7], Count: 1,
				Type: []string{"order", "odrer"}[r.IntN(5)/4], Weight: 1 + r.Uint32N(3), Outcome: event.Outcome(r.IntN(2)),
				Time: now.Add(-time.Duration(r.IntN(1000)) * time.Second)}
			switch r.IntN(4) {
			case 0:
				e.Time = now.Add(48 * time.Hour)
			case 1:
				e.Duration, e.HasDuration = time.Duration(r.IntN(100))*time.Millisecond, true
			case 2:
				e.Count, e.Durations = 3, []event.DurationCount{{Duration: 5 * time.Millisecond, Count: 1},
					{Duration: 70 * time.Millisecond, Count: 2}}
			}
			payload = event.AppendBinary(payload, &e)
		}
		write(record.TypeEvents, payload)
	}
	specs(config([]string{"order"}, "success", fold.Events))
	events()
	specs(&fold.Config{Version: fold.ConfigVersion}) // all are refused
	events()
	write(record.TypeForget, (&record.Forget{Services: []string{"shop"}}).Append(nil))
	want = newState() // as it begins again
	require.NoError(t, want.Fold.SetConfig(last, now.UnixNano()))
	events()
	specs(config([]string{"order"}, "success", fold.Events))
	events()
	specs(last)
	events()
	payload := append(record.AppendHead(nil, refusals, new(event.Batch), nil), refused...)
	write(record.TypeReplay, payload)

	source := retained.OpenFolders(fsys.OS(), filepath.Join(dir, "history"), filepath.Join(dir, "wal"), record.Form())
	for _, g := range want.Fold.Sums(fold.Request{}).Groups {
		id := slo.ID(g.Indicator.ID)
		x, err := NewVerdicts(context.Background(), source, id)
		if g.Indicator.Kind == fold.Ratio {
			require.ErrorIs(t, err, fold.ErrNotJudged)
			continue
		}
		require.NoError(t, err)
		sum := [2]uint64{}
		reader, err := source.NewReader(retained.Query{Service: x.Service()})
		require.NoError(t, err)
		for rec := (wal.Record{}); ; {
			ok, err := reader.Next(&rec)
			require.NoError(t, err)
			if !ok {
				break
			}
			if rec.Type == record.TypeEvents || rec.Type == record.TypeReplay {
				require.NoError(t, eachView(rec.Payload, func(v *event.View) {
					good, bad := x.Of(rec.Seq, rec.Time, v)
					sum[0], sum[1] = sum[0]+good, sum[1]+bad
				}))
			}
		}
		require.NoError(t, reader.Close())
		counted := [2]uint64{}
		for _, bins := range [][]uint64{g.Total, g.Old} {
			for i, n := range bins {
				counted[max(0, i+2-len(bins))] += n
			}
		}
		require.Equal(t, counted, sum, id)
		require.Positive(t, sum[0])
		require.Positive(t, sum[1])
	}
	_, err = NewVerdicts(context.Background(), source, "shop/none")
	require.ErrorIs(t, err, ErrNoSLO)
	require.NoError(t, log.Close())
}

func eachView(payload []byte, f func(*event.View)) error {
	events, err := record.ParseEvents(payload)
	var v event.View
	for body := events.Body; err == nil && len(body) > 0; {
		var n int
		if n, err = v.Parse(body); err == nil {
			f(&v)
			body = body[n:]
		}
	}
	return err
}
