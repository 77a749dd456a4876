// Package forecast says how an error budget will probably develop: how much of it is left in an hour, a day, three days
// and a week, and when it is empty.
//
// What leaves a rolling window is known exactly, so it is subtracted hour by hour. What comes is drawn from the
// service's own past: traffic from the same hours of the week, and bad ratios from blocks of its own hours, since
// incidents are rare, clustered and heavy-tailed. An incident that runs now goes on at its present rate for as long as
// past ones did. Many such paths give ranges with a stated probability.
//
// The package is arithmetic on counts: it knows no clock, no events and no spec, and the same question always has the
// same answer. It does not know what no count shows: a release, a campaign, or an incident unlike any in the past.
package forecast
