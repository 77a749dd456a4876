// Package bulkhead keeps one target from taking up everything: so many calls at once,
// so many waiting, and no more.
//
// The permits are those of failsafe-go; own here is the bound on how many may wait,
// which that library lacks, and the counting. It does not know what is called.
package bulkhead
