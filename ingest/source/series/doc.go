// Package series reads counters from a Prometheus, or from what has its API, and makes events of what they added: as
// many good and bad ones for each SLO, group and ten seconds. It asks for the samples as they were scraped (a range
// vector), since rate() and increase() extrapolate.
//
// The last sample of each series is in the log with the events (package counter), so that nothing is counted twice or
// left out, whatever is killed, and what was scraped while the engine was down is read afterwards.
package series
