package retained

import (
	"context"
	"fmt"
	"iter"

	"github.com/sloengine/sloengine/reliability/wal"
)

// Records yields what a query reads, up to the first error. A record holds until the next one.
func (s *Source) Records(ctx context.Context, q Query) iter.Seq2[*wal.Record, error] {
	return func(yield func(*wal.Record, error) bool) {
		r, err := s.NewReader(q)
		if err != nil {
			yield(nil, err)
			return
		}
		for rec, err := range r.Rest(ctx) {
			if !yield(rec, err) {
				_ = r.Close()
				return
			}
		}
		if err := r.Close(); err != nil {
			yield(nil, err)
		}
	}
}

// Rest yields the records to come, up to the first error. A record holds until the next one.
func (r *Reader) Rest(ctx context.Context) iter.Seq2[*wal.Record, error] {
	return func(yield func(*wal.Record, error) bool) {
		var rec wal.Record
		for n := 0; ; n++ {
			if n&1023 == 0 && ctx.Err() != nil {
				yield(nil, context.Cause(ctx))
				return
			}
			ok, err := r.Next(&rec)
			if err != nil {
				yield(nil, fmt.Errorf("read the log: %w", err))
				return
			}
			if !ok || !yield(&rec, nil) {
				return
			}
		}
	}
}
