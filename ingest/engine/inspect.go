package engine

import (
	"context"
	"fmt"

	"github.com/sloengine/sloengine/reliability/wal"
)

// Inspect reads one part of the State without an engine that runs: restore gets the part as the newest checkpoint has
// it, and is not called if it lacks the part. apply then gets every record behind that checkpoint. It is called
// instead of Run, and appends nothing to the log. A record is valid during the call only.
func (e *Engine) Inspect(ctx context.Context, part string, restore func([]byte) error,
	apply func(wal.Record) error) (err error) {
	files := e.checkpoints()
	defer closing(&err, files, "checkpoint")
	from, err := files.Load(e.log)
	if err != nil {
		return err
	}
	err = files.Restore(from, func(name string, data []byte) error {
		if name != part {
			return nil
		}
		if err := restore(data); err != nil {
			return fmt.Errorf("read part %q of the checkpoint: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	reader, err := e.log.NewReader(max(from.Seq, e.log.FirstSeq()-1) + 1)
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	defer closing(&err, reader, "reader of the log")
	var rec wal.Record
	for ctx.Err() == nil {
		ok, err := reader.Next(&rec)
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		if !ok {
			return nil
		}
		if err := apply(rec); err != nil {
			return fmt.Errorf("record %d: %w", rec.Seq, err)
		}
	}
	return ctx.Err()
}
