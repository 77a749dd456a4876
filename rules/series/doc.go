// Package series owns the name, help text, type and labels of every indicator
// series that the engine exports, so that the exposition, the generated rules
// and the dashboards cannot drift apart.
//
// It knows nothing of how the values come about or how they are exposed, nor of
// the engine's own sloengine_{ingest,wal,...} metrics, and imports no other room.
package series
