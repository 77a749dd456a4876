package sources

import (
	"context"
	"os"

	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/ingest/source/outbox"
	"github.com/sloengine/sloengine/web/status"
)

// makeOutbox makes a source that reads a table.
func (s *Sources) makeOutbox(c *config.Source, r *runningSource) (run func(context.Context) error, err error) {
	known, err := s.o.Positions.of(s.ctx, c.Name)
	if err != nil {
		return nil, err
	}
	o := s.intake(c)
	o.Typed = true
	if r.intake, err = source.New(o); err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	r.outbox, err = outbox.New(outbox.Options{
		Settings: c.Outbox.Settings, Hostname: host, Intake: r.intake, Database: c.Outbox.Options, Positions: known,
		Headers: c.Headers, Most: c.MaxMessage, Metrics: s.outbox, Logger: s.o.Log,
	})
	if err != nil {
		return nil, err
	}
	return r.outbox.Run, nil
}

func tableStatus(t outbox.Status) *status.SourceTable {
	return &status.SourceTable{
		Name: t.Table, Way: t.Way, Behind: t.Behind, OldestSeconds: t.Oldest.Seconds(), Held: t.Held,
		HeldSeconds: t.HeldFor.Seconds(),
	}
}
