package v1

import (
	"time"

	"github.com/sloengine/sloengine/slo"
)

// Events answers /api/v1/slos/{service}/{slo}/events.
type Events struct {
	ID   slo.ID    `json:"id"`
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Since is when the oldest record was received that the log or its history still holds; null: there is none.
	Since   *time.Time       `json:"log_since"`
	Records uint64           `json:"records_read"`
	Unread  string           `json:"unread,omitempty"` // what was not read; absent if nothing is missing
	Bad     []FoundEvent     `json:"bad"`              // latest first
	Good    []FoundEvent     `json:"good"`
	Compare *EventComparison `json:"comparison,omitempty"` // with compare=true
}

// FoundEvent is one event of the log.
type FoundEvent struct {
	ID         string            `json:"id"`
	Time       time.Time         `json:"time"`
	Received   time.Time         `json:"received_at"`
	Type       string            `json:"type"`
	Outcome    string            `json:"outcome"`
	Severity   string            `json:"severity,omitempty"`
	Duration   *float64          `json:"duration_seconds"`   // null if it has none
	Count      uint32            `json:"count"`              // events that were merged into it
	Weight     uint32            `json:"weight"`             // events that it stands for
	Group      map[string]string `json:"group,omitempty"`    // where it is counted
	Trace      string            `json:"trace_id,omitempty"` // absent if it carries none
	TraceURL   string            `json:"trace_url,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"`
}

// EventComparison is what is different about the bad events.
type EventComparison struct {
	Bad  float64 `json:"bad"`
	Good float64 `json:"good"`
	Burn float64 `json:"burn_rate"`
	// Differences are the attribute values that explain the bad events, the strongest first. Empty: none does.
	Differences []AttributeDifference `json:"differences"`
	Text        string                `json:"text"`
}

// AttributeDifference is a value that is more frequent among the bad events.
type AttributeDifference struct {
	Attribute string   `json:"attribute"`
	Value     string   `json:"value"`
	Same      []string `json:"same_events"` // further attributes whose values name the same events, as name=value
	OfBad     float64  `json:"share_of_bad"`
	OfGood    float64  `json:"share_of_good"`
	Lift      float64  `json:"lift"` // how many times as frequent among the bad events as chance would have it
	Burn      float64  `json:"burn_rate_without"`
	P         float64  `json:"p"` // bound of the probability that chance names any value
}
