// Package backtest is the command backtest: it reads what to try on which past, and prints what alerts/backtest found.
package backtest
