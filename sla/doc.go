// Package sla scores agreements: it turns the counts of an agreement's
// components into one composite score that always shows what each component
// cost, which one cost most, and what a missing one could change. It also owns
// the Report, the value that page, API, metrics and notifier read.
//
// It works on values only. It does not know where counts come from, how events
// are stored or windows summed, reads no clock and no YAML, and serves nothing.
package sla
