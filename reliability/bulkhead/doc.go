// Package bulkhead keeps one target from taking up everything: so many calls at once,
// so many waiting, and no more.
//
// It does not know the target of the calls.
package bulkhead
