package event

import "fmt"

// Code names the problem of an event or a body. Codes are part of the API: they are added, never
// changed.
type Code string

// The codes of single events.
const (
	CodeInvalidJSON       Code = "invalid_json"        // not RFC 8259 JSON (NaN, trailing comma, control character, ...)
	CodeInvalidUTF8       Code = "invalid_utf8"        // broken UTF-8, or half of a surrogate pair
	CodeDuplicateKey      Code = "duplicate_key"       // a key or attribute given twice
	CodeTooDeep           Code = "too_deep"            // nested beyond SizeLimits.MaxDepth
	CodeEventTooLarge     Code = "event_too_large"     // longer than SizeLimits.MaxEventBytes
	CodeNotAnObject       Code = "not_an_object"       // an event must be a JSON object
	CodeMissingField      Code = "missing_field"       // service or type, or an attribute that CloudEvents requires
	CodeUnknownField      Code = "unknown_field"       // no such field; attributes go under "attributes"
	CodeWrongType         Code = "wrong_type"          // say, a number where a string is due
	CodeBadID             Code = "bad_id"              // not 1 to 256 bytes without control characters
	CodeBadService        Code = "bad_service"         // not a name
	CodeBadType           Code = "bad_type"            // not a name
	CodeBadOutcome        Code = "bad_outcome"         // neither success nor failure
	CodeBadSeverity       Code = "bad_severity"        // not a short name
	CodeBadTime           Code = "bad_time"            // neither RFC 3339 nor Unix time
	CodeTimeInFuture      Code = "time_in_future"      // more than SizeLimits.MaxFuture ahead of the clock
	CodeTimeTooOld        Code = "time_too_old"        // beyond SizeLimits.AllowedLateness or MaxBackfill
	CodeBadDuration       Code = "bad_duration"        // negative, too long, or given twice over
	CodeBadCount          Code = "bad_count"           // not an integer from 1 to 4294967295
	CodeBadDurations      Code = "bad_durations"       // not pairs of milliseconds and count that add up
	CodeBadMetric         Code = "bad_metric"          // of OpenTelemetry: not a counter, or one that contradicts itself
	CodeBadAttribute      Code = "bad_attribute"       // bad name, nested or too long value
	CodeTooManyAttributes Code = "too_many_attributes" // more than SizeLimits.MaxAttributes
	CodeReservedLabel     Code = "reserved_label"      // an attribute name that the engine needs for itself
	CodeUnknownService    Code = "unknown_service"     // not in the spec
	CodeUnknownType       Code = "unknown_type"        // not in the spec's service
	CodeServiceNotAllowed Code = "service_not_allowed" // the token may not send for the service
	CodeBadCloudEvent     Code = "bad_cloudevent"      // wrong specversion or content type, or no usable data
)

// The codes of whole bodies; an unparsable body has CodeInvalidJSON, CodeInvalidUTF8
// or CodeTooDeep.
const (
	CodeEmptyBody       Code = "empty_body"       // nothing in it
	CodeBatchTooLarge   Code = "batch_too_large"  // more than SizeLimits.MaxBatchEvents
	CodeInvalidProtobuf Code = "invalid_protobuf" // of a request of OTLP
)

// BodyError means that a body cannot be read as a whole; no event of it is taken.
type BodyError struct {
	Code   Code
	Reason string
	Offset int // bytes before the mistake
	Line   int // from 1; 0 of a body that has no lines
	Column int // in bytes, from 1
}

func (e *BodyError) Error() string {
	if e.Line == 0 { // the reason has the place
		return e.Reason
	}
	return fmt.Sprintf("line %d, column %d (byte %d): %s", e.Line, e.Column, e.Offset, e.Reason)
}
