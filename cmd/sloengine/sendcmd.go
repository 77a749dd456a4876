package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/cmd/sloengine/send"
	"github.com/sloengine/sloengine/ingest/mapping"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

func newSend(s cli.Streams) *cobra.Command {
	o := send.Options{Stdin: s.In, Stdout: s.Out, Stderr: s.Err}
	var engine cli.Engine
	retryFor, mapped := "0", ""
	c := &cobra.Command{
		Use:   "send [FILE ...]",
		Short: "Send events from NDJSON, JSON or access logs; sending a file again adds no duplicates",
		Long: `send reads files (plain, gzip or zstd) or standard input, converts the lines to events
and posts them in batches. It retries while the engine is unavailable or busy.

Lines of access logs have no ids, so send derives an id from the content of each line and
its position among identical lines. Sending the same log again within the dedup window
counts nothing twice.`,
		Example: `  sloengine send events.ndjson
  sloengine send --format combined --service shop --backfill --shift access.log
  sloengine send --service shop --type request --map '{time: .ts, duration_ms: .took, outcome: .result}' app.log
  tail -F app.ndjson | sloengine send`,
		RunE: func(c *cobra.Command, files []string) error {
			d, err := slo.ParseDuration(retryFor)
			if err != nil {
				return cli.Usagef("invalid --retry-for: %w", err)
			}
			if o.Server, err = engine.URL(); err != nil {
				return err
			}
			secret, err := engine.Secret()
			if err != nil {
				return err
			}
			o.Token, o.TokenFile = secret.Token, secret.File
			o.Files, o.RetryFor = files, d
			if mapped != "" {
				if o.Map, err = readMap(mapped, o.Service, o.Type); err != nil {
					return err
				}
			}
			o.Logger = slog.New(slog.NewTextHandler(s.Err, nil))
			err = send.Run(c.Context(), o)
			var usage *send.UsageError
			var rejected *send.RejectedError
			switch {
			case errors.As(err, &usage):
				return cli.UsageError{Err: err}
			case errors.As(err, &rejected):
				fmt.Fprintf(s.Err, "sloengine: %v\n", err)
				return cli.ErrFindings
			}
			if unsent, ok := errors.AsType[*send.UnsentError](err); ok && unsent.Denied() {
				err = fmt.Errorf("%w; %s", err, engine.Denied())
			}
			return err
		},
	}
	f := c.Flags()
	engine.AddFlags(f)
	f.StringVar(&o.Format, "format", "auto", "input format: auto, "+send.FormatNames())
	f.StringVar(&mapped, "map", "", "how JSON objects of another form become events: a file with the keys of map in\n"+
		"engine.yaml, or these keys in braces")
	f.StringVar(&o.Service, "service", "", "service of events without one; required for access logs")
	f.StringVar(&o.Type, "type", "", "type of events without one (default for access logs: \"request\")")
	f.StringVar(&o.Source, "source", "",
		"name of the log source, part of derived ids; distinguishes machines that write identical lines")
	f.IntVar(&o.FailFrom, "fail-from", 500, "lowest HTTP status in an access log that counts as a failure")
	f.BoolVar(&o.Paths, "paths", false, "add the attribute path (high cardinality)")
	f.BoolVar(&o.Extra, "extra", false, "add the attributes client, referer, user_agent and request_id")
	f.BoolVar(&o.Follow, "follow", false, "follow the files as they grow, like tail -F")
	f.BoolVar(&o.Backfill, "backfill", false,
		"send old events, up to the age of the longest window; the files have all events of their time")
	f.BoolVar(
		&o.Shift, "shift", false, "shift all times by whole hours, so that the newest event lies within the last hour")
	f.IntVar(&o.BatchEvents, "batch", 1000, "events per request")
	f.StringVar((*string)(&o.Encoding), "encoding", "gzip", "compression: gzip, zstd or none")
	f.IntVar(&o.Concurrency, "concurrency", 2, "maximum number of concurrent requests")
	f.IntVar(&o.MaxRetries, "max-retries", 0, "maximum retries of a batch; 0: unlimited")
	f.StringVar(&retryFor, "retry-for", retryFor, "how long to retry a batch, such as 10m; 0: unlimited")
	f.StringVar(&o.Rejects, "rejects", "", "file for rejected lines with their reasons, in NDJSON")
	f.StringVarP(&o.Output, "output", "o", "table", "format of the summary: table or json")
	return c
}

// readMap reads --map. Service and type may come from their flags.
func readMap(text, service, typ string) (*mapping.Mapping, error) {
	name, data := "--map", []byte(text)
	if !strings.HasPrefix(strings.TrimSpace(text), "{") {
		name = text
		var err error
		if data, err = fsys.ReadFile(name, yamldoc.MaxFileBytes); err != nil {
			return nil, cli.Usagef("--map: %w", err)
		}
	}
	var r yamldoc.Reader
	var settings mapping.Settings
	f := &yamldoc.Decoder{Duration: slo.ParseDuration}
	root := r.Document(name, data)
	if root == nil {
		return nil, cli.Usagef("%w", cmp.Or(r.Problems().Err(), fmt.Errorf("%s: empty (set time, for example)", name)))
	}
	f.Decode(root, &settings)
	settings.Service, settings.Type = cmp.Or(settings.Service, service), cmp.Or(settings.Type, typ)
	if err := r.Problems().Err(); err != nil {
		return nil, cli.Usagef("%w", err)
	}
	if settings.Service == "" || settings.Type == "" {
		return nil, cli.Usagef("%s: the events need a service and a type (set them here, or --service and --type)", name)
	}
	m, err := mapping.New(&settings, true)
	if err != nil {
		return nil, cli.Usagef("%s: %w", name, err)
	}
	return m, nil
}
