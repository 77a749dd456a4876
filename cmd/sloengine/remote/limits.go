package remote

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/app/admission"
	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/ratelimit"
)

// newLimits is the command limits: which rate limits apply, and how much of them is used.
func newLimits(s cli.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "limits",
		Short: "Show the usage of a rate limit, and explain which rate limits apply to an event",
		Args:  cli.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	o := &engineCommand{Printer: cli.Printer{Streams: s}}
	o.AddOutput(c.PersistentFlags(), "table", "json", "yaml")
	c.AddCommand(newLimitsShow(o), newLimitsExplain(o))
	return c
}

func newLimitsShow(o *engineCommand) *cobra.Command {
	c := &cobra.Command{
		Use:   "show CONTEXT[=VALUE]",
		Short: "Show a context of a running engine: its rate limit, who exceeds it, and the remaining quota of a value",
		Long: `CONTEXT is the name of a rule in limits.contexts. With =VALUE, show also prints the
counter of that value, for example of one user. The command does not consume any of
the quota. If the engine requires tokens, it needs the permission read.`,
		Example: `  sloengine limits show user
  sloengine limits show user=42 -o json`,
		Args: cli.OneArg("CONTEXT or CONTEXT=VALUE"),
		RunE: func(c *cobra.Command, args []string) error {
			name, value, valued := strings.Cut(args[0], "=")
			params := url.Values{}
			if valued {
				params.Set("value", value)
			}
			var got admission.ContextStatus
			if err := o.engine.Read(c.Context(), admission.RateLimitPath+url.PathEscape(name), params, &got); err != nil {
				return err
			}
			return o.Print(got, func() error { return contextTable(o.Out, &got) })
		},
	}
	o.engine.AddFlags(c.Flags())
	return c
}

func contextTable(out io.Writer, s *admission.ContextStatus) error {
	w := cli.NewTable(out)
	fmt.Fprintf(w, "context\t%s\n", cli.Printable(s.Context))
	fmt.Fprintf(w, "limit\t%g events/s for each value, the busiest value is at %.4g\n", s.PerSecond, s.Current)
	fmt.Fprintf(w, "exceeded\t%d events since the start\n", s.Hits)
	if c := s.Counter; c != nil {
		fmt.Fprintf(w, "value\t%s\n", cli.Printable(c.Value))
		fmt.Fprintf(w, "remaining\t%d of %d events in %s\n", c.Remaining, c.Limit, cli.Seconds(c.WindowSeconds))
		fmt.Fprintf(w, "reset\tin %s\n", cli.Seconds(c.ResetSeconds))
	}
	for i, x := range s.Offenders {
		if i == 0 {
			fmt.Fprintln(w, "\nOFFENDER\tEVENTS OVER THE LIMIT")
		}
		fmt.Fprintf(w, "%s\t%d\n", cli.Printable(x.Value), x.Hits)
	}
	return w.Flush()
}

// explainFlags describe the sender of the event.
type explainFlags struct {
	config, token, ip string
	headers           []string
}

func newLimitsExplain(o *engineCommand) *cobra.Command {
	var f explainFlags
	c := &cobra.Command{
		Use: "explain EVENT -c engine.yaml",
		Short: "Explain which rate limits apply to an event, where their values come from, and whether the event bypasses " +
			"them",
		Long: `EVENT is a file with one event in JSON, - for standard input, or the JSON itself.
The command reads only the settings and needs no running engine. Describe the sender
with --token, --client-ip and --header.`,
		Example: `  sloengine limits explain -c engine.yaml '{"service":"shop","type":"api.slow"}'
  sloengine limits explain -c engine.yaml event.json --token shop --header 'X-User-Id: 42'`,
		Args: cli.OneArg("EVENT"),
		RunE: func(_ *cobra.Command, args []string) error {
			if f.config == "" {
				return cli.Usagef("no settings given: set -c FILE")
			}
			caller, err := f.caller()
			if err != nil {
				return err
			}
			settings, err := config.Load(f.config)
			if err != nil {
				return err
			}
			if settings.Limits == nil {
				return fmt.Errorf("%s has no limits section, so no event is rate limited", f.config)
			}
			subject, err := readSubject(o.In, args[0])
			if err != nil {
				return err
			}
			var failed error
			limits := settings.Limits.RateConfig(settings.Auth.TokensFile != "", func(setting string, err error) {
				failed = errors.Join(failed, fmt.Errorf("%s: %w", setting, err))
			})
			e, err := ratelimit.Explain(limits, caller, subject)
			if err != nil {
				return err
			}
			if n := len(settings.Limits.Bypass); e.Exempt == "bypass rule "+strconv.Itoa(n+1) {
				e.Exempt = "bypass_if"
			}
			if failed != nil {
				fmt.Fprintf(o.Err, "sloengine: %v (the expression is ignored for this event)\n", failed)
			}
			return o.Print(e, func() error { return explainTable(o.Out, e) })
		},
	}
	fl := c.Flags()
	fl.StringVarP(&f.config, "config", "c", "", "engine settings (engine.yaml)")
	fl.StringVar(&f.token, "token", "", "name of the sender's token")
	fl.StringVar(&f.ip, "client-ip", "127.0.0.1", "IP address of the sender")
	fl.StringArrayVar(&f.headers, "header", nil, "request header, as 'NAME: VALUE' (repeatable)")
	return c
}

func (f *explainFlags) caller() (*ratelimit.Caller, error) {
	h := http.Header{}
	for _, text := range f.headers {
		name, value, ok := strings.Cut(text, ":")
		if !ok {
			return nil, cli.Usagef("invalid --header %q (want 'NAME: VALUE')", text)
		}
		h.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return &ratelimit.Caller{Authenticated: f.token != "", Token: f.token, IP: f.ip, Header: h.Get}, nil
}

// maxEventFile bounds what is read of an event, which serve refuses long before.
const maxEventFile = 16 << 20

func readSubject(in io.Reader, arg string) (*ratelimit.Subject, error) {
	data, name := []byte(arg), "EVENT"
	var err error
	switch {
	case arg == "-":
		data, err = io.ReadAll(io.LimitReader(in, maxEventFile))
	case !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")):
		name = arg
		data, err = fsys.ReadFile(arg, maxEventFile)
	}
	if err != nil {
		return nil, fmt.Errorf("read event: %w", err)
	}
	var d event.Decoder
	var b event.Batch
	// Rate limits do not depend on the time of the event.
	o := event.DecodeOptions{Now: time.Now(), Backfill: true, AssignID: func(int) string { return "assigned" }}
	if err := d.Decode(event.JSON, data, o, &b); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	switch {
	case len(b.Errors) > 0:
		return nil, fmt.Errorf("%s: %s: %s", name, b.Errors[0].Code, b.Errors[0].Detail)
	case len(b.Events) != 1:
		return nil, fmt.Errorf("%s: want exactly one event, got %d", name, len(b.Events))
	}
	v := new(event.View)
	if _, err := v.Parse(b.Event(0)); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &ratelimit.Subject{Service: v.Service, Type: v.Type, Severity: v.Severity, Attrs: v,
		Sample: b.Events[0].Key.Lo}, nil
}

func explainTable(out io.Writer, e *ratelimit.Explanation) error {
	if e.Exempt != "" {
		fmt.Fprintf(out, "not limited: %s\nrules that would apply otherwise:\n", cli.Printable(e.Exempt))
	}
	w := cli.NewTable(out)
	fmt.Fprintln(w, "RULE\tSETTING\tVALUE\tFROM")
	for _, r := range e.Rules {
		rule := r.Layer + " " + r.Rule
		switch {
		case r.Layer == r.Rule:
			rule = r.Rule
		case r.Value != "":
			rule += " = " + r.Value
		}
		for i, x := range r.Settings {
			if i > 0 {
				rule = ""
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", cli.Printable(rule), x.Name, cli.Printable(x.Value), cli.Printable(x.From))
		}
	}
	return w.Flush()
}
