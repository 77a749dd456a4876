package remote

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/slo"
)

// dlqChoice selects the dead letters of a command: by ids, by filters, or all of them.
type dlqChoice struct {
	filter *dlqFilter
	all    bool
	dryRun bool
}

func (d *dlqChoice) flags(f *pflag.FlagSet, do string) {
	d.filter = newDLQFilter(f)
	f.BoolVar(&d.all, "all", false, do+" every dead letter")
	f.BoolVar(&d.dryRun, "dry-run", false, "report what would be done, and change nothing")
}

// bodies are the requests to send, one after the other. The user has to select in exactly one way, and no
// selection never means all.
func (d *dlqChoice) bodies(c *cobra.Command, ids []string) ([]any, error) {
	q, err := d.filter.query(c.Flags())
	if err != nil {
		return nil, err
	}
	ways := 0
	for _, given := range []bool{len(ids) > 0, len(q) > 0, d.all} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return nil, cli.Usagef("'%s' takes either ids, or filters such as --sink, or --all; see '%s --help'",
			c.CommandPath(), c.CommandPath())
	}
	type body struct {
		IDs    []string          `json:"ids,omitempty"`
		Query  map[string]string `json:"query,omitempty"`
		All    bool              `json:"all,omitempty"`
		DryRun bool              `json:"dry_run"`
	}
	if len(ids) == 0 {
		return []any{body{Query: q, All: d.all, DryRun: d.dryRun}}, nil
	}
	seen := map[string]bool{}
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		again := seen[id]
		seen[id] = true
		return again
	})
	for _, id := range ids {
		if err := checkDLQID(id); err != nil {
			return nil, err
		}
	}
	var out []any
	for part := range slices.Chunk(ids, idsPerRequest) {
		out = append(out, body{IDs: part, DryRun: d.dryRun})
	}
	return out, nil
}

var dlqID = regexp.MustCompile(`^[A-Za-z0-9._:~-]{1,200}$`)

func checkDLQID(id string) error {
	if !dlqID.MatchString(id) || id == "." || id == ".." {
		return cli.Usagef("invalid dead-letter id %q ('sloengine dlq list' shows the ids)", id)
	}
	return nil
}

// idsPerRequest keeps a body of the longest ids within the API's maximum of 64 KiB.
const idsPerRequest = 300

// each sends the requests of a choice to path, one after the other, and hands each response to add. done counts
// what earlier requests did.
func each[T any](c *cobra.Command, o *engineCommand, choice *dlqChoice, ids []string, path, did string,
	done *int, add func(*T)) error {
	bodies, err := choice.bodies(c, ids)
	if err != nil {
		return err
	}
	for _, body := range bodies {
		var r T
		if err := o.engine.act(c.Context(), path, body, &r); err != nil {
			return soFar(err, *done, did)
		}
		add(&r)
	}
	return nil
}

func newDLQReplay(o *engineCommand) *cobra.Command {
	var choice dlqChoice
	c := &cobra.Command{
		Use:   "replay [ID ...]",
		Short: "Replay dead letters to where they came from",
		Long: `replay returns dead letters to their origin at the engine's own rate, critical ones
first, then oldest first, and waits until the engine is done. Interrupting the command
stops the replay. Dead letters that were replayed by then are removed from the queue.

Exit codes: 0 all were replayed, 1 failure, 2 wrong usage, 3 some were not replayed:
they failed again, were held back after too many failures, have no target, or the id
does not exist. Dead letters that were not replayed stay in the queue.`,
		Example: `  sloengine dlq replay sink-warehouse-900-0
  sloengine dlq replay --sink warehouse --dry-run
  sloengine dlq replay --all`,
		RunE: func(c *cobra.Command, ids []string) error {
			sum := dlq.ReplayResult{DryRun: choice.dryRun}
			err := each(c, o, &choice, ids, "/api/v1/dlq/replay", "replayed", &sum.Replayed, func(r *dlq.ReplayResult) {
				addReplay(&sum, r)
			})
			if err != nil {
				return err
			}
			if err := o.Print(sum, func() error { return printReplay(o.Out, sum) }); err != nil {
				return err
			}
			for _, e := range sum.Errors {
				fmt.Fprintf(o.Err, "sloengine: %s\n", cli.Printable(e))
			}
			if sum.Failed+sum.HeldBack+sum.NoTarget+sum.NotFound > 0 {
				return cli.ErrFindings
			}
			return nil
		},
	}
	choice.flags(c.Flags(), "replay")
	return c
}

func addReplay(sum, r *dlq.ReplayResult) {
	sum.Matched += r.Matched
	sum.Replayed += r.Replayed
	sum.Failed += r.Failed
	sum.TooOld += r.TooOld
	sum.NoTarget += r.NoTarget
	sum.NotFound += r.NotFound
	sum.HeldBack += r.HeldBack
	sum.Errors = append(sum.Errors, r.Errors...)
	sum.Errors = sum.Errors[:min(len(sum.Errors), 10)]
}

// soFar adds to an error what succeeded before it.
func soFar(err error, n int, what string) error {
	if n == 0 {
		return err
	}
	return fmt.Errorf("%w (%d %s before the error)", err, n, what)
}

func newDLQDiscard(o *engineCommand) *cobra.Command {
	var choice dlqChoice
	c := &cobra.Command{
		Use:   "discard [ID ...]",
		Short: "Delete dead letters permanently; their events are lost",
		Example: `  sloengine dlq discard fold-812-3
  sloengine dlq discard --reason rate_limited --to 7d --dry-run
  sloengine dlq discard --all`,
		RunE: func(c *cobra.Command, ids []string) error {
			sum := discardResult{DryRun: choice.dryRun}
			err := each(c, o, &choice, ids, "/api/v1/dlq/discard", "discarded", &sum.Discarded, func(r *discardResult) {
				sum.Discarded += r.Discarded
				sum.NotFound += r.NotFound
			})
			if err != nil {
				return err
			}
			text := done(sum.DryRun, "discarded", "discard", sum.Discarded)
			if sum.NotFound > 0 {
				text += ", " + strconv.Itoa(sum.NotFound) + " not found"
			}
			return o.PrintText(sum, o.Out, "%s", text)
		},
	}
	choice.flags(c.Flags(), "discard")
	return c
}

type discardResult struct {
	DryRun    bool `json:"dry_run"`
	Discarded int  `json:"discarded"`
	NotFound  int  `json:"not_found"`
}

func newDLQPurge(o *engineCommand) *cobra.Command {
	var (
		before, olderThan string
		dryRun            bool
	)
	c := &cobra.Command{
		Use:   "purge",
		Short: "Delete dead letters older than a time permanently; their events are lost",
		Example: `  sloengine dlq purge --older-than 30d --dry-run
  sloengine dlq purge --before 2026-11-01T00:00:00Z`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("before") == c.Flags().Changed("older-than") {
				return cli.Usagef("set either --older-than or --before")
			}
			body := map[string]any{"dry_run": dryRun}
			if c.Flags().Changed("before") {
				at, err := slo.ParseTime(before)
				if err != nil {
					return cli.Usagef("invalid --before %q (want a time such as 2026-11-20T09:00:00Z)", before)
				}
				body["before"] = at.UTC().Format(time.RFC3339Nano)
			} else {
				if age, err := slo.ParseDuration(olderThan); err != nil || age <= 0 {
					return cli.Usagef("invalid --older-than %q (want a duration such as 7d or 12h)", olderThan)
				}
				body["older_than"] = olderThan
			}
			var r struct {
				DryRun bool   `json:"dry_run"`
				Before string `json:"before"`
				Purged int    `json:"purged"`
			}
			if err := o.engine.act(c.Context(), "/api/v1/dlq/purge", body, &r); err != nil {
				return err
			}
			return o.PrintText(r, o.Out, "%s, saved before %s", done(r.DryRun, "purged", "purge", r.Purged),
				cli.Printable(r.Before))
		},
	}
	f := c.Flags()
	f.StringVar(&before, "before", "", "delete dead letters saved before this time (RFC 3339)")
	f.StringVar(&olderThan, "older-than", "", "delete dead letters saved longer ago than this, such as 7d")
	f.BoolVar(&dryRun, "dry-run", false, "report what would be done, and change nothing")
	return c
}

// done describes what was done to n dead letters, or in a dry run would be.
func done(dryRun bool, did, would string, n int) string {
	if dryRun {
		return fmt.Sprintf("dry run: would %s %d", would, n)
	}
	return fmt.Sprintf("%s %d", did, n)
}
