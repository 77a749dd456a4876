package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is the release; commit is set by the linker.
const version = "0.1.0"

var commit = "unknown"

func newVersion(s streams) *cobra.Command {
	output := "table"
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit and what it was built with",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			v := map[string]string{"version": version, "commit": revision(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
			switch output {
			case "json":
				return json.NewEncoder(s.out).Encode(v)
			case "table":
				_, err := fmt.Fprintf(s.out, "sloengine %s (%s, %s, %s)\n", version, v["commit"], v["go"], v["platform"])
				return err
			}
			return usageError{fmt.Errorf("-o %s: want table or json", output)}
		},
	}
	c.Flags().StringVarP(&output, "output", "o", output, "table or json")
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
