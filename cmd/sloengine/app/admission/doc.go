// Package admission is what an engine does with events in front of its log, by the settings in force: rate limits and
// the redaction of personal data. A reload changes both.
package admission
