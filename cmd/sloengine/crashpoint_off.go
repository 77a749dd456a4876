//go:build !crashpoints

package main

import "github.com/sloengine/sloengine/ingest/engine"

// crashPoint is nil: a released binary cannot be told to kill itself.
var crashPoint func(engine.CrashPoint)
