// Command sloengine computes SLOs and SLAs from events, and serves them.
//
// It only reads flags and files, wires the rooms together and owns every
// goroutine; what is counted, judged or shown is decided in the rooms.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
