package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/cmd/sloengine/remote"
	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/otlp"
	"github.com/sloengine/sloengine/ingest/rejects"
	"github.com/sloengine/sloengine/rules/explain"
	"github.com/sloengine/sloengine/sla/evaluator"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// diffFlags say how to print a difference, and which engine to ask.
type diffFlags struct {
	cli.Printer
	engine remote.Client
}

func newDiff(s cli.Streams) *cobra.Command {
	var running bool
	o := &diffFlags{Printer: cli.Printer{Streams: s}}
	c := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Show what a new version of a spec changes, and the consequences",
		Long: `diff compares two specs, files or folders, and their alerts: what was added or
removed, which objective, window or threshold changed, and how much earlier or later
an alert then fires. It exits with 3 if anything differs.

With --running, diff takes one spec and shows what it would do to the counts of a
running engine: which SLOs start from zero, which resume parked counts, which are
removed, and until when the engine retains their counts. Of services that send spans, it
shows which attributes an SLO that starts needs, and since when spans keep them. It also
shows what the log lacks for such an SLO: events of types that were rejected, with their
number and since when, what exceeded rate limits, how far back the history reaches, and
about how long a rebuild from it takes.`,
		Example: `  sloengine diff specs/ specs.new/
  sloengine diff --running specs.new/`,
		RunE: func(c *cobra.Command, args []string) error {
			if running {
				if len(args) == 0 {
					return cli.Usagef("diff --running takes a spec: files, folders, or - for standard input")
				}
				differs, err := diffRunning(c.Context(), o, args)
				if err == nil && differs {
					err = cli.ErrFindings
				}
				return err
			}
			if len(args) != 2 {
				return cli.Usagef("diff takes two specs: the old one and the new one")
			}
			was, err := cli.SpecFiles(args[:1]).Read(s)
			if err != nil {
				return fmt.Errorf("old spec: %w", err)
			}
			now, err := cli.SpecFiles(args[1:]).Read(s)
			if err != nil {
				return fmt.Errorf("new spec: %w", err)
			}
			changes := append([]explain.Change{}, explain.Changes(cli.RulesSpec(was), cli.RulesSpec(now))...)
			err = o.Print(changes, func() error {
				_, err := io.WriteString(s.Out, explain.ChangesText(changes))
				return err
			})
			if err != nil {
				return err
			}
			if len(changes) > 0 {
				return cli.ErrFindings
			}
			return nil
		},
	}
	o.AddOutput(c.Flags(), "table", "json")
	c.Flags().BoolVar(&running, "running", false, "compare one spec with what a running engine counts")
	o.engine.AddFlags(c.Flags())
	return c
}

// diffRunning shows what a spec would do to the counts of a running engine, and reports whether it would change any.
func diffRunning(ctx context.Context, o *diffFlags, files cli.SpecFiles) (differs bool, err error) {
	next, err := files.Read(o.Streams)
	if err != nil {
		return false, fmt.Errorf("new spec: %w", err)
	}
	cfg, err := evaluator.Compile(counting.Inputs(next))
	if err != nil {
		return false, fmt.Errorf("new spec: %w", err)
	}
	var answer struct {
		Items []fold.Generation `json:"items"`
		Spans []otlp.Kept       `json:"spans"`
	}
	if err := o.engine.Read(ctx, "/api/v1/generations", nil, &answer); err != nil {
		return false, err
	}
	change, err := fold.Compare(answer.Items, cfg)
	if err != nil {
		return false, fmt.Errorf("new spec: %w", err)
	}
	c := plannedChange{SpecChange: counting.DescribeChange(change, nil, time.Now().UTC().Truncate(time.Second))}
	c.Attributes = attributesOfSpans(c.Started, cfg, answer.Spans)
	if len(c.Started) > 0 {
		if err := c.readPast(ctx, &o.engine, cfg); err != nil {
			return false, err
		}
	}
	differs = len(c.Started)+len(c.Resumed)+len(c.Parked) > 0
	return differs, o.Print(c, func() error { printChange(o.Out, &c); return nil })
}

// plannedChange is a change before it is made.
type plannedChange struct {
	*counting.SpecChange
	Attributes []spanAttribute `json:"attributes_of_spans,omitempty"`
	Types      []pastType      `json:"types_not_counted,omitempty"`
	Past       *past           `json:"past,omitempty"` // of SLOs that start
}

// pastType is events that an SLO that starts would have counted, and the spec in force does not.
type pastType struct {
	SLO string `json:"slo"`
	rejects.Type
}

// past is what the log has of the time before.
type past struct {
	HistoryFrom time.Time `json:"history_from,omitzero"` // when the oldest retained record was received; zero: none is
	Started     time.Time `json:"started"`               // of the engine
	Limited     uint64    `json:"limited"`               // events over a rate limit since then, not in the log
	Sampled     uint64    `json:"sampled"`               // that others stand for since then

	HistoryEvents  uint64   `json:"history_events"`
	RebuildSeconds float64  `json:"rebuild_seconds"` // of the SLOs of one service, estimated; 0: they are not rebuilt
	Held           []string `json:"held"`            // SLOs that start, and have an earlier definition in force already
}

// readPast asks what the log lacks for the SLOs that start.
func (c *plannedChange) readPast(ctx context.Context, engine *remote.Client, cfg *fold.Config) error {
	var state struct {
		Started time.Time `json:"started"`
		Log     struct {
			HistoryFrom    time.Time `json:"history_from"`
			HistoryEvents  uint64    `json:"history_events"`
			RebuildSeconds float64   `json:"rebuild_seconds"`
		} `json:"log"`
		Rebuild *counting.RebuildProgress `json:"rebuild"`
		Ingest  struct {
			Limited uint64 `json:"limited"`
			Sampled uint64 `json:"sampled"`
		} `json:"ingest"`
	}
	if err := engine.Read(ctx, "/api/v1/engine", nil, &state); err != nil {
		return err
	}
	c.Past = &past{HistoryFrom: state.Log.HistoryFrom, Started: state.Started, Limited: state.Ingest.Limited,
		Sampled: state.Ingest.Sampled, HistoryEvents: state.Log.HistoryEvents, RebuildSeconds: state.Log.RebuildSeconds,
		Held: []string{}}
	for _, id := range c.Started {
		if state.Rebuild != nil && slices.Contains(state.Rebuild.Held, id) {
			c.Past.Held = append(c.Past.Held, id)
		}
	}
	var seen struct {
		Types []rejects.Type `json:"types"`
	}
	if err := engine.Read(ctx, "/api/v1/rejects", nil, &seen); err != nil {
		return err
	}
	for _, id := range c.Started {
		for _, x := range seen.Types {
			if x.Service == slo.ID(id).Service() && cfg.MayCount(id, x.Type) || x.Type == event.OtherTypes {
				c.Types = append(c.Types, pastType{id, x})
			}
		}
	}
	return nil
}

// spanAttribute is one that a definition needs and that spans bring. They keep only what the spec or otlp.keep names.
type spanAttribute struct {
	SLO       string     `json:"slo"`
	Service   string     `json:"service"`
	Attribute string     `json:"attribute"`
	KeptSince *time.Time `json:"kept_since"` // at the latest; null: it is not
}

// attributesOfSpans lists what SLOs need of services that send spans.
func attributesOfSpans(slos []string, cfg *fold.Config, kept []otlp.Kept) (out []spanAttribute) {
	for _, id := range slos {
		for _, ind := range cfg.Indicators {
			i := slices.IndexFunc(kept, func(k otlp.Kept) bool { return k.Service == ind.Service })
			if ind.ID != id || i < 0 {
				continue
			}
			one := fold.Config{Indicators: []fold.Indicator{ind}}
			names, _ := one.MergeBy(ind.Service)
			for _, name := range names {
				a := spanAttribute{SLO: id, Service: ind.Service, Attribute: name}
				if at, ok := kept[i].Since(name); ok {
					a.KeptSince = &at
				}
				out = append(out, a)
			}
		}
	}
	return out
}

func printChange(w io.Writer, c *plannedChange) {
	if len(c.Started)+len(c.Resumed)+len(c.Parked) == 0 {
		fmt.Fprintln(w, "Every SLO keeps its counts.")
	}
	for _, id := range c.Started {
		fmt.Fprintf(w, "%s  starts from zero\n", cli.Printable(id))
	}
	for _, a := range c.Attributes {
		text := "do not have until this spec is in force (to have it before, add it to otlp.keep)"
		if a.KeptSince != nil {
			text = "have since " + a.KeptSince.UTC().Format(time.RFC3339) + " at the latest"
		}
		fmt.Fprintf(w, "%s  needs %s, which spans of %s %s\n", cli.Printable(a.SLO), cli.Printable(a.Attribute),
			cli.Printable(a.Service), text)
	}
	for i := range c.Types {
		t := &c.Types[i]
		what := fmt.Sprintf("counts type %s", cli.Printable(t.Type.Type))
		if t.Type.Type == event.OtherTypes {
			what = "may count others"
		}
		fate := fmt.Sprintf("were rejected as %s and are not in the log", t.Code)
		if t.Code == rejects.Uncounted {
			fate = "are in the log, uncounted"
		} else if t.DeadLetters > 0 {
			fate += fmt.Sprintf(" (%d are dead letters, if they were not discarded)", t.DeadLetters)
		}
		fmt.Fprintf(w, "%s  %s, of which since %s events %s: %d\n", cli.Printable(t.SLO), what,
			t.First.UTC().Format(time.RFC3339), fate, t.Events)
	}
	if p := c.Past; p != nil {
		if p.HistoryFrom.IsZero() {
			fmt.Fprintln(w, "The engine retains no history.")
		} else {
			fmt.Fprintf(w, "The history reaches back to %s, with %d events.\n", p.HistoryFrom.UTC().Format(time.RFC3339),
				p.HistoryEvents)
			switch {
			case len(c.Started) == 0:
			case p.RebuildSeconds == 0:
				fmt.Fprintln(w, "SLOs that start from zero are not rebuilt from it: engine.yaml has rebuild: off.")
			default:
				fmt.Fprintf(w, "SLOs that start from zero are rebuilt from it, in about %s for each service.\n",
					max(time.Second, time.Duration(p.RebuildSeconds*float64(time.Second)).Round(time.Second)))
			}
		}
		for _, id := range p.Held {
			fmt.Fprintf(w, "%s  has an earlier definition in force until its counts are rebuilt. That rebuild is canceled.\n",
				cli.Printable(id))
		}
		if p.Limited+p.Sampled > 0 {
			fmt.Fprintf(w, "Since %s, %d events exceeded rate limits and %d were sampled: the log lacks them.\n",
				p.Started.UTC().Format(time.RFC3339), p.Limited, p.Sampled)
		}
	}
	for _, id := range c.Resumed {
		fmt.Fprintf(w, "%s  resumes its parked counts\n", cli.Printable(id))
	}
	for _, p := range c.Parked {
		what := "has a new definition: the counts of the old one are"
		if p.Removed {
			what = "is removed: its counts are"
		}
		fmt.Fprintf(w, "%s  %s retained until %s\n", cli.Printable(p.ID), what, p.Until.UTC().Format(time.RFC3339))
	}
}
