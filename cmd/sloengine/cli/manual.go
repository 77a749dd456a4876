package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Commands are the command and all below it, in the order of the help.
func Commands(root *cobra.Command) []*cobra.Command {
	root.InitDefaultCompletionCmd()
	return below(root)
}

func below(c *cobra.Command) []*cobra.Command {
	c.InitDefaultHelpFlag()
	all := []*cobra.Command{c}
	for _, c := range c.Commands() {
		if c.IsAvailableCommand() {
			all = append(all, below(c)...)
		}
	}
	return all
}

// Flag is a flag as it is documented.
type Flag struct {
	Written, Kind, Usage string
	Bool                 bool
	Default              string // the value if it is not given, "" for none
}

// Flags are the flags of a command, those of all commands above it included.
func Flags(c *cobra.Command) (all []Flag) {
	see := func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		x := Flag{Written: "--" + f.Name, Kind: kind, Usage: usage, Bool: f.Value.Type() == "bool", Default: f.DefValue}
		if f.Shorthand != "" {
			x.Written = "-" + f.Shorthand + ", " + x.Written
		}
		switch f.DefValue {
		case "false", "[]", "0s":
			x.Default = ""
		}
		all = append(all, x)
	}
	c.NonInheritedFlags().VisitAll(see)
	c.InheritedFlags().VisitAll(see)
	return all
}

// LongText is the description of a command.
func LongText(c *cobra.Command) string {
	if c.Long != "" {
		return c.Long
	}
	return c.Short + "."
}

// man is the man page of a command in section 1. version and date are for its margins.
func man(c *cobra.Command, version string, date time.Time) string {
	var b strings.Builder
	page := manName(c)
	fmt.Fprintf(&b, ".TH %s 1 %s %s %s\n", quoted(strings.ToUpper(page)), quoted(date.Format(time.DateOnly)),
		quoted("sloengine "+version), quoted("sloengine"))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", escape(page), escape(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n%s\n", escape(c.UseLine()))
	fmt.Fprintf(&b, ".SH DESCRIPTION\n.nf\n%s\n.fi\n", escape(LongText(c)))
	if list := Flags(c); len(list) > 0 {
		b.WriteString(".SH OPTIONS\n")
		for _, f := range list {
			kind := f.Kind
			if f.Bool {
				kind = ""
			}
			fmt.Fprintf(&b, ".TP\n.B %s\n", escape(strings.TrimSpace(f.Written+" "+kind)))
			b.WriteString(escape(f.Usage))
			if f.Default != "" {
				b.WriteString(escape(" (default " + f.Default + ")"))
			}
			b.WriteString("\n")
		}
	}
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", escape(strings.TrimRight(c.Example, "\n")))
	}
	b.WriteString(
		".SH EXIT STATUS\n0 success, 1 failure, 2 wrong usage, 3 findings, unless the description says otherwise.\n")
	var related []string
	if c.HasParent() {
		related = append(related, manName(c.Parent()))
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			related = append(related, manName(sub))
		}
	}
	if len(related) > 0 {
		fmt.Fprintf(&b, ".SH SEE ALSO\n%s(1)\n", escape(strings.Join(related, "(1), ")))
	}
	return b.String()
}

func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// escape protects text from being taken as requests of roff.
func escape(s string) string {
	lines := strings.Split(strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s), "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}

func quoted(s string) string { return `"` + strings.ReplaceAll(escape(s), `"`, `\(dq`) + `"` }

// WriteMan writes the man page of each command to a directory, which has to exist, and returns their names.
func WriteMan(root *cobra.Command, dir, version string, date time.Time) (names []string, err error) {
	for _, c := range Commands(root) {
		name := manName(c) + ".1"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(man(c, version, date)), 0o644); err != nil {
			return names, fmt.Errorf("write man page: %w", err)
		}
		names = append(names, name)
	}
	return names, nil
}
