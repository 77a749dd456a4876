// Package deadline passes one point in time along a chain of calls, so that every step gets the
// remaining time, never a timeout of its own that outlives the caller's patience, and work without
// a waiting caller is not begun.
//
// Inside the process the deadline is that of the context; between processes it is the
// absolute time in a header. An absolute time needs clocks that agree: the reserve
// that each step keeps back is also the margin for their difference.
//
// It does not know who calls whom.
package deadline
