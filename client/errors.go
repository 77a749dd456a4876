package client

import (
	"errors"
	"fmt"

	"github.com/sloengine/sloengine/client/post"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/retry"
)

// StatusError is an answer that refuses a request as a whole.
type StatusError = post.StatusError

// RejectedError is what SendStrict returns for events that the server refused for
// good. The others were accepted, unless another error stands beside it.
type RejectedError struct {
	Items []event.ItemError // the index counts the events of the call
}

// Error names the first event.
func (e *RejectedError) Error() string {
	first := &e.Items[0]
	text := fmt.Sprintf("event %d (id %q): %s: %s", first.Index, first.ID, first.Code, first.Detail)
	if n := len(e.Items) - 1; n > 0 {
		text += fmt.Sprintf(" (and %d more)", n)
	}
	return text
}

// RetryClass is permanent.
func (e *RejectedError) RetryClass() retry.Class { return retry.ClassPermanent }

var (
	// ErrClosed is returned, and counted, after Close.
	ErrClosed = errors.New("the client is closed")

	errBusy   = retry.WithClass(errors.New("MaxInFlight requests are already in flight"), retry.ClassOverload)
	errPaused = errors.New("the server asked for a pause")
)
