package record

import (
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/retained"
	"github.com/sloengine/sloengine/reliability/wal"
)

// Describe tells the index of the retained log which events are in a record. One that forgets a service concerns events
// at any time, so no query may skip it.
func Describe(rec *wal.Record, s *retained.Sketch) error {
	if rec.Type == TypeForget {
		s.Unknown()
	}
	if rec.Type != TypeEvents && rec.Type != TypeReplay {
		return nil
	}
	events, err := ParseEvents(rec.Payload)
	if err != nil {
		return err
	}
	return event.EachHead(events.Body, s.Event)
}
