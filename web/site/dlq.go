package site

import (
	"context"
	"time"

	"github.com/sloengine/sloengine/reliability/dlq"
)

// DLQ is the dead-letter store as pages and API use it. Errors that wrap dlq.ErrInvalid or dlq.ErrNotFound are the
// caller's. All others mean that the store is unavailable.
type DLQ interface {
	List(ctx context.Context, q dlq.Query) (dlq.Page, error)
	Get(ctx context.Context, id string) (dlq.Entry, error)
	Stats(ctx context.Context) (dlq.Stats, error)
	// Replay returns all that matches to where it failed. The result is valid beside an error, too. A dry run only counts.
	Replay(ctx context.Context, q dlq.Query, dryRun bool) (dlq.ReplayResult, error)
	ReplayIDs(ctx context.Context, ids []string, dryRun bool) (dlq.ReplayResult, error)
	// Discard removes entries for good and returns how many there were.
	Discard(ctx context.Context, ids []string) (int, error)
	DiscardMatching(ctx context.Context, q dlq.Query, dryRun bool) (int, error)
	// Purge removes entries saved before a time and returns how many there were.
	Purge(ctx context.Context, before time.Time, dryRun bool) (int, error)
}

// The pages about dead letters.
const (
	DeadLetterListPath    = "/engine/dead-letters"
	DeadLetterPath        = "/engine/dead-letter"
	DeadLetterConfirmPath = "/engine/dead-letters/confirm"
)
