package remote

import (
	"bytes"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
)

// Who acts is asked for by the name of the flag, before anything is sent.
func TestMissingActorNamesTheFlag(t *testing.T) {
	t.Setenv("USER", "")
	t.Setenv(cli.EnvToken, "")
	t.Setenv(cli.EnvTokenFile, "")
	for want, args := range map[string][]string{
		"missing --author NAME": {"silence", "add", `service="shop"`, "--comment", "known"},
		"missing --by NAME":     {"incident", "ack", "INC-2026-11-0007"},
	} {
		var out, errs bytes.Buffer
		root := &cobra.Command{Use: "sloengine"}
		s := cli.Streams{Out: &out, Err: &errs}
		root.AddCommand(Commands(s)...)
		require.Equal(
			t, cli.ExitUsage, cli.Execute(t.Context(), root, s, append(args, "--url", "http://127.0.0.1:1")), errs.String())
		require.Contains(t, errs.String(), want)
	}
}
