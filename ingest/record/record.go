// Package record holds the records of the log: their types, the form of their payloads, and their receive times.
// FORMAT.md beside this file describes the bytes.
//
// It does not read or write the log, knows no deduplication table, and does not look into configurations.
package record

import "fmt"

// The types of log record. Numbers are part of the format and are never used again for something else.
const (
	// TypeEvents holds the new events of one request: ParseEvents.
	TypeEvents byte = 1
	// TypeConfig holds a configuration. Its bytes mean something to the State only.
	TypeConfig byte = 2
	// TypeHeartbeat holds one Beat byte. It says that the engine was up.
	TypeHeartbeat byte = 3
	// TypeReplay holds replayed dead letters: ParseEvents. Its own keys decide whether its events count. The ids of
	// the events are ignored.
	TypeReplay byte = 4
	// TypeDropped says which events the rate limits dropped: ParseDropped.
	TypeDropped byte = 5
	// TypeForget says which counts are dropped: ParseForget.
	TypeForget byte = 6
	// TypeIncident holds operations on incidents. Its bytes mean something to the State only.
	TypeIncident byte = 7
	// TypeRebuilt says that counts that were made from the retained log replace others: Rebuilt.
	TypeRebuilt byte = 8
	// TypeTicks says when the engine evaluated, on which counts and with which alert states: ParseTicks.
	TypeTicks byte = 9
)

// Beat is the payload of a heartbeat record.
type Beat byte

// The kinds of heartbeat.
const (
	BeatTick  Beat = 0 // the engine is up, with nothing else to write
	BeatStop  Beat = 1 // the last record before a clean stop
	BeatStart Beat = 2 // the first record after a start
)

// ParseBeat reads the payload of a heartbeat record.
func ParseBeat(payload []byte) (Beat, error) {
	if len(payload) != 1 || payload[0] > byte(BeatStart) {
		return 0, fmt.Errorf("invalid heartbeat record: payload %x", payload)
	}
	return Beat(payload[0]), nil
}
