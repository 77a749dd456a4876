// Package status is the engine's own condition in plain values, as the API returns it and the page shows it: state,
// ingest, log, spec, rate limits, sinks and dead letters. Package app fills them in. Parts that describe themselves in
// such values, such as notify.Status, are aliases here. The package knows nothing of how the engine works.
package status
