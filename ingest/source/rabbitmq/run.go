package rabbitmq

import (
	"context"
	"errors"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/reliability/remote"
)

// kinds maps the subject of a client's error to the failure of a source.
var kinds = map[remote.Kind]source.Kind{
	remote.KindConnection: source.TroubleConnection, remote.KindCredentials: source.TroubleCredentials,
	remote.KindTLS: source.TroubleTLS, remote.KindTopology: source.TroubleTopic,
	remote.KindMessage: source.TroubleConnection,
}

// Run consumes until ctx ends. It connects again whenever that is needed.
func (c *consumer) Run(ctx context.Context) { c.Client.Run(ctx, c.serve, c.connection) }

// connection records the state of the connection; nil means connected. The error of an engine that stops is not about
// the connection.
func (c *consumer) connection(err error) {
	var e *remote.BrokerError
	switch {
	case err == nil:
		for _, kind := range kinds {
			c.Intake.Works(kind, "")
		}
	case errors.Is(err, engine.ErrStopping), errors.Is(err, engine.ErrPoisoned):
	case errors.As(err, &e) && e.Brief() != "":
		c.Intake.Fails(kinds[e.Kind], "", e.Brief(), clip(err.Error()))
	}
}
