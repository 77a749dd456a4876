// Package silences serves the silences of the engine's own receivers: their API, the page that lists them, and the form that
// adds one. It does not know how matchers are read or where silences are stored.
package silences
