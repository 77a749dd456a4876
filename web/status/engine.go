package status

import (
	"encoding/json"
	"hash/fnv"
	"slices"
	"time"

	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/ingest/servicebudget"
	"github.com/sloengine/sloengine/slo/spec"
)

// State is the engine's condition in one word.
type State string

// The states of the engine. Only Ready and Stale take traffic.
const (
	Starting   State = "starting"
	Recovering State = "recovering"
	Ready      State = "ready"
	Stale      State = "stale" // counting, but the report is old
	DiskLow    State = "disk_low"
	ClockJump  State = "clock_jump" // nothing is accepted until the clock is corrected, or a restart confirms it
	Poisoned   State = "poisoned"   // an fsync failed: nothing is durable until a restart
	Stopping   State = "stopping"
	Failed     State = "failed"
)

// Recovered reports whether the counts are complete: everything that was ever
// acknowledged is counted.
func (s State) Recovered() bool {
	return s != "" && s != Starting && s != Recovering && s != Failed
}

// Engine is the engine's own condition, in plain values.
type Engine struct {
	State    State     `json:"state"`
	Reason   string    `json:"reason,omitempty"` // why it is not ready, for people
	Progress float64   `json:"progress"`         // of the recovery, in [0,1]
	Started  time.Time `json:"started,omitzero"`

	Ingest     IngestStatus          `json:"ingest"`
	Log        LogStatus             `json:"log"`
	Checkpoint CheckpointStatus      `json:"checkpoint"`
	IDs        IDStatus              `json:"ids"`
	Fold       FoldStatus            `json:"fold"`
	Parked     counting.ParkedStatus `json:"parked"`
	Disk       DiskStatus            `json:"disk"`
	Spec       SpecStatus            `json:"spec"`

	Rebuild *counting.RebuildProgress `json:"rebuild,omitempty"` // nil: nothing is rebuilt

	Troubles    []TroubleStatus  `json:"troubles,omitempty"` // parts that do not work now and are tried again
	Connections ConnectionStatus `json:"connections"`

	// The parts of the reliability layer; what is not in use is left out. Fractional
	// numbers must be finite.
	Limits    []LimitStatus    `json:"limits,omitempty"`
	Offenders []OffenderStatus `json:"offenders,omitempty"` // the worst, most hits first
	Redis     *RedisStatus     `json:"redis,omitempty"`
	Breakers  []BreakerStatus  `json:"breakers,omitempty"`
	Bulkheads []BulkheadStatus `json:"bulkheads,omitempty"`
	Sinks     []SinkStatus     `json:"sinks,omitempty"`
	Sources   []SourceStatus   `json:"sources,omitempty"`

	Alertmanagers    []AlertmanagerStatus `json:"alertmanagers,omitempty"`     // that this engine sends its alerts to
	Receivers        []AlertmanagerStatus `json:"receivers,omitempty"`         // that this engine notifies itself
	NotificationsOff bool                 `json:"notifications_off,omitempty"` // notifications.send is false
	DeadLetters      *DeadLetterStatus    `json:"dead_letters,omitempty"`

	Tokens  []TokenStatus  `json:"tokens,omitempty"`  // every key of every token
	Budgets []BudgetStatus `json:"budgets,omitempty"` // services that have exceeded one since the start

	// Fleet are the engines that a view adds up; nil for an engine.
	Fleet []FleetEngine `json:"fleet,omitempty"`

	Reports        []ReportStatus `json:"reports,omitempty"`         // that come by themselves
	ReportsUnsaved bool           `json:"reports_unsaved,omitempty"` // it could not be saved which were sent
}

// TokenStatus is one key of a token. Counts are since the start.
type TokenStatus struct {
	Token    string    `json:"token"`
	Key      string    `json:"key"` // first digits of its SHA-256
	Expires  time.Time `json:"expires,omitzero"`
	LastUsed time.Time `json:"last_used,omitzero"` // by a request, expired or not
	Requests uint64    `json:"requests"`
	Expiring bool      `json:"expiring"` // it is in use, and expires soon or has expired
}

// BudgetStatus is a service that has exceeded its budget. Counts are since the start.
type BudgetStatus = servicebudget.Status

// TroubleStatus is a part of the engine that does not work now.
type TroubleStatus struct {
	// log, log_marker, history, rebuild, fold, checkpoint, dead_letters, deduplication, notifications, audit or
	// subscriptions
	Part   string    `json:"part"`
	Reason string    `json:"reason"` // for people
	Since  time.Time `json:"since"`
}

// IngestStatus counts events since the process started.
type IngestStatus struct {
	Received   uint64 `json:"received"`
	Accepted   uint64 `json:"accepted"`
	Duplicates uint64 `json:"duplicates"`
	Rejected   uint64 `json:"rejected"`
	Late       uint64 `json:"late"`    // accepted after their minute had ended
	Refused    uint64 `json:"refused"` // accepted, but the fold could not count them: dead letters

	// What rate limits did to valid events; all zero where there are none.
	Limited      uint64 `json:"limited"`       // not taken: dropped, or the sender was asked to send them again
	Sampled      uint64 `json:"sampled"`       // not kept: others stand for them, with their weight
	DeadLettered uint64 `json:"dead_lettered"` // over a limit, but too important to lose: dead letters

	Queue int `json:"queue"` // requests waiting for the disk
}

// LogStatus is the write-ahead log.
type LogStatus struct {
	Bytes    int64  `json:"bytes"`
	Segments int    `json:"segments"`
	Seq      uint64 `json:"seq"` // last durable record

	HistoryBytes int64     `json:"history_bytes,omitempty"` // size of what is retained behind the log
	HistoryFrom  time.Time `json:"history_from,omitzero"`   // when its oldest record was received
	HistoryLimit int64     `json:"history_limit_bytes"`     // that it may take, as far as the disk has them

	// How far back it can reach at the rate so far, 0 if that is not known, and how long until its oldest records are
	// deleted.
	HistoryReach float64 `json:"history_reach_seconds"`
	HistoryLeft  float64 `json:"history_left_seconds"`
	HistoryShort string  `json:"history_short,omitempty"` // why it does not reach back as far as an SLO needs

	HistoryEvents  uint64  `json:"history_events,omitempty"`
	RebuildSeconds float64 `json:"rebuild_seconds,omitempty"` // of the SLOs of one service from the history, estimated
}

// CheckpointStatus is the latest checkpoint; Time is zero if there is none.
type CheckpointStatus struct {
	Time  time.Time `json:"time,omitzero"`
	Bytes int64     `json:"bytes"`
}

// IDStatus is the deduplication table.
type IDStatus struct {
	Known         uint64  `json:"known"`
	Bytes         int64   `json:"bytes"`
	WindowSeconds float64 `json:"horizon_seconds"` // the dedup window at the current event rate; 0 = unknown
}

// FoldStatus says how far counting is behind the log.
type FoldStatus struct {
	Lag       uint64    `json:"lag"`                // durable records not yet counted
	Watermark time.Time `json:"watermark,omitzero"` // receive time of the last counted record
	Groups    int       `json:"groups"`
	Bytes     int64     `json:"bytes"`

	// Full are the SLOs that gave some value no group, as all max_groups were taken, and
	// that have none free now.
	Full []counting.FullStatus `json:"full,omitempty"`

	// Crowded are the SLOs of completion that did not track some work, as max_in_flight was reached, and
	// that have no room now.
	Crowded []counting.CrowdedStatus `json:"crowded,omitempty"`
}

// DiskStatus is the file system of the data directory.
type DiskStatus struct {
	Dir       string `json:"dir"`
	FreeBytes uint64 `json:"free_bytes"`
	LowBytes  uint64 `json:"low_bytes"` // below this, no more events are taken

	TotalBytes uint64 `json:"total_bytes,omitempty"` // of the file system; 0 = unknown
}

// SpecStatus is the loaded spec and the outcome of the last reload.
type SpecStatus struct {
	Loaded   time.Time      `json:"loaded,omitzero"`
	Hash     string         `json:"hash"`
	SLOs     int            `json:"slos"`
	Failed   time.Time      `json:"failed,omitzero"` // time of the last reload if it failed; zero if it did not
	Problems []spec.Problem `json:"problems,omitempty"`
	// what the last change did to counts; nil if there was none since the start
	Change *counting.SpecChange `json:"change,omitempty"`
}

// Digest changes whenever the status does, but for the number of connections and of uses of
// tokens: who asks changes them.
func (e Engine) Digest() uint64 {
	e.Connections.Open = 0
	e.Tokens = slices.Clone(e.Tokens)
	for i := range e.Tokens {
		e.Tokens[i].LastUsed, e.Tokens[i].Requests = time.Time{}, 0
	}
	h := fnv.New64a()
	_ = json.NewEncoder(h).Encode(e) // a hash takes every write, and the struct has only plain values
	return h.Sum64()
}

// StateText explains a state of the engine to people.
func StateText(s State) string {
	switch s {
	case Starting:
		return "The engine is starting."
	case Recovering:
		return "The engine is replaying its log after a restart. It does not accept events yet, and the numbers are " +
			"incomplete."
	case Ready:
		return "Events are accepted and counted."
	case Stale:
		return "Events are accepted, but the numbers shown are old."
	case DiskLow:
		return "The disk is nearly full: new events are refused until space is freed. Acknowledged events are safe."
	case ClockJump:
		return "The clock jumped ahead: new events are refused until it is corrected, or a restart confirms it. " +
			"Acknowledged events are safe."
	case Poisoned:
		return "The disk failed to make data durable. New events are refused until the engine is restarted on a working disk."
	case Stopping:
		return "The engine is stopping: it finishes accepted events and refuses new ones."
	case Failed:
		return "The engine has failed."
	}
	return "The engine's state is unknown."
}
