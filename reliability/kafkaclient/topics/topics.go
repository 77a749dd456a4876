// Package topics creates the Kafka topics of an engine's sources and sinks, and checks existing ones: whether they
// retain records for as long as an engine with an empty disk needs them.
//
// It knows no settings files: the command kafka does.
package topics

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Use is a topic and who uses it.
type Use struct {
	Topic string
	By    string // such as source "orders", for people
	// Engines share the partitions of a source; 0: not a source.
	Engines int
	// AcksLeader means that the producer waits for one replica only.
	AcksLeader bool
	// MaxMessage is the largest message that the user reads or writes, in bytes; 0: not known.
	MaxMessage int64
	// DeadLetters is a topic for messages that could not be taken.
	DeadLetters bool
}

// Wanted are the properties of topics that are created.
type Wanted struct {
	Partitions  int32
	Replicas    int16
	MinInSync   int
	Retention   time.Duration
	MaxMessage  int64 // bytes
	Compression string
}

// Defaults of topics: those of events, and those of dead letters.
var (
	Events = Wanted{Partitions: 12, Replicas: 3, MinInSync: 2, Retention: 7 * 24 * time.Hour, MaxMessage: 10 << 20,
		Compression: "snappy"}
	DeadLetters = Wanted{Partitions: 3, Replicas: 3, MinInSync: 2, Retention: 30 * 24 * time.Hour, MaxMessage: 10 << 20,
		Compression: "snappy"}
)

// segment is how much of a topic is deleted at a time.
const segment = 24 * time.Hour

// Create makes a topic. existed is true if there is one already, which stays as it is.
func Create(ctx context.Context, admin *kadm.Client, topic string, w Wanted) (existed bool, err error) {
	number := func(n int64) *string { return kadm.StringPtr(strconv.FormatInt(n, 10)) }
	_, err = admin.CreateTopic(ctx, w.Partitions, w.Replicas, map[string]*string{
		"cleanup.policy":      kadm.StringPtr("delete"),
		"min.insync.replicas": number(int64(w.MinInSync)),
		"retention.ms":        number(w.Retention.Milliseconds()),
		"segment.ms":          number(min(segment, w.Retention).Milliseconds()),
		"max.message.bytes":   number(w.MaxMessage),
		"compression.type":    kadm.StringPtr(w.Compression),
	}, topic)
	switch {
	case errors.Is(err, kerr.TopicAlreadyExists):
		return true, nil
	case errors.Is(err, kerr.InvalidReplicationFactor):
		return false, fmt.Errorf("create topic %s: the cluster has fewer than %d brokers (set --replication-factor): %w",
			topic, w.Replicas, err)
	case err != nil:
		return false, fmt.Errorf("create topic %s: %w", topic, err)
	}
	return false, appears(ctx, admin, topic)
}

// appears waits until the brokers know a topic that their controller has created.
func appears(ctx context.Context, admin *kadm.Client, topic string) error {
	for {
		d, err := admin.ListTopics(ctx, topic)
		if err == nil && d.Has(topic) && d[topic].Err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("create topic %s: the brokers do not know it yet: %w", topic, errors.Join(err, context.Cause(ctx)))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Finding is something about a topic that loses events or makes an engine wait.
type Finding struct {
	Topic string `json:"topic"`
	By    string `json:"used_by"`
	Text  string `json:"finding"`
	Fix   string `json:"fix"`
}

// Topic describes a topic.
type Topic struct {
	Name       string        `json:"topic"`
	Exists     bool          `json:"exists"`
	Partitions int           `json:"partitions"`
	Replicas   int           `json:"replicas"`
	MinInSync  int           `json:"min_insync_replicas"`
	Retention  time.Duration `json:"-"` // negative: without limit
	MaxMessage int64         `json:"max_message_bytes"`
}

// Check compares topics with how they are used. longest is the longest window of the specs, or 0.
func Check(ctx context.Context, admin *kadm.Client, uses []Use, longest time.Duration) (found []Topic,
	findings []Finding, err error) {
	names := make([]string, len(uses))
	for i := range uses {
		names[i] = uses[i].Topic
	}
	details, err := admin.ListTopics(ctx, names...)
	if err != nil {
		return nil, nil, fmt.Errorf("read topics: %w", err)
	}
	configs := map[string]kadm.ResourceConfig{}
	for _, name := range names {
		if d := details[name]; d.Err != nil {
			if errors.Is(d.Err, kerr.UnknownTopicOrPartition) {
				continue
			}
			return nil, nil, fmt.Errorf("read topic %s: %w", name, d.Err)
		}
		rs, err := admin.DescribeTopicConfigs(ctx, name)
		if err != nil {
			return nil, nil, fmt.Errorf("read the settings of topic %s: %w", name, err)
		}
		for _, r := range rs {
			if r.Err != nil {
				return nil, nil, fmt.Errorf("read the settings of topic %s: %w", name, r.Err)
			}
			configs[name] = r
		}
	}
	seen := map[string]bool{}
	for _, u := range uses {
		config, exists := configs[u.Topic]
		t := Topic{Name: u.Topic, Exists: exists}
		if exists {
			t.read(details[u.Topic], config)
			findings = append(findings, t.judge(&u, config, longest)...)
		} else {
			findings = append(
				findings, Finding{u.Topic, u.By, "the topic does not exist", "create it with sloengine kafka topics --create"})
		}
		if !seen[u.Topic] {
			seen[u.Topic] = true
			found = append(found, t)
		}
	}
	return found, findings, nil
}

func (t *Topic) read(d kadm.TopicDetail, c kadm.ResourceConfig) {
	t.Partitions = len(d.Partitions)
	for _, p := range d.Partitions {
		t.Replicas = len(p.Replicas)
	}
	t.MinInSync = int(number(c, "min.insync.replicas"))
	t.MaxMessage = number(c, "max.message.bytes")
	if ms := number(c, "retention.ms"); ms < 0 {
		t.Retention = -1
	} else {
		t.Retention = time.Duration(ms) * time.Millisecond
	}
}

func value(c kadm.ResourceConfig, key string) string {
	for _, v := range c.Configs {
		if v.Key == key && v.Value != nil {
			return *v.Value
		}
	}
	return ""
}

func number(c kadm.ResourceConfig, key string) int64 {
	n, _ := strconv.ParseInt(value(c, key), 10, 64) // a value that the broker does not report is 0
	return n
}

// judge lists the problems of the topic for one user.
func (t *Topic) judge(u *Use, c kadm.ResourceConfig, longest time.Duration) (out []Finding) {
	find := func(fix, text string, args ...any) {
		out = append(out, Finding{t.Name, u.By, fmt.Sprintf(text, args...), fix})
	}
	if t.MinInSync < 2 {
		find("set min.insync.replicas to 2",
			"min.insync.replicas is %d: even with acks=all, a message that one broker confirmed is lost with that broker",
			t.MinInSync)
	}
	if t.Replicas <= t.MinInSync && t.MinInSync > 1 {
		find("use one replica more than min.insync.replicas",
			"%d replicas with min.insync.replicas %d: while one broker is down, nothing can be written", t.Replicas, t.MinInSync)
	}
	if u.AcksLeader {
		find("set acks: all", "the producer waits for the leader only, so a message that it confirmed is lost with it")
	}
	if value(c, "unclean.leader.election.enable") == "true" {
		find("set unclean.leader.election.enable to false",
			"a replica that lags may become leader, and what it lacks is lost")
	}
	if p := value(c, "cleanup.policy"); p != "delete" && p != "" {
		find("set cleanup.policy to delete",
			"cleanup.policy is %s: of messages with equal keys only the last is certain to stay", p)
	}
	if b := number(c, "retention.bytes"); b > 0 {
		find("set retention.bytes to -1", "retention.bytes is %d: messages may be deleted before their time", b)
	}
	if u.MaxMessage > 0 && t.MaxMessage < u.MaxMessage {
		if u.Engines == 0 {
			find(fmt.Sprintf("set max.message.bytes to %d, or lower max_message_bytes of the sink", u.MaxMessage),
				"max.message.bytes is %d, below the %d that the sink sends", t.MaxMessage, u.MaxMessage)
		}
	} else if u.Engines > 0 && u.MaxMessage > 0 && t.MaxMessage > u.MaxMessage {
		find("raise max_message of the source",
			"max.message.bytes is %d, and the source makes dead letters of messages above %d", t.MaxMessage, u.MaxMessage)
	}
	if u.Engines == 0 {
		return out
	}
	if t.Retention >= 0 && longest > 0 && t.Retention < longest {
		find(fmt.Sprintf("set retention.ms to %d", longest.Milliseconds()),
			"the topic retains %s, less than the longest window of the specs (%s): an engine with an empty disk cannot count "+
				"again what is older", days(t.Retention), days(longest))
	}
	switch {
	case t.Partitions < u.Engines:
		find("add partitions", "%d partitions for %d engines: some engines have nothing to read", t.Partitions, u.Engines)
	case t.Partitions%u.Engines != 0:
		find("use a multiple of the number of engines", "%d partitions for %d engines: some engines read more than others",
			t.Partitions, u.Engines)
	}
	return out
}

// days prints a duration of whole days as days.
func days(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return d.String()
}
