// Package incident is the book of incidents: which incidents there are, what opened them, who acknowledged them and
// what was written about them. A Situation says what fails now, which failure explains which, and says it in a
// sentence.
//
// The Book is a state machine without I/O and without a clock. It takes batches of operations, each with a time, and
// publishes immutable views. The same batches always give the same book, so it is stored as records of the log and as
// parts of the checkpoint. Reconcile derives operations from the alerts that fire.
//
// It knows nothing of how alerts are evaluated, where operations are stored, who may make them, or how an incident is
// shown.
package incident
