package otlp

import (
	"bytes"

	"github.com/sloengine/sloengine/ingest/event"
)

// The statuses of spans.
const (
	statusOK    = 1
	statusError = 2
)

// grpcCodes are the codes of gRPC by number (grpc.github.io/grpc/core/md_doc_statuscodes.html).
var grpcCodes = bytes.Fields([]byte("OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND " +
	"ALREADY_EXISTS PERMISSION_DENIED RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED " +
	"INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED"))

// serverFaults are the codes that make the span of a server an error (semantic conventions of gRPC).
var serverFaults = map[string]bool{"UNKNOWN": true, "DEADLINE_EXCEEDED": true, "UNIMPLEMENTED": true, "INTERNAL": true,
	"UNAVAILABLE": true, "DATA_LOSS": true}

// outcome is that of a span: its status, or where that is unset the status of HTTP or gRPC.
func outcome(status uint8, http int64, rpc []byte) event.Outcome {
	switch {
	case status == statusError, status != statusOK && (http >= 500 || len(rpc) > 0 && serverFaults[string(rpc)]):
		return event.Failure
	}
	return event.Success
}
