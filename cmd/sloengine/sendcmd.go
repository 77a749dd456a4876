package main

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/send"
	"github.com/sloengine/sloengine/slo"
)

func newSend(s streams) *cobra.Command {
	o := send.Options{Stdin: s.in, Stdout: s.out, Stderr: s.err}
	retryFor := "0"
	c := &cobra.Command{
		Use:   "send [FILE ...]",
		Short: "Send events from NDJSON, JSON or access logs; a file sent twice counts once",
		Long: `send reads files (gzip and zstd too) or standard input, makes events of their lines,
and posts them in batches. It tries again for as long as the engine is unavailable or busy.

Lines of access logs have no ids, so ids are derived from what they say and where
they stand among equal lines: the same log sent again counts nothing.`,
		Example: `  sloengine send events.ndjson
  sloengine send --format combined --service shop --backfill --shift access.log
  tail -F app.ndjson | sloengine send`,
		RunE: func(c *cobra.Command, files []string) error {
			d, err := slo.ParseDuration(retryFor)
			if err != nil {
				return usageError{fmt.Errorf("--retry-for: %w", err)}
			}
			o.Files, o.RetryFor = files, d
			o.Logger = slog.New(slog.NewTextHandler(s.err, nil))
			err = send.Run(c.Context(), o)
			var usage *send.UsageError
			var rejected *send.RejectedError
			switch {
			case errors.As(err, &usage):
				return usageError{err}
			case errors.As(err, &rejected):
				fmt.Fprintf(s.err, "sloengine: %v\n", err)
				return errFindings
			}
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&o.Server, "url", "http://127.0.0.1:8080", "address of the engine")
	f.StringVar(&o.Format, "format", "auto", "auto, ndjson, json, common, combined or nginx-json")
	f.StringVar(&o.Service, "service", "", "service of events that name none; needed for access logs")
	f.StringVar(&o.Type, "type", "", "type of events that name none (\"request\" for access logs)")
	f.StringVar(&o.Source, "source", "", "tells apart machines that write identical lines; becomes part of the ids")
	f.IntVar(&o.FailFrom, "fail-from", 500, "least HTTP status of an access log that is a failure")
	f.BoolVar(&o.Paths, "paths", false, "add the attribute path (many values)")
	f.BoolVar(&o.Extra, "extra", false, "add client, referer, user_agent and request_id")
	f.BoolVar(&o.Follow, "follow", false, "go on as the files grow, like tail -F")
	f.BoolVar(&o.Backfill, "backfill", false, "send events of any age inside the longest window")
	f.BoolVar(&o.Shift, "shift", false, "move all times by whole hours, so that the newest lies within the last hour")
	f.StringVar(&o.TokenFile, "token-file", "", "file with a bearer token (or SLOENGINE_TOKEN)")
	f.IntVar(&o.BatchEvents, "batch", 1000, "events per request")
	f.StringVar((*string)(&o.Encoding), "encoding", "gzip", "gzip, zstd or none")
	f.IntVar(&o.Concurrency, "concurrency", 2, "requests at a time")
	f.IntVar(&o.MaxRetries, "max-retries", 0, "per batch; 0 goes on until it works")
	f.StringVar(&retryFor, "retry-for", retryFor, "per batch, such as 10m; 0 goes on until it works")
	f.StringVar(&o.Rejects, "rejects", "", "file for rejected lines, with the reasons, as NDJSON")
	f.StringVarP(&o.Output, "output", "o", "table", "of the summary: table or json")
	return c
}
