package main

import (
	"fmt"
	"github.com/sloengine/sloengine/ingest/engine"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
)

// crashFromEnv kills the process at a named place, as the crash tests ask for:
// SLOENGINE_CRASH=append.after:3 dies at the third passing.
func crashFromEnv() (func(engine.CrashPoint), error) {
	want := os.Getenv("SLOENGINE_CRASH")
	if want == "" {
		return nil, nil
	}
	name, count, _ := strings.Cut(want, ":")
	left := 1
	if count != "" {
		if _, err := fmt.Sscanf(count, "%d", &left); err != nil {
			return nil, usageError{fmt.Errorf("SLOENGINE_CRASH=%s: want NAME or NAME:COUNT", want)}
		}
	}
	var passed atomic.Int64
	return func(p engine.CrashPoint) {
		if string(p) == name && passed.Add(1) == int64(left) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal is on its way: nothing more may happen
		}
	}, nil
}
