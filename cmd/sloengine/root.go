package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// Exit codes, the same for every command.
const (
	exitOK       = 0
	exitFailure  = 1
	exitUsage    = 2
	exitFindings = 3
)

// streams are where a command reads and writes: data goes to out, everything else to err.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// usageError is a wrong flag or argument. Its text says what the command accepts.
type usageError struct{ error }

// errFindings is the result of a command that succeeded and found problems, which it has already printed.
var errFindings = errors.New("findings")

// run is the whole program: main without the process around it.
func run(ctx context.Context, args []string, in io.Reader, out, stderr io.Writer) int {
	root := newRoot(streams{in: in, out: out, err: stderr})
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errFindings):
		return exitFindings
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "sloengine: %v\n", err)
		return exitUsage
	default:
		fmt.Fprintf(stderr, "sloengine: %v\n", err)
		return exitFailure
	}
}

func newRoot(s streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "sloengine",
		Short: "Calculate SLOs and SLAs from events",
		Long: `sloengine receives events over HTTP, counts each exactly once by its id (within the
dedup window) and in the minute it happened, and calculates indicators, error budgets,
burn rates, SLA scores, metrics and a status page.

  sloengine demo                              try it with generated traffic
  sloengine init > spec.yaml                  write a starter spec
  sloengine check -f spec.yaml                check the spec
  sloengine serve -f spec.yaml --data-dir data
  sloengine send --service shop access.log    send events from a log file

Exit codes: 0 success, 1 failure, 2 wrong usage, 3 findings.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see '%s --help'", err, c.CommandPath())}
	})
	root.AddCommand(
		newServe(s), newView(s), newDemo(s), newSend(s), newCheck(s), newStatus(s), newInit(s), newVersion(s),
		newDLQ(s), newLimits(s), newReport(s), newGenerate(s), newConvert(s), newDiff(s), newExplain(s), newForget(s),
		newBackup(s), newRestore(s), newNotify(s), newSilence(s), newIncident(s), newPositions(s), newRabbitMQ(s), newKafka(s),
	)
	return root
}

// oneArg refuses anything but one argument that is not empty.
func oneArg(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return usageError{fmt.Errorf("'%s' takes exactly one %s; see '%s --help'", c.CommandPath(), what, c.CommandPath())}
		}
		return nil
	}
}

// noArgs refuses positional arguments with the usage exit code.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		hint := ""
		if !c.HasParent() {
			if near := c.SuggestionsFor(args[0]); len(near) > 0 {
				hint = fmt.Sprintf(", did you mean %q?", near[0])
			}
		}
		return usageError{fmt.Errorf("unknown argument %q for '%s'%s; see '%s --help'", args[0], c.CommandPath(), hint, c.CommandPath())}
	}
	return nil
}
