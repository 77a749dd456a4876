// Package evaluator is the ticker that turns the fold's window sums into the
// Report that everything else reads. It compiles the spec into what the fold
// counts, asks for the sums of every window in one request per tick, and works
// out budgets, burn rates, coverage, composite scores and violations from them.
//
// It does not count events, does not know the log or how sums are kept, and
// neither serves nor alerts: it publishes one immutable Report per tick.
package evaluator
