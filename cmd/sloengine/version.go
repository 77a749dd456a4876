package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/web/site"
	"github.com/spf13/cobra"
)

// Set by the linker where a build does not see the repository, as in a container. Elsewhere the go command records
// them.
var version, commit, date string

const platform = runtime.GOOS + "/" + runtime.GOARCH

func newVersion(s cli.Streams) *cobra.Command {
	p := &cli.Printer{Streams: s}
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit and its date, the Go version and the platform",
		Args:  cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := build()
			v := map[string]string{"version": b.Version, "commit": b.Revision, "date": b.Date, "go": b.Go,
				"platform": platform}
			return p.PrintText(v, s.Out, "sloengine %s", versionText(&b))
		},
	}
	p.AddOutput(c.Flags(), "table", "json")
	return c
}

func versionText(b *site.Version) string {
	return fmt.Sprintf("%s (%s)", b.Version, strings.Join([]string{cmp.Or(b.Revision, "unknown commit"),
		cmp.Or(b.Date, "unknown date"), b.Go, platform}, ", "))
}

// build says what this binary was built from.
func build() site.Version {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return versionOf(info, site.Version{Version: version, Revision: commit, Date: date})
}

// versionOf is what the linker set, and for the rest what the go command recorded: the version of the module by `go
// install` or from the tags, and the commit with its date. A build without either is "devel".
func versionOf(info *debug.BuildInfo, linked site.Version) site.Version {
	v, modified := linked, false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = cmp.Or(v.Revision, s.Value[:min(12, len(s.Value))])
		case "vcs.time":
			v.Date = cmp.Or(v.Date, s.Value)
		case "vcs.modified":
			modified = s.Value == "true"
		}
	}
	if modified && linked.Revision == "" && v.Revision != "" {
		v.Revision += "-dirty"
	}
	main := info.Main.Version
	if main == "(devel)" {
		main = ""
	}
	v.Version = strings.TrimPrefix(cmp.Or(v.Version, main, "devel"), "v")
	v.Go = runtime.Version()
	return v
}
