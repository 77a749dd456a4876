package main

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
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

func TestEveryCommandThatAsksAnEngineReadsTheEnvironment(t *testing.T) {
	t.Parallel()
	asking := 0
	for path, c := range commandTree(t) {
		for flag, variables := range map[string][]string{"url": {cli.EnvURL}, "token-file": {cli.EnvToken, cli.EnvTokenFile}} {
			f := c.Flags().Lookup(flag)
			if f == nil {
				f = c.InheritedFlags().Lookup(flag)
			}
			if f == nil {
				continue
			}
			asking++
			for _, variable := range variables {
				require.Contains(t, f.Usage, "$"+variable, "%s --%s", path, flag)
			}
		}
	}
	require.Greater(t, asking, 40)
}
