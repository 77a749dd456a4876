// Command sloengine computes SLOs and SLAs from events, and serves them.
//
// This package holds the commands: one file each, with its flags and its output. Package app
// runs the engine and package config reads its settings.
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
