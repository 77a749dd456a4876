package engine

import (
	"fmt"
	"time"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/wal"
)

// Items takes a record apart for the sinks: its events, in their binary form. It is a
// dispatch.Split. Other records, and events that the sinks had before, yield nothing.
func Items(rec *wal.Record, yield func(dispatch.Item)) error {
	if rec.Type != RecordEvents && rec.Type != RecordReplay {
		return nil
	}
	events, err := ParseEvents(rec.Payload)
	if err != nil {
		return err
	}
	if events.Sunk {
		return nil
	}
	at := time.Unix(0, rec.Time)
	var view event.View
	var service, typ, severity string // of the event before, most often those of the next
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
			ID: string(view.ID), Service: same(&service, view.Service), Type: same(&typ, view.Type), Severity: same(&severity, view.Severity),
			Time: at, Payload: body[:n:n],
		})
		body = body[n:]
	}
	return nil
}

// SinkLetter is the dead letter of an item that a sink did not get.
func SinkLetter(d *dispatch.DeadLetter) dlq.Entry {
	entry := dlq.Entry{
		Origin: dlq.Sink, Sink: d.Sink, Reason: d.Reason, Class: d.Class.String(), Attempts: d.Attempts,
		First: d.First, Last: d.Last, Seq: d.Item.Seq, Index: d.Item.Index,
		Service: d.Item.Service, Type: d.Item.Type, Severity: d.Item.Severity, Error: d.Err,
	}
	var view event.View
	if n, err := view.Parse(d.Item.Payload); err == nil && n == len(d.Item.Payload) {
		entry.Event = view.AppendJSON(nil)
	} else {
		entry.Raw = append([]byte{}, d.Item.Payload...)
	}
	return entry
}

// ItemOf is the item of a sink's dead letter, for another try.
func ItemOf(entry *dlq.Entry) (dispatch.Item, error) {
	item := dispatch.Item{
		Service: entry.Service, Type: entry.Type, Severity: entry.Severity, Time: entry.Saved, Seq: entry.Seq, Index: entry.Index,
	}
	bin, _, err := replayed(entry)
	if err != nil {
		return item, err
	}
	var view event.View
	if _, err := view.Parse(bin); err != nil {
		return item, fmt.Errorf("read the event of the dead letter: %w", err)
	}
	item.ID, item.Payload = string(view.ID), bin
	return item, nil
}
