package config

import (
	"errors"
	"fmt"
	"os"

	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/ingest/source/kafka"
	"github.com/sloengine/sloengine/reliability/kafkaclient"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// Source is one place that events come from. It is of exactly one kind.
type Source struct {
	Name            string             `yaml:"name" is:"required"`
	Kafka           *kafkaSourceConfig `yaml:"kafka"`
	source.Settings `yaml:",inline"`
}

func (s *Source) prefill(*Config) { s.Settings = source.Defaults() }

// Kind is what the source reads, for people.
func (s *Source) Kind() string { return "kafka" }

type kafkaSourceConfig struct {
	kafkaclient.Options `yaml:",inline"`
	TLS                 *tlsConfig `yaml:"tls"`
	kafka.Settings      `yaml:",inline"`
}

func (k *kafkaSourceConfig) prefill(*Config) { k.Settings = kafka.Defaults() }

func (c *Config) checkSources(f *yamldoc.Decoder) {
	names := fileNames{}
	for i := range c.Sources {
		s, path := &c.Sources[i], item("sources", i)
		names.check(f, path, s.Name, "source", "the name identifies its positions in the log")
		switch {
		case f.Broken(path + ".kafka"):
		case s.Kafka == nil:
			f.Errorf(path, "add kafka", "the source reads from nowhere")
		default:
			s.Kafka.check(f, path+".kafka")
		}
		settingProblems(f, path, s.Settings.Validate())
	}
}

// settingProblems reports what a component says about its settings.
func settingProblems(f *yamldoc.Decoder, path string, err error) {
	if err == nil {
		return
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range many.Unwrap() {
			settingProblems(f, path, one)
		}
		return
	}
	var s *source.SettingError
	if !errors.As(err, &s) {
		f.Errorf(path, "", "%v", err)
		return
	}
	if at := path + "." + s.Key; !f.Broken(at) {
		f.Errorf(at, "", "%s", s.Text)
	}
}

func (k *kafkaSourceConfig) check(f *yamldoc.Decoder, path string) {
	if k.TLS != nil {
		k.TLS.check(f, path+".tls")
	}
	if f.Broken(path) {
		return
	}
	if _, err := k.Client(""); err != nil {
		for _, text := range lines(err, "") {
			f.Errorf(path, "", "%s", text)
		}
	}
	host, _ := os.Hostname()
	settingProblems(f, path, k.Settings.Validate(host))
}

// Client says how to reach the brokers. name tells the metrics of the client from others.
func (k *kafkaSourceConfig) Client(name string) (kafkaclient.Options, error) {
	o := k.Options
	o.Name = name
	var err error
	if o.TLS, err = k.TLS.enabled(); err != nil {
		return o, fmt.Errorf("tls: %w", err)
	}
	return o, o.Validate()
}
