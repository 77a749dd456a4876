// Package outlook makes the forecasts of a running engine: it reads the hourly counts of the groups, a bounded portion
// after each report, asks package forecast, and adds the answers to the next reports. It notes what it forecast,
// compares it with what came, and keeps the score in a file.
//
// It has a goroutine of its own, so that neither a report nor the counting waits for a forecast. It does not know where
// counts come from: of a view they are those of several engines.
package outlook
