// Package respond sends answers: entity tags, gzip, JSON, problem documents after RFC 9457, and a bound on the memory
// of all answers that are made, sent or kept for the next reader.
//
// It does not know what an answer says, nor who may read it.
package respond
