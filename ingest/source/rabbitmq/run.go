package rabbitmq

import (
	"context"
	"errors"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/reliability/amqpclient"
)

// kinds are the troubles of a source by what an error of the client is about.
var kinds = map[amqpclient.Kind]source.Kind{
	amqpclient.KindConnection: source.TroubleConnection, amqpclient.KindCredentials: source.TroubleCredentials,
	amqpclient.KindTLS: source.TroubleTLS, amqpclient.KindTopology: source.TroubleTopic, amqpclient.KindMessage: source.TroubleConnection,
}

// Run consumes until ctx ends. It connects again whenever that is needed.
func (c *consumer) Run(ctx context.Context) { c.Client.Run(ctx, c.serve, c.connection) }

// connection notes how the connection is; nil is well. What the engine says when it stops is not about the connection.
func (c *consumer) connection(err error) {
	var e *amqpclient.Error
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
