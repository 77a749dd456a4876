// Package backtest replays the retained log of an engine through the real fold, evaluator and alert states with
// simulated time, for the spec in force and for a candidate, and rates their alerts against the incidents of that time.
// A [Runner] does so within a running engine, for one caller at a time and with a part of a core.
//
// It decides nothing itself: what is counted, what a budget is and when an alert fires is asked of the packages that
// decide it in a running engine. It takes no lock, writes nothing, and knows neither pages nor commands.
package backtest
