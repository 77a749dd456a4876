package status

import (
	"fmt"
	"time"

	"github.com/sloengine/sloengine/web/format"
)

// SourceStatus is one source of events. Counts are since the start.
type SourceStatus struct {
	Name        string          `json:"name"`
	Kind        string          `json:"kind"`   // kafka and so on
	Paused      bool            `json:"paused"` // it takes no messages, which wait in the broker
	Messages    uint64          `json:"messages"`
	Bytes       uint64          `json:"bytes"`
	Accepted    uint64          `json:"accepted"`   // events
	Duplicates  uint64          `json:"duplicates"` // events
	Rejected    uint64          `json:"rejected"`   // messages and events that could not be read or are invalid
	Expired     uint64          `json:"expired"`    // events older than any window
	DeadLetters uint64          `json:"dead_letters"`
	Lag         int64           `json:"lag_messages"` // that this engine owns and has not stored
	LastBatch   time.Time       `json:"last_batch,omitzero"`
	Topics      []SourceTopic   `json:"topics,omitempty"`
	Table       *SourceTable    `json:"table,omitempty"`
	Troubles    []SourceTrouble `json:"troubles,omitempty"`

	Counters []SourceCounters `json:"counters,omitempty"` // of a Prometheus
	Reading  *SourceReading   `json:"reading,omitempty"`  // likewise
}

// SourceReading is how far a Prometheus is read of what was to be read when the source started.
type SourceReading struct {
	Indicators  int     `json:"indicators"`
	Complete    int     `json:"complete"`     // of them, which are read up to now
	Share       float64 `json:"share"`        // in [0,1]
	LeftSeconds float64 `json:"left_seconds"` // at the pace so far; 0: unknown, or nothing is left
}

// SourceCounters is how far a source has read a pair of counters, and what it found since it started.
type SourceCounters struct {
	SLOs          []string  `json:"slos"`
	URL           string    `json:"url"` // of the Prometheus, without a password
	Total         string    `json:"total"`
	Bad           string    `json:"bad,omitempty"`
	Good          string    `json:"good,omitempty"`
	ScrapeSeconds float64   `json:"scrape_seconds"` // at most, between two scrapes
	Began         time.Time `json:"began,omitzero"` // where it began to read; absent until it does
	Until         time.Time `json:"until,omitzero"` // everything before was read
	Samples       uint64    `json:"samples"`
	Beginnings    uint64    `json:"beginnings"` // series with which counting began
	NewSeries     uint64    `json:"new_series"` // that began later
	FirstValues   uint64    `json:"first_values"`
	Resets        uint64    `json:"resets"`
	AfterResets   uint64    `json:"after_resets"` // what counters said when they had fallen
	Gaps          uint64    `json:"gaps"`         // longer than three scrapes
	InGaps        uint64    `json:"in_gaps"`      // what was added in them
	Cut           uint64    `json:"cut"`          // of bad or good beyond all, which does not count
	CutAt         time.Time `json:"cut_at,omitzero"`
	CutGroup      string    `json:"cut_group,omitempty"` // of the last one
	Left          string    `json:"left_out,omitempty"`  // why some does not count
}

// Arrived is what came in over HTTP and by sources.
func (e *Engine) Arrived() IngestStatus {
	n := e.Ingest
	for i := range e.Sources {
		s := &e.Sources[i]
		n.Received += s.Accepted + s.Duplicates + s.Rejected + s.Expired
		n.Accepted += s.Accepted
		n.Duplicates += s.Duplicates
		n.Rejected += s.Rejected
	}
	return n
}

// SourceTable is how far a source is in an outbox table. Rows are counted up to 100000.
type SourceTable struct {
	Name          string  `json:"name"`
	Way           string  `json:"way"`               // claim or xid
	Behind        int64   `json:"behind_rows"`       // that this engine reads and has not stored
	OldestSeconds float64 `json:"oldest_seconds"`    // age of the first of them
	Held          int64   `json:"held_back_rows"`    // committed rows that wait for a transaction that is still open
	HeldSeconds   float64 `json:"held_back_seconds"` // age of the first of them
}

// degraded says what does not work.
func (s *SourceStatus) degraded(add func(part, name, reason string)) {
	for i, t := range s.Troubles {
		if i == maxShownTroubles {
			add("source", s.Name, "and "+format.Plural(len(s.Troubles)-i, "more failure"))
			return
		}
		text := t.Brief
		if t.Name != "" {
			text = fmt.Sprintf("%s: %s", t.Name, text)
		}
		add("source", s.Name, format.Safe(text, format.MaxText)+", since "+t.Since.UTC().Format("2006-01-02 15:04:05Z"))
	}
}

// maxShownTroubles is how many troubles of one source readiness lists.
const maxShownTroubles = 5
