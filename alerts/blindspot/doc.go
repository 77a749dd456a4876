// Package blindspot tells which outages the paging burn-rate alerts of an SLO do not see: how long an outage must last,
// and how large the share of bad events of an hour must be, for the alerts to page, in each hour of the week.
//
// It plays outages through the condition of the live alerts, with the events that are expected. It does not know where
// these numbers come from, nor of alerts other than burn rates.
package blindspot
