// Package rules writes the Prometheus recording rules of a spec, and the
// expressions by which alerts, dashboards and rule tests read what they record.
//
// Everything longer than five minutes comes from two recorded rates per SLO and
// group, of bad and of valid events, so that busy hours weigh more than quiet
// ones and no rule reads raw series over a long window:
//
//   - up to six hours, whole five-minute rates are joined end to end, so that an
//     event counts in full from the moment it is scraped;
//   - beyond, ratios come from the events of every five minutes, recorded every
//     five minutes, each event once.
//
// Alerts start by errors spread over whole windows, so the share of each window in
// which the SLO was counted is recorded too, from slo_info.
//
// Where the rates see less than the engine: the first increase of a series that
// was not there before is an increase from nothing. Groups that a spec expects
// are exported from the start, which avoids that.
//
// Planned maintenance is taken out when a window is read and not when a rate is
// recorded, so that a correction that is written afterwards is right too.
//
// The package is pure: the same spec gives the same rules. It reads no clock, so
// calendar windows and corrections become tables of literal times between two
// given ones. It does not know of alerts, files, or how counters come about.
package rules
