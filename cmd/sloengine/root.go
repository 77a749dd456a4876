package main

import (
	"context"
	"io"

	"github.com/sloengine/sloengine/cmd/sloengine/backtest"
	"github.com/sloengine/sloengine/cmd/sloengine/brokers"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/cmd/sloengine/remote"
	"github.com/spf13/cobra"
)

// run is the whole program: main without the process around it.
func run(ctx context.Context, args []string, in io.Reader, out, stderr io.Writer) int {
	s := cli.Streams{In: in, Out: out, Err: stderr}
	return cli.Execute(ctx, newRoot(s), s, args)
}

func newRoot(s cli.Streams) *cobra.Command {
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
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	b := build()
	root.Version = versionText(&b)
	root.SetVersionTemplate("sloengine {{.Version}}\n")
	root.AddCommand(
		newServe(s), newView(s), newRelay(s), newDemo(s), newSend(s), newCheck(s), newInit(s), newVersion(s), newImport(s),
		newSchema(s), newMan(s), newGenerate(s), newConvert(s), newDiff(s), newExplain(s), remote.NewBlindSpots(s),
		newBackup(s), newRestore(s), newExport(s), backtest.New(s, remote.Backtest), newNotify(s), newPositions(s),
		brokers.NewRabbitMQ(s), brokers.NewKafka(s), brokers.NewOutbox(s),
	)
	root.AddCommand(remote.Commands(s)...)
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		for _, name := range g.commands {
			c, _, _ := root.Find([]string{name})
			c.GroupID = g.title
		}
	}
	cli.Complete(root, remote.Names)
	return root
}

// groups are the commands as help lists them. The others help with the program itself.
var groups = []struct {
	title    string
	commands []string
}{
	{"Begin", []string{"demo", "init", "check", "serve", "send", "status"}},
	{"During an incident", []string{"incident", "events", "silence", "annotate", "reconcile"}},
	{"Specs and rules", []string{"explain", "diff", "backtest", "blindspots", "generate", "convert", "schema"}},
	{"Budgets and reports", []string{"gate", "report", "audit"}},
	{"Events that wait or were refused", []string{"dlq", "limits"}},
	{"Operation", []string{"view", "relay", "import", "export", "backup", "restore",
		"positions", "forget", "rebuild", "redact", "notify"}},
	{"Brokers", []string{"kafka", "rabbitmq", "outbox"}},
}
