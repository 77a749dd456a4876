//go:build crashpoints

package main

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/sloengine/sloengine/ingest/engine"
)

// crashPoint kills the process at the place that SLOENGINE_CRASH names: with
// SLOENGINE_CRASH=append.after:3 it dies when it passes there for the third time.
// Only the crash tests build with the tag.
var crashPoint = crashFromEnv(os.Getenv("SLOENGINE_CRASH"))

func crashFromEnv(want string) func(engine.CrashPoint) {
	if want == "" {
		return nil
	}
	name, count, _ := strings.Cut(want, ":")
	var at int64
	if _, err := fmt.Sscanf(count, "%d", &at); err != nil {
		panic(fmt.Sprintf("invalid SLOENGINE_CRASH=%s: want NAME:COUNT", want))
	}
	var passed atomic.Int64
	return func(p engine.CrashPoint) {
		if string(p) == name && passed.Add(1) == at {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal is on its way: nothing more may happen
		}
	}
}
