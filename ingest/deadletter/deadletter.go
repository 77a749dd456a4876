// Package deadletter turns events into dead letters and back: those that the fold refuses, those that a sink did not
// get, and the event of either for a replay. It stores nothing (reliability/dlq does) and decides nothing about replays
// but the key by which one counts once.
package deadletter

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/dlq"
)

// The reasons of dead letters of the fold. The text of the refusal or panic is their Error.
const (
	ReasonRefused = "refused"
	ReasonPanic   = "panic"
)

// ClassRefused is the class of a dead letter whose replay the fold refused. Its next replay counts by another key.
const ClassRefused = "refused"

// WholeRecordBytes is the size of a refused record above which the dead letter names its log segment, which is
// archived, instead of holding the record.
const WholeRecordBytes = 512 << 10

// ID is the ID of a dead letter of an instance. It follows from the entry, so that a record which is read again after a
// crash gives a dead letter that the storage recognises.
func ID(instance string, e *dlq.Entry) string {
	if instance == "" {
		return e.DefaultID()
	}
	return instance + "-" + e.DefaultID()
}

// AdmissionID is the ID of the dead letter of an event that was never in the log. It follows from the event's identity.
func AdmissionID(v *event.View) string {
	key := event.Key(v.Service, v.ID).Bytes()
	return string(dlq.Admission) + "-" + hex.EncodeToString(key[:])
}

// Refused is the dead letter of an event in its binary form that the fold refused. The index of a whole record is -1.
// An unreadable event is stored as raw bytes.
func Refused(seq uint64, index int, received int64, payload []byte, why string) dlq.Entry {
	at := time.Unix(0, received).UTC()
	entry := dlq.Entry{Origin: dlq.Fold, Reason: ReasonRefused, Error: why, First: at, Last: at, Seq: seq, Index: index}
	if strings.HasPrefix(why, "panic: ") {
		entry.Reason = ReasonPanic
	}
	if !describe(&entry, payload) && len(payload) > WholeRecordBytes {
		entry.Raw, entry.SeqEnd = nil, seq
	}
	return entry
}

// Undelivered is the dead letter of an item that a sink did not get.
func Undelivered(d *dispatch.DeadLetter) dlq.Entry {
	entry := dlq.Entry{
		Origin: dlq.Sink, Sink: d.Sink, Reason: d.Reason, Class: d.Class.String(), Attempts: d.Attempts,
		First: d.First, Last: d.Last, Seq: d.Item.Seq, Index: d.Item.Index,
		Service: d.Item.Service, Type: d.Item.Type, Severity: d.Item.Severity, Error: d.Err,
	}
	describe(&entry, d.Item.Payload)
	return entry
}

// describe puts an event into its dead letter, or raw bytes that are not an event.
func describe(entry *dlq.Entry, payload []byte) (ok bool) {
	var view event.View
	if n, err := view.Parse(payload); err != nil || n != len(payload) {
		entry.Raw = append([]byte{}, payload...)
		return false
	}
	Describe(entry, &view)
	return true
}

// Describe puts an event into its dead letter.
func Describe(entry *dlq.Entry, v *event.View) {
	entry.Service, entry.Type, entry.Severity = string(v.Service), string(v.Type), string(v.Severity)
	entry.Event = v.AppendJSON(nil)
}

// Item is the item of a sink's dead letter, for another delivery.
func Item(entry *dlq.Entry) (dispatch.Item, error) {
	bin, view, err := Event(entry)
	return dispatch.Item{
		ID: string(view.ID), Service: entry.Service, Type: entry.Type, Severity: entry.Severity, Time: entry.Saved,
		Seq: entry.Seq, Index: entry.Index, Payload: bin,
	}, err
}

// ReplayKey is the key by which the event of a dead letter counts once. An event that was never accepted has the key of
// its id: if its sender sent it again meanwhile, it counts already. The id of an event that the fold refused is in the
// deduplication table, so its dead letter has a key of its own, and another one after each refused replay.
func ReplayKey(entry *dlq.Entry, v *event.View) xxh3.Uint128 {
	if entry.Origin == dlq.Admission && entry.Class != ClassRefused {
		return event.Key(v.Service, v.ID)
	}
	return xxh3.HashString128(fmt.Sprintf("\x00replay\x00%s\x00%d", entry.ID, entry.Attempts))
}

// ErrNoEvent is for dead letters that hold no readable event.
var ErrNoEvent = errors.New(
	"dead letter holds no readable event and cannot be replayed (discard it once you know the cause)")

// Event is the event of a dead letter in its binary form, and a view of it. The stored JSON is validated as a sender's
// event is, except for its age, weight and size.
func Event(entry *dlq.Entry) (bin []byte, view event.View, err error) {
	if len(entry.Event) == 0 {
		return nil, view, ErrNoEvent
	}
	const ever = 130 * 365 * 24 * time.Hour // twice that is still within a time.Duration
	var d event.Decoder
	var b event.Batch
	err = d.Decode(event.JSON, entry.Event, event.DecodeOptions{
		Now: time.Unix(0, 0).Add(ever), Backfill: true, AllowWeight: true,
		SizeLimits: event.SizeLimits{MaxEventBytes: dlq.MaxEntryBytes, MaxBackfill: ever, MaxFuture: ever,
			AllowedLateness: ever},
	}, &b)
	switch {
	case err != nil:
	case len(b.Errors) > 0:
		err = errors.New(b.Errors[0].Detail)
	case len(b.Events) != 1:
		err = fmt.Errorf("%d events instead of one", len(b.Events))
	default:
		bin = b.Event(0)
		_, err = view.Parse(bin)
	}
	if err != nil {
		return nil, view, fmt.Errorf("read the event of the dead letter: %w", err)
	}
	return bin, view, nil
}
