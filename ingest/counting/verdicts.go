package counting

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/retained"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// Verdicts tells what the events of a log count as for an SLO, by the last definition in the log. An event that was
// refused by the spec of its time counts only where it was replayed, and one before its service was forgotten does not
// count. Verdicts is for one goroutine.
type Verdicts struct {
	judge   *fold.Judge
	floor   uint64 // of a forget record
	configs []verdictConfig
}

// verdictConfig is a config record.
type verdictConfig struct {
	seq     uint64
	refuses func(rec int64, v *event.View) bool
}

// NewVerdicts reads what the log says beside its events. The error wraps ErrNoSLO or fold.ErrNotJudged, or is of the
// context or the disk.
func NewVerdicts(ctx context.Context, source *retained.Source, id slo.ID) (_ *Verdicts, err error) {
	var last *fold.Config
	x, forgotten := &Verdicts{}, map[string]uint64{}
	for rec, err := range source.Records(ctx, retained.Query{}) {
		if err != nil {
			return nil, err
		}
		switch rec.Type {
		case record.TypeConfig:
			last = &fold.Config{}
			if err := json.Unmarshal(rec.Payload, last); err != nil {
				return nil, fmt.Errorf("config record %d: %w", rec.Seq, err)
			}
			x.configs = append(x.configs, verdictConfig{rec.Seq, last.NewRefuser(id.Service())})
		case record.TypeForget:
			f, err := record.ParseForget(rec.Payload)
			if err != nil {
				return nil, fmt.Errorf("record %d: %w", rec.Seq, err)
			}
			for _, s := range f.Services {
				forgotten[s] = rec.Seq
			}
		}
	}
	if last == nil || !slices.ContainsFunc(last.Indicators, func(i fold.Indicator) bool { return i.ID == string(id) }) {
		return nil, fmt.Errorf("%w in the last spec of the log: %s", ErrNoSLO, id)
	}
	x.judge, err = last.NewJudge(string(id))
	if err != nil {
		return nil, err
	}
	x.floor = forgotten[x.judge.Service()]
	return x, nil
}

// Service is that of the SLO: no other one's events count.
func (x *Verdicts) Service() string { return x.judge.Service() }

// Of is how much an event counts as good and as bad, both 0 for one that does not count. Records before the first
// config of the log are judged by that.
func (x *Verdicts) Of(rec uint64, received int64, v *event.View) (good, bad uint64) {
	if rec < x.floor {
		return 0, 0
	}
	for len(x.configs) > 1 && x.configs[1].seq <= rec {
		x.configs = x.configs[1:]
	}
	if x.configs[0].refuses(received, v) {
		return 0, 0
	}
	good, bad, _ = x.judge.Of(v)
	return good, bad
}
