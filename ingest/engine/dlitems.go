package engine

import (
	"fmt"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/dlq"
)

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
