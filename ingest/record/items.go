package record

import (
	"fmt"
	"time"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/wal"
)

// Items passes the events of a record to yield, in their binary form, for delivery to sinks. It is a dispatch.Split.
// Records of other types, and events that the sinks have already, yield nothing.
func Items(rec *wal.Record, yield func(dispatch.Item)) error {
	if rec.Type != TypeEvents && rec.Type != TypeReplay {
		return nil
	}
	events, err := ParseEvents(rec.Payload)
	if err != nil {
		return err
	}
	if events.Delivered {
		return nil
	}
	at := time.Unix(0, rec.Time)
	var view event.View
	var service, typ, severity string // of the previous event: the next one mostly has the same, so no new string is made
	same := func(last *string, now []byte) string {
		if *last != string(now) {
			*last = string(now)
		}
		return *last
	}
	for body := events.Body; len(body) > 0; {
		n, err := view.Parse(body)
		if err != nil {
			return fmt.Errorf("event of record %d: %w", rec.Seq, err)
		}
		yield(dispatch.Item{
			ID: string(view.ID), Service: same(&service, view.Service), Type: same(&typ, view.Type),
			Severity: same(&severity, view.Severity),
			Time:     at, Payload: body[:n:n],
		})
		body = body[n:]
	}
	return nil
}
