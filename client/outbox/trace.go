package outbox

import (
	"context"
	"database/sql"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
)

const traceHeader = "traceparent"

type traceKey struct{}

// WithTraceparent stores the header traceparent of a request for events that are saved with the context. Services that
// use OpenTelemetry set Options.Traceparent instead.
func WithTraceparent(ctx context.Context, value string) context.Context {
	return context.WithValue(ctx, traceKey{}, value)
}

func traceparent(ctx context.Context) string {
	s, _ := ctx.Value(traceKey{}).(string)
	return s
}

var traceFormat = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// validTraceparent reports whether a header is one of W3C Trace Context. Others are left out, as the standard asks for:
// they come from whoever sent the request.
func validTraceparent(s string) bool {
	return traceFormat.MatchString(s) && !strings.HasPrefix(s, "ff") && s[3:35] != strings.Repeat("0", 32) &&
		s[36:52] != strings.Repeat("0", 16)
}

// whole reports whether tx is a connection or a pool instead of a transaction.
func whole(tx any) bool {
	switch tx.(type) {
	case interface {
		BeginTx(context.Context, *sql.TxOptions) (*sql.Tx, error)
	}, interface {
		BeginTx(context.Context, pgx.TxOptions) (pgx.Tx, error)
	}:
		return true
	}
	return false
}
