package ingest

import (
	"strconv"

	"github.com/sloengine/sloengine/ingest/event"
)

// Answer is the response to a request to /api/v1/events. Every event of the body is in exactly one
// of the counters, so
//
//	Received = Accepted + Duplicates + Limited + Sampled + DeadLettered + Rejected.
//
// A request that was refused as a whole (any status but 200, 202 and 422) has
// zeros throughout: nothing of it was taken.
type Answer struct {
	Received     int `json:"received"`
	Accepted     int `json:"accepted"`
	Duplicates   int `json:"duplicates"`
	Limited      int `json:"limited"`
	Sampled      int `json:"sampled"`
	DeadLettered int `json:"dead_lettered"`
	Rejected     int `json:"rejected"`

	// Errors lists the first rejected events; ErrorsTruncated says that there are more. Unlisted has the index and the
	// code of those that were rejected as invalid, so a sender need not send them again to learn it.
	Errors          []event.ItemError `json:"errors"`
	ErrorsTruncated bool              `json:"errors_truncated"`
	Unlisted        []event.Run       `json:"unlisted,omitempty"`

	// ID is the id that the server gave to the only event of the body.
	ID string `json:"id,omitempty"`
	// Assigned counts the accepted events that came without an id. A resend of
	// such an event is a new event.
	Assigned int `json:"assigned,omitempty"`
	// DryRun means that nothing was stored.
	DryRun bool `json:"dry_run,omitempty"`
}

// appendJSON appends a as encoding/json would, without reflection.
func (a *Answer) appendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = a.appendMembers(dst)
	return append(dst, '}', '\n')
}

func (a *Answer) appendMembers(dst []byte) []byte {
	dst = appendCount(dst, `"received":`, a.Received)
	dst = appendCount(dst, `,"accepted":`, a.Accepted)
	dst = appendCount(dst, `,"duplicates":`, a.Duplicates)
	dst = appendCount(dst, `,"limited":`, a.Limited)
	dst = appendCount(dst, `,"sampled":`, a.Sampled)
	dst = appendCount(dst, `,"dead_lettered":`, a.DeadLettered)
	dst = appendCount(dst, `,"rejected":`, a.Rejected)
	dst = append(dst, `,"errors":[`...)
	for i := range a.Errors {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendItemError(dst, &a.Errors[i])
	}
	dst = append(dst, `],"errors_truncated":`...)
	dst = strconv.AppendBool(dst, a.ErrorsTruncated)
	if len(a.Unlisted) > 0 {
		dst = append(dst, `,"unlisted":[`...)
		for i, run := range a.Unlisted {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendCount(dst, `{"from":`, run.From)
			dst = appendCount(dst, `,"to":`, run.To)
			dst = append(dst, `,"code":`...)
			dst = append(event.AppendJSONText(dst, string(run.Code)), '}')
		}
		dst = append(dst, ']')
	}
	if a.ID != "" {
		dst = append(dst, `,"id":`...)
		dst = event.AppendJSONText(dst, a.ID)
	}
	if a.Assigned > 0 {
		dst = appendCount(dst, `,"assigned":`, a.Assigned)
	}
	if a.DryRun {
		dst = append(dst, `,"dry_run":true`...)
	}
	return dst
}

func appendCount(dst []byte, name string, n int) []byte {
	dst = append(dst, name...)
	return strconv.AppendInt(dst, int64(n), 10)
}

func appendItemError(dst []byte, e *event.ItemError) []byte {
	dst = appendCount(dst, `{"index":`, e.Index)
	if e.Line != 0 {
		dst = appendCount(dst, `,"line":`, e.Line)
	}
	if e.ID != "" {
		dst = append(dst, `,"id":`...)
		dst = event.AppendJSONText(dst, e.ID)
	}
	dst = append(dst, `,"code":`...)
	dst = event.AppendJSONText(dst, string(e.Code))
	dst = append(dst, `,"detail":`...)
	dst = event.AppendJSONText(dst, e.Detail)
	dst = append(dst, `,"retryable":`...)
	dst = strconv.AppendBool(dst, e.Retryable)
	return append(dst, '}')
}
