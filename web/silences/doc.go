// Package silences serves the silences of the engine's own receivers: their API, that of Alertmanager, the page that
// lists them, and the form that adds one. It does not know which alerts a silence matches or where silences are stored.
package silences
