// Package deadletters serves the dead letters: their API, and the pages that list, show, replay and discard them. A
// page changes nothing before its reader has seen the outcome of a dry run. The package knows the store by its
// interface in package site.
package deadletters
