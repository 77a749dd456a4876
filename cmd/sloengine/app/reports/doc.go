// Package reports has reports made by the pages, and sent when they are due or by hand.
package reports
