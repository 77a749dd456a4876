package rabbitmq

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/reliability/retry"
)

// How long to wait before another connection: at first, and at most. Each failure doubles it.
const (
	reconnectFirst = 500 * time.Millisecond
	reconnectMost  = 30 * time.Second
)

// Run consumes until ctx ends, which is no error, or the engine stops. It connects again whenever that is needed.
func (c *consumer) Run(ctx context.Context) error {
	backoff, err := retry.New(retry.Options{Base: reconnectFirst, Cap: reconnectMost, MaxRetries: retry.Unlimited})
	if err != nil {
		return fmt.Errorf("rabbitmq source %s: %w", c.Name, err)
	}
	var wait time.Duration
	for failures := 0; ctx.Err() == nil; failures++ {
		conn, err := c.Dial(ctx)
		if err == nil {
			c.Intake.Works(source.TroubleConnection, "")
			c.Intake.Works(source.TroubleCredentials, "")
			c.Intake.Works(source.TroubleTLS, "")
			started := c.Now()
			err = c.serve(ctx, conn)
			_ = conn.Close()
			if c.Now().Sub(started) > reconnectMost {
				failures = 0
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, engine.ErrStopping) || errors.Is(err, engine.ErrPoisoned) {
			return nil // the engine says so itself
		}
		kind, brief := trouble(err)
		c.Intake.Fails(kind, "", brief, errorText(err))
		wait = backoff.Delay(failures+1, wait)
		retry.Sleep(ctx, wait)
	}
	return nil
}

// trouble says what an error of a connection is about.
func trouble(err error) (kind source.Kind, brief string) {
	var (
		e        *amqp.Error
		invalid  x509.CertificateInvalidError
		unknown  x509.UnknownAuthorityError
		hostname x509.HostnameError
		alert    tls.AlertError
		record   tls.RecordHeaderError
		verify   *tls.CertificateVerificationError
	)
	switch {
	case errors.As(err, &verify), errors.As(err, &invalid), errors.As(err, &unknown), errors.As(err, &hostname):
		return source.TroubleTLS, "the broker's certificate cannot be trusted"
	case errors.As(err, &alert), errors.As(err, &record):
		return source.TroubleTLS, "no TLS connection to the broker"
	case errors.As(err, &e) && (e.Code == amqp.AccessRefused || errors.Is(err, amqp.ErrCredentials)):
		return source.TroubleCredentials, "the broker refuses user name or password"
	case errors.As(err, &e) && e.Code == amqp.NotAllowed:
		return source.TroubleCredentials, "the virtual host does not exist, or the user may not use it"
	}
	return source.TroubleConnection, "no connection to the broker"
}

func errorText(err error) string {
	if err == nil {
		return errConnection.Error()
	}
	return clip(err.Error())
}
