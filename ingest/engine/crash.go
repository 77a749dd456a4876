package engine

import (
	"github.com/sloengine/sloengine/ingest/checkpoint"
	"github.com/sloengine/sloengine/reliability/retained"
)

// CrashPoint names a place at which a test kills the process. They lie before and after each step that makes data
// durable or deletes it.
type CrashPoint string

// The places, in the order in which a record meets them.
const (
	CrashBeforeAppend       CrashPoint = "append.before" // ids looked up, nothing written
	CrashAfterAppend        CrashPoint = "append.after"  // durable, not acknowledged
	CrashAfterAck           CrashPoint = "ack.after"
	CrashBeforeApply        CrashPoint = "apply.before" // durable, not yet folded
	CrashBeforeCheckpoint   CrashPoint = "checkpoint.before"
	CrashAfterDeadLetters   CrashPoint = "checkpoint.deadletters"
	CrashAfterPack          CrashPoint = checkpoint.StepPack
	CrashAfterIDs           CrashPoint = checkpoint.StepIDs
	CrashAfterManifest      CrashPoint = checkpoint.StepManifest
	CrashBeforeTruncate     CrashPoint = "truncate.before"
	CrashAfterTruncate      CrashPoint = "truncate.after"
	CrashAfterMove          CrashPoint = retained.StepMoved   // a segment is retained and still in the log
	CrashAfterDelete        CrashPoint = retained.StepDeleted // the oldest retained segment is gone
	CrashErasing            CrashPoint = retained.StepErasing // an erasure is asked for
	CrashErasureNoted       CrashPoint = retained.StepNoted   // what it changes in a file is noted, the file is old
	CrashErased             CrashPoint = retained.StepErased  // the file is new
	CrashBeforeStop         CrashPoint = "stop.before"        // drained, stop record not written
	CrashAfterStop          CrashPoint = "stop.after"         // stop record written, no checkpoint yet
	CrashBeforeStartRecords CrashPoint = "start.before"
)
