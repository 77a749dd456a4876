package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
)

// commandTree is every command that does something itself, by its path without the program.
func commandTree(t *testing.T) map[string]*cobra.Command {
	t.Helper()
	all := map[string]*cobra.Command{}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		if !c.HasSubCommands() {
			all[strings.TrimPrefix(c.CommandPath(), "sloengine ")] = c
		}
	}
	walk(newRoot(cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}))
	require.Greater(t, len(all), 40)
	return all
}

// flagOf is a flag of the command, or one that it has from the command above it.
func flagOf(c *cobra.Command, name string) *pflag.Flag {
	if f := c.Flags().Lookup(name); f != nil {
		return f
	}
	return c.InheritedFlags().Lookup(name)
}

func TestEveryCommandThatAsksAnEngineReadsTheEnvironment(t *testing.T) {
	t.Parallel()
	commands := 0
	for path, c := range commandTree(t) {
		for flag, variables := range map[string][]string{
			"url": {cli.EnvURL}, "token-file": {cli.EnvToken, cli.EnvTokenFile}} {
			f := flagOf(c, flag)
			if f == nil || path == "import prometheus" { // it asks a Prometheus
				continue
			}
			commands++
			for _, variable := range variables {
				require.Contains(t, f.Usage, "$"+variable, "%s --%s", path, flag)
			}
		}
	}
	require.Greater(t, commands, 40)
}

// printsNothing are the commands without -o json, with the reason.
var printsNothing = map[string]string{
	"serve":                   "runs until it is stopped, and logs",
	"view":                    "runs until it is stopped, and logs",
	"relay":                   "runs until it is stopped, and logs",
	"demo":                    "runs until it is stopped, and logs",
	"init":                    "writes a spec",
	"convert":                 "writes a spec",
	"man":                     "writes manual pages",
	"schema spec":             "writes a JSON Schema",
	"schema engine":           "writes a JSON Schema",
	"schema relay":            "writes a JSON Schema",
	"schema receivers":        "writes a JSON Schema",
	"positions export":        "writes a JSON document",
	"export":                  "writes JSON lines or Parquet files",
	"generate rules":          "writes files in the formats of other programs",
	"generate tests":          "writes files in the formats of other programs",
	"generate prometheus":     "writes files in the formats of other programs",
	"generate alertmanager":   "writes files in the formats of other programs",
	"generate dashboards":     "writes files in the formats of other programs",
	"generate relabel":        "writes files in the formats of other programs",
	"generate grafana-alerts": "writes files in the formats of other programs",
	"generate k8s":            "writes files in the formats of other programs",
	"generate all":            "writes files in the formats of other programs",
}

func TestEveryCommandThatPrintsHasJSON(t *testing.T) {
	t.Parallel()
	all := commandTree(t)
	for path, c := range all {
		f := flagOf(c, "output")
		reason := printsNothing[path]
		switch {
		case f == nil:
			if reason == "" {
				t.Errorf("%s has no -o json and no reason for that", path)
			}
		case reason != "":
			t.Errorf("%s has -o and is listed as a command without it", path)
		default:
			require.Equal(t, "o", f.Shorthand, path)
			require.Contains(t, f.Usage, "json", path)
		}
	}
	for path := range printsNothing {
		require.Contains(t, all, path, "there is no such command")
	}
}

// Help lists each command in a group, but for those about the program itself.
func TestEveryCommandHasAGroup(t *testing.T) {
	var out bytes.Buffer
	root := newRoot(cli.Streams{Out: &out, Err: &out})
	for _, c := range root.Commands() {
		if name := c.Name(); name != "man" && name != "version" {
			require.NotEmpty(t, c.GroupID, name)
		}
	}
	require.Equal(t, cli.ExitOK, run(t.Context(), []string{"--version"}, nil, &out, &out))
	require.Regexp(t, `^sloengine \S+ \(`, out.String())
}
