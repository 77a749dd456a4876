package config

import (
	"fmt"

	"github.com/sloengine/sloengine/ingest/source/kafka"
	"github.com/sloengine/sloengine/reliability/kafkaclient"
	"github.com/sloengine/sloengine/reliability/kafkaclient/topics"
)

// KafkaUse is a source or sink of Kafka with the topics that it names.
type KafkaUse struct {
	Name   string
	Client kafkaclient.Options
	Topics []topics.Use // none for a source with topics_regex
}

// KafkaUses are the sources and sinks of Kafka.
func (c *Config) KafkaUses() (out []KafkaUse, err error) {
	for i := range c.Sources {
		s := &c.Sources[i]
		if s.Kafka == nil {
			continue
		}
		u := KafkaUse{Name: s.Name}
		if u.Client, err = s.Kafka.Client(""); err != nil {
			return nil, fmt.Errorf("source %s: %w", s.Name, err)
		}
		engines := 1
		if s.Kafka.Ownership == kafka.Static {
			engines = s.Kafka.Engines
		}
		for _, t := range s.Kafka.Topics {
			u.Topics = append(u.Topics, topics.Use{Topic: t, By: "source " + s.Name, Engines: engines, MaxMessage: s.MaxMessage})
		}
		out = append(out, u)
	}
	for i := range c.Sinks {
		s := &c.Sinks[i]
		if s.Kafka == nil {
			continue
		}
		u := KafkaUse{Name: s.Name, Client: s.Kafka.Options}
		if u.Client.TLS, err = s.Kafka.TLS.enabled(); err != nil {
			return nil, fmt.Errorf("sink %s: tls: %w", s.Name, err)
		}
		u.Topics = []topics.Use{{Topic: s.Kafka.Topic, By: "sink " + s.Name, AcksLeader: s.Kafka.Acks == "leader",
			MaxMessage: s.Kafka.MaxMessageBytes}}
		out = append(out, u)
	}
	return out, nil
}
