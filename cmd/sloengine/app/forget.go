package app

import (
	"context"
	"errors"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/web"
)

// forget drops what was counted for a service, and its ids, by a record of the log.
func (a *App) forget(ctx context.Context, r web.ForgetRequest) (done web.Forgotten, err error) {
	done.Service = r.Service
	var held, inUse bool
	var all []fold.Generation
	var basis uint64
	err = a.engine.Do(ctx, func() {
		held, inUse = a.fold.Holds(r.Service)
		all, basis = a.fold.Generations(a.parking.dedup), a.engine.Position()
	})
	switch {
	case err != nil:
		return done, err
	case !held && !inUse:
		return done, web.ErrNothingCounted
	case inUse && !r.Restart:
		return done, web.ErrServiceInUse
	}
	err = a.engine.Forget(ctx, record.Forget{Services: []string{r.Service}}, basis)
	if errors.Is(err, engine.ErrConfigChanged) {
		return done, web.ErrSpecChanged
	}
	if err != nil {
		return done, err
	}
	for _, g := range all {
		switch {
		case g.Service != r.Service:
		case g.Number > 0:
			done.Parked++
		default:
			done.Restarted++
		}
	}
	a.parking.evicted[evictedForget].Add(done.Parked)
	a.log.Warn("counts and ids of the service were forgotten", "service", r.Service, "parked", done.Parked, "restarted", done.Restarted)
	_, err = a.generations(ctx)
	return done, err
}
