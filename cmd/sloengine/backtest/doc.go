// Package backtest is the command backtest: it replays the retained log of an engine through the real fold, evaluator
// and alert states with simulated time, for the spec in force and for a candidate, and compares their alerts with the
// incidents of that time.
//
// It decides nothing itself: what is counted, what a budget is and when an alert fires is asked of the packages that
// decide it in a running engine. It takes no lock and writes nothing.
package backtest
