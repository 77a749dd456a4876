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

// flags are the flags of a command, those of all commands above it included.
func flags(c *cobra.Command) (all []*pflag.Flag) {
	see := func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" {
			all = append(all, f)
		}
	}
	c.NonInheritedFlags().VisitAll(see)
	c.InheritedFlags().VisitAll(see)
	return all
}

// flagName is how a flag is written, with the kind of its value.
func flagName(f *pflag.Flag) (flag, kind string) {
	kind, _ = pflag.UnquoteUsage(f)
	flag = "--" + f.Name
	if f.Shorthand != "" {
		flag = "-" + f.Shorthand + ", " + flag
	}
	return flag, kind
}

// flagDefault is the value of a flag that is not given, "" for none.
func flagDefault(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "false", "[]", "0s":
		return ""
	}
	return f.DefValue
}

func longText(c *cobra.Command) string {
	if c.Long != "" {
		return c.Long
	}
	return c.Short + "."
}

// Manual is the reference of all commands.
func Manual(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("| command | what it does |\n|---|---|\n")
	all := Commands(root)
	for _, c := range all {
		path := c.CommandPath()
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", path, strings.ReplaceAll(path, " ", "-"), cell(c.Short))
	}
	for _, c := range all {
		fmt.Fprintf(&b, "\n## %s\n\n```text\n%s\n\n%s\n```\n", c.CommandPath(), c.UseLine(),
			strings.TrimRight(longText(c), "\n"))
		if list := flags(c); len(list) > 0 {
			b.WriteString("\n| flag | value | default | meaning |\n|---|---|---|---|\n")
			for _, f := range list {
				flag, kind := flagName(f)
				_, usage := pflag.UnquoteUsage(f)
				value := "none"
				if v := flagDefault(f); v != "" {
					value = "`" + v + "`"
				}
				if f.Value.Type() == "bool" {
					value, kind = "off", "none"
					if f.DefValue == "true" {
						value = "on"
					}
				}
				fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", flag, cell(kind), cell(value), cell(usage))
			}
		}
		if c.Example != "" {
			fmt.Fprintf(&b, "\n```text\n%s\n```\n", strings.TrimRight(c.Example, "\n"))
		}
	}
	return b.String()
}

func cell(s string) string { return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(s) }

// man is the man page of a command in section 1. version and date are for its margins.
func man(c *cobra.Command, version string, date time.Time) string {
	var b strings.Builder
	page := manName(c)
	fmt.Fprintf(&b, ".TH %s 1 %s %s %s\n", quoted(strings.ToUpper(page)), quoted(date.Format(time.DateOnly)),
		quoted("sloengine "+version), quoted("sloengine"))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", escape(page), escape(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n%s\n", escape(c.UseLine()))
	fmt.Fprintf(&b, ".SH DESCRIPTION\n.nf\n%s\n.fi\n", escape(longText(c)))
	if list := flags(c); len(list) > 0 {
		b.WriteString(".SH OPTIONS\n")
		for _, f := range list {
			flag, kind := flagName(f)
			_, usage := pflag.UnquoteUsage(f)
			if f.Value.Type() == "bool" {
				kind = ""
			}
			fmt.Fprintf(&b, ".TP\n.B %s\n", escape(strings.TrimSpace(flag+" "+kind)))
			b.WriteString(escape(usage))
			if v := flagDefault(f); v != "" {
				b.WriteString(escape(" (default " + v + ")"))
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
