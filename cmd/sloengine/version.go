package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/spf13/cobra"
)

// version is the release; commit is set by the linker.
const version = "0.1.0"

var commit = "unknown"

func newVersion(s cli.Streams) *cobra.Command {
	p := &cli.Printer{Streams: s}
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit, the Go version and the platform",
		Args:  cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := map[string]string{"version": version, "commit": revision(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
			return p.Print(v, func() error {
				_, err := fmt.Fprintf(s.Out, "sloengine %s (%s, %s, %s)\n", version, v["commit"], v["go"], v["platform"])
				return err
			})
		},
	}
	p.AddOutput(c.Flags(), "table", "json")
	return c
}

// revision is the commit of the build: the linker's, else the module's.
func revision() string {
	if commit != "unknown" {
		return commit
	}
	if bi, ok := debug.ReadBuildInfo(); ok {
		for _, kv := range bi.Settings {
			if kv.Key == "vcs.revision" {
				return kv.Value[:min(12, len(kv.Value))]
			}
		}
	}
	return commit
}
