package brokers

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/reliability/kafkaclient"
	"github.com/sloengine/sloengine/reliability/kafkaclient/topics"
	"github.com/sloengine/sloengine/sla/evaluator"
	"github.com/sloengine/sloengine/slo"
)

// kafkaTimeout bounds all requests to one cluster.
const kafkaTimeout = 30 * time.Second

func NewKafka(s cli.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "kafka",
		Short: "Create and check the Kafka topics of sources and sinks",
		Args:  cli.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newKafkaTopics(s))
	return c
}

// kafkaTopics are the flags of kafka topics.
type kafkaTopics struct {
	cli.Printer
	create, check bool
	config        string
	specs         cli.SpecFiles
	brokers       []string
	topics        []string
	deadLetters   string
	wanted        topics.Wanted
	retention     string
}

func newKafkaTopics(s cli.Streams) *cobra.Command {
	o := &kafkaTopics{Printer: cli.Printer{Streams: s}, wanted: topics.Events}
	c := &cobra.Command{
		Use:   "topics --create|--check (-c engine.yaml | --brokers HOST:PORT --topic NAME)",
		Short: "Create topics that are missing, or check those that are there",
		Long: `topics looks at the topics that the sources and sinks in engine.yaml name, and connects to
the brokers with their settings. Instead, --brokers and --topic name them.

--create makes the topics that are missing and changes none that is there. --check
compares the topics with their use: whether messages survive the loss of a broker
(min.insync.replicas with acks=all), whether the topic retains them for the longest
window of the specs (-f), and whether the engines share the partitions evenly.

Exit codes: 0 success, 1 failure, 2 wrong usage, 3 findings.`,
		Example: `  sloengine kafka topics --check -c engine.yaml -f specs/
  sloengine kafka topics --create -c engine.yaml --dead-letter-topic orders-dlq
  sloengine kafka topics --create --brokers kafka-1:9092 --topic orders`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	f := c.Flags()
	f.BoolVar(&o.create, "create", false, "create the topics that are missing")
	f.BoolVar(&o.check, "check", false, "check the topics")
	f.StringVarP(&o.config, "config", "c", "", "engine settings, engine.yaml, with sources or sinks of Kafka")
	f.StringArrayVarP((*[]string)(&o.specs), "file", "f", nil, "spec file or folder, for the longest window (repeatable)")
	f.StringSliceVar(&o.brokers, "brokers", nil, "host:port of brokers, without TLS and credentials, instead of --config")
	f.StringArrayVar(&o.topics, "topic", nil, "topic, with --brokers (repeatable)")
	f.StringVar(&o.deadLetters, "dead-letter-topic", "",
		"also create or check this topic for dead letters: 3 partitions, 30 days")
	f.Int32Var(&o.wanted.Partitions, "partitions", topics.Events.Partitions, "partitions of topics that are created")
	f.Int16Var(&o.wanted.Replicas, "replication-factor", topics.Events.Replicas, "replicas of topics that are created")
	f.IntVar(&o.wanted.MinInSync, "min-insync", topics.Events.MinInSync, "min.insync.replicas of topics that are created")
	f.StringVar(&o.retention, "retention", "7d", "retention of topics that are created")
	o.AddOutput(f, "table", "json")
	return c
}

func (o *kafkaTopics) run(ctx context.Context) (err error) {
	switch {
	case o.create == o.check:
		return cli.Usagef("set either --create or --check")
	case (o.config == "") == (len(o.brokers) == 0):
		return cli.Usagef("set either -c engine.yaml, or --brokers with --topic")
	case len(o.brokers) > 0 && len(o.topics) == 0 && o.deadLetters == "":
		return cli.Usagef("--brokers requires --topic NAME")
	case o.config != "" && len(o.topics) > 0:
		return cli.Usagef("--topic is for --brokers (with -c, the sources and sinks name their topics)")
	}
	if o.wanted.Partitions < 1 || o.wanted.Replicas < 1 || o.wanted.MinInSync < 1 ||
		o.wanted.MinInSync > int(o.wanted.Replicas) {
		return cli.Usagef(
			"--partitions, --replication-factor and --min-insync must be at least 1, and --min-insync at most " +
				"--replication-factor")
	}
	if o.wanted.Retention, err = slo.ParseDuration(o.retention); err != nil || o.wanted.Retention < time.Minute {
		return cli.Usagef("invalid --retention %q (want a duration of at least 1m, such as 7d)", o.retention)
	}
	uses, err := o.uses()
	if err != nil {
		return err
	}
	longest, err := o.longest()
	if err != nil {
		return err
	}
	result := kafkaTopicsResult{Created: []string{}, Topics: []topics.Topic{}, Findings: []topics.Finding{}}
	for i := range uses {
		if err := o.on(ctx, &uses[i], longest, &result); err != nil {
			return err
		}
	}
	if err := o.Print(result, func() error { return o.table(&result) }); err != nil {
		return err
	}
	if len(result.Findings) > 0 {
		return cli.ErrFindings
	}
	return nil
}

// kafkaTopicsResult is what the command prints as JSON.
type kafkaTopicsResult struct {
	Created  []string         `json:"created"`
	Topics   []topics.Topic   `json:"topics"`
	Findings []topics.Finding `json:"findings"`
}

// uses are the clusters and topics that the flags name.
func (o *kafkaTopics) uses() ([]config.KafkaUse, error) {
	var uses []config.KafkaUse
	if o.config != "" {
		settings, err := config.Load(o.config)
		if err != nil {
			return nil, err
		}
		if uses, err = settings.KafkaUses(); err != nil {
			return nil, err
		}
		if len(uses) == 0 {
			return nil, fmt.Errorf("%s has no source and no sink of Kafka", cli.Printable(o.config))
		}
	} else {
		u := config.KafkaUse{Client: kafkaclient.Options{Brokers: o.brokers}}
		for _, t := range o.topics {
			u.Topics = append(u.Topics, topics.Use{Topic: t, By: "--topic", Engines: 1})
		}
		uses = append(uses, u)
	}
	if o.deadLetters != "" {
		uses[0].Topics = append(
			uses[0].Topics, topics.Use{Topic: o.deadLetters, By: "--dead-letter-topic", DeadLetters: true})
	}
	return uses, nil
}

// longest is the longest window of the specs, 0 without any.
func (o *kafkaTopics) longest() (longest time.Duration, err error) {
	if len(o.specs) == 0 {
		return 0, nil
	}
	sp, err := o.specs.Read(o.Streams)
	if err != nil {
		return 0, err
	}
	cfg, err := evaluator.Compile(counting.Inputs(sp))
	if err != nil {
		return 0, err
	}
	for i := range cfg.Indicators {
		longest = max(longest, cfg.Indicators[i].Retention)
	}
	return longest.Truncate(time.Hour), nil // counts are retained for some minutes longer than the window
}

// on creates or checks the topics of one cluster.
func (o *kafkaTopics) on(ctx context.Context, u *config.KafkaUse, longest time.Duration,
	result *kafkaTopicsResult) error {
	if len(u.Topics) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, kafkaTimeout)
	defer cancel()
	client, err := kafkaclient.New(u.Client)
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client.Client)
	if o.create {
		for _, t := range u.Topics {
			w := o.wanted
			if t.DeadLetters {
				w = topics.DeadLetters
				w.Replicas, w.MinInSync = o.wanted.Replicas, o.wanted.MinInSync
			}
			existed, err := topics.Create(ctx, admin, t.Topic, w)
			if err != nil {
				return o.explain(client, err)
			}
			if !existed {
				result.Created = append(result.Created, t.Topic)
			}
		}
		return nil
	}
	found, findings, err := topics.Check(ctx, admin, u.Topics, longest)
	if err != nil {
		return o.explain(client, err)
	}
	result.Topics = append(result.Topics, found...)
	result.Findings = append(result.Findings, findings...)
	return nil
}

// explain prefers why the brokers are not reachable to what became of a request.
func (o *kafkaTopics) explain(client *kafkaclient.Client, err error) error {
	if why := client.Failure(); why != nil {
		return why
	}
	return kafkaclient.Explain(err)
}

func (o *kafkaTopics) table(r *kafkaTopicsResult) (err error) {
	line := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(o.Out, format+"\n", args...)
		}
	}
	if o.create {
		for _, t := range r.Created {
			line("created %s", cli.Printable(t))
		}
		if len(r.Created) == 0 {
			line("all topics exist; nothing was changed")
		}
		return err
	}
	for _, t := range r.Topics {
		if t.Exists {
			retention := "without limit"
			if t.Retention >= 0 {
				retention = t.Retention.String()
			}
			line("%s: %s, %s, min.insync.replicas %d, retained %s, messages up to %d bytes", cli.Printable(t.Name),
				cli.Plural(t.Partitions, "partition"), cli.Plural(t.Replicas, "replica"), t.MinInSync, retention, t.MaxMessage)
		}
	}
	for _, f := range r.Findings {
		line("%s (%s): %s (%s)", cli.Printable(f.Topic), cli.Printable(f.By), f.Text, f.Fix)
	}
	line("%s", cli.Plural(len(r.Findings), "finding"))
	return err
}
