// Package report says how a week or a month went: the budget of each SLO, the score of each agreement and the
// violations of each event threshold, by what the engine still keeps of the period.
//
// It scores past periods as the engine scores the present, with sla.Scorer over the counts that package sla/history
// reads. It prints nothing: the API, the CSV and the page of a report are in web.
package report
