// Package cli is what the commands of sloengine share: exit codes, wrong usage, output as a table, JSON or YAML with
// hostile text made harmless, the flag that names the files of a spec, and the manual that is written from
// the commands: a page of Markdown and a man page for each.
//
// It has no command and knows no engine.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// Exit codes, the same for every command but those whose help says otherwise.
const (
	ExitOK       = 0
	ExitFailure  = 1
	ExitUsage    = 2
	ExitFindings = 3
)

// Streams are where a command reads and writes: data goes to out, everything else to err.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// UsageError is a wrong flag or argument. Its text says what the command accepts.
type UsageError struct{ Err error }

func (e UsageError) Error() string { return e.Err.Error() }
func (e UsageError) Unwrap() error { return e.Err }

// Usagef makes a UsageError.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// ErrFindings is the result of a command that succeeded and found problems, which it has already printed.
var ErrFindings = errors.New("findings")

// Exit ends a command with an exit code of its own. Err is nil if everything has been printed already.
type Exit struct {
	Code int
	Err  error
}

func (e Exit) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e Exit) Unwrap() error { return e.Err }

// Execute runs the command that the arguments name, prints its error, and returns the exit code.
func Execute(ctx context.Context, root *cobra.Command, s Streams, args []string) int {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return Usagef("%w; see '%s --help'", err, c.CommandPath())
	})
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var usage UsageError
	var exit Exit
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &exit):
		if exit.Err != nil {
			fmt.Fprintf(s.Err, "sloengine: %v\n", err)
		}
		return exit.Code
	case errors.Is(err, ErrFindings):
		return ExitFindings
	case errors.As(err, &usage):
		fmt.Fprintf(s.Err, "sloengine: %v\n", err)
		return ExitUsage
	default:
		fmt.Fprintf(s.Err, "sloengine: %v\n", err)
		return ExitFailure
	}
}

// OneArg refuses anything but one argument that is not empty.
func OneArg(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return Usagef("'%s' takes exactly one %s; see '%s --help'", c.CommandPath(), what, c.CommandPath())
		}
		return nil
	}
}

// NoArgs refuses positional arguments with the usage exit code.
func NoArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		hint := ""
		if !c.HasParent() {
			if near := c.SuggestionsFor(args[0]); len(near) > 0 {
				hint = fmt.Sprintf(", did you mean %q?", near[0])
			}
		}
		return Usagef("unknown argument %q for '%s'%s; see '%s --help'", args[0], c.CommandPath(), hint, c.CommandPath())
	}
	return nil
}
