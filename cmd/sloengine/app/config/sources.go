package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"time"

	httpconfig "github.com/prometheus/common/config"

	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/ingest/source/kafka"
	"github.com/sloengine/sloengine/ingest/source/series"
	"github.com/sloengine/sloengine/reliability/kafkaclient"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// Source is one place that events come from. It is of exactly one kind.
type Source struct {
	Name            string             `yaml:"name" is:"required"`
	Kafka           *kafkaSourceConfig `yaml:"kafka"`
	RabbitMQQueue   *rabbitSource      `yaml:"rabbitmq"`
	DeadLetterQueue *rabbitHandler     `yaml:"rabbitmq_dead_letters"`
	Outbox          *OutboxSource      `yaml:"outbox"`
	Prometheus      *PrometheusSource  `yaml:"prometheus"`
	source.Settings `yaml:",inline"`
}

func (s *Source) prefill(*Config) { s.Settings = source.Defaults() }

// Kind is what the source reads, for people.
func (s *Source) Kind() string { return append(s.kinds(), "kafka")[0] }

// kinds lists the kinds that are written.
func (s *Source) kinds() []string {
	return given(kind{"kafka", s.Kafka != nil}, kind{"rabbitmq", s.RabbitMQQueue != nil},
		kind{"rabbitmq_dead_letters", s.DeadLetterQueue != nil}, kind{"outbox", s.Outbox != nil},
		kind{"prometheus", s.Prometheus != nil})
}

// PrometheusSource is a Prometheus whose series are read, or that writes them, for the SLOs with a `prometheus`
// indicator.
type PrometheusSource struct {
	// URL are the servers, each of which is read on its own.
	URL        yamldoc.OneOrList[string] `yaml:"url"`
	httpAccess `yaml:",inline"`
	// ExternalLabels are those of servers that do not tell them, by URL.
	ExternalLabels  map[string]map[string]string `yaml:"external_labels"`
	Receive         bool                         `yaml:"receive"`
	HA              *series.HA                   `yaml:"ha"`
	series.Settings `yaml:",inline"`
	Services        []string `yaml:"services"` // whose SLOs it reads; none: those of all services
	// Alerts is who alerts; "": the rules if they are in the Prometheus, else the engine.
	Alerts slo.AlertsBy `yaml:"alerts" one:"rules live both"`
}

func (p *PrometheusSource) prefill(*Config) { p.Settings = series.Defaults() }

// HasExternal reports whether series have the external labels of their servers.
func (p *PrometheusSource) HasExternal() bool { return len(p.URL) > 1 || len(p.ExternalLabels) > 0 }

// Client reads files with secrets again for each request.
func (p *PrometheusSource) Client() (*http.Client, error) {
	return httpconfig.NewClientFromConfig(p.client(), "prometheus")
}

// checkSource checks a source, of which one may receive.
func (p *PrometheusSource) checkSource(f *yamldoc.Decoder, path string, another bool) {
	switch h := p.HA; {
	case !p.Receive && h != nil:
		f.Errorf(path+".ha", "set receive, or select one replica in the indicators", "is for samples that are received")
	case !p.Receive:
		p.checkServers(f, path)
		p.checkAccess(f, path)
	case len(p.URL) > 0 || p.ExternalLabels != nil || !reflect.DeepEqual(p.httpAccess, httpAccess{}):
		f.Errorf(path+".receive", "leave out url and its settings, or receive", "samples are received, or read from url")
	case p.History != 0:
		f.Errorf(path+".history", "leave it out", "nothing is read from a Prometheus that writes")
	case another:
		f.Errorf(path+".receive", "one source takes what all of them write", "another source receives, too")
	case h != nil && h.Cluster == h.Replica && h.Cluster != "":
		f.Errorf(path+".ha.replica", "as in {cluster: cluster, replica: __replica__}", "is the label of the cluster, too")
	}
}

// checkServers checks the URLs, and that no two servers may scrape the same.
func (p *PrometheusSource) checkServers(f *yamldoc.Decoder, path string) {
	const example = "http://prometheus.example:9090"
	switch {
	case f.Broken(path + ".url"):
		return
	case len(p.URL) == 0 || len(p.URL) == 1 && p.URL[0] == "":
		f.Errorf(path+".url", "as in "+example, "missing")
		return
	case len(p.URL) > series.MaxServers:
		f.Errorf(path+".url", "write the others in another source, with services",
			"has %d servers, and at most %d are read", len(p.URL), series.MaxServers)
		return
	case len(p.URL) == 1:
		checkServerURL(f, path+".url", p.URL[0], example)
	default:
		for i, url := range p.URL {
			if at := item(path+".url", i); slices.Contains(p.URL[:i], url) {
				f.Errorf(at, "leave one of them out", "the server is there twice, and its events would count twice")
			} else {
				checkServerURL(f, at, url, example)
			}
		}
	}
	urls := slices.Sorted(maps.Keys(p.ExternalLabels))
	for i, url := range urls {
		at := path + ".external_labels." + url
		if !slices.Contains(p.URL, url) {
			f.Errorf(at, "write it as in url", "is no server of the source")
		}
		for _, name := range slices.Sorted(maps.Keys(p.ExternalLabels[url])) {
			switch value := p.ExternalLabels[url][name]; {
			case !labelName.MatchString(name) || name == "__name__":
				f.Errorf(at+"."+name, "letters, digits and underscore, as in prometheus.yml",
					"%q is not a name for an external label", name)
			case len(value) > maxExternal:
				f.Errorf(at+"."+name, "", "has %d bytes, and at most %d are a group", len(value), maxExternal)
			}
		}
		for _, other := range urls[:i] {
			if series.SameServers(p.ExternalLabels[url], p.ExternalLabels[other]) {
				f.Errorf(at, "give each server its own, or let replicas write to a source with receive and ha",
					"are those of %s, whose events would count twice", other)
			}
		}
	}
}

// maxExternal bounds the value of an external label: that of an attribute of an event.
const maxExternal = 1024

// Receiver is the source that samples are written to; nil: there is none.
func Receiver(sources []Source) *Source {
	for i := range sources {
		if p := sources[i].Prometheus; p != nil && p.Receive {
			return &sources[i]
		}
	}
	return nil
}

// AssignSources gives the SLOs on series of Prometheus the first source that can take them, which counts them. Of
// queries only those of native histograms can be received.
func (c *Config) AssignSources(slos []*slo.SLO) {
	for _, s := range slos {
		in := &s.Indicator
		if in.Kind != slo.KindPrometheus {
			continue
		}
		for i := range c.Sources {
			p := c.Sources[i].Prometheus
			if p != nil && (len(p.Services) == 0 || slices.Contains(p.Services, s.ID.Service())) &&
				(!p.Receive || in.PromForm() == slo.PromCounters || NativeSelector(in, p.Window()) != "") {
				in.PromSource, in.PromAlerts = c.Sources[i].Name, cmp.Or(s.Alerting.By, p.Alerts)
				if in.PromForm() != slo.PromCounters && !p.Receive {
					in.PromEvery = series.Every(p.Interval, s.JudgedSlice())
				}
				break
			}
		}
	}
}

// NativeSelector is the selector of the native histograms that an indicator counts of, which can be received; "": none.
func NativeSelector(in *slo.Indicator, window time.Duration) string {
	return series.NativeSelector(slo.PromAt(in.PromTotalQuery, window),
		slo.PromAt(in.PromBadQuery+in.PromGoodQuery, window))
}

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
		case anyBroken(f, path, "kafka", "rabbitmq", "rabbitmq_dead_letters", "outbox", "prometheus"):
		case !oneKind(f, path, s.kinds(), "source", "add kafka, rabbitmq, rabbitmq_dead_letters, outbox or prometheus",
			"the source reads from nowhere"):
		case s.Kafka != nil:
			s.Kafka.check(f, path+".kafka")
		case s.RabbitMQQueue != nil:
			checkRabbitMQ(f, path+".rabbitmq", &s.RabbitMQQueue.rabbitBroker, s.RabbitMQQueue.Validate())
		case s.Outbox != nil:
			s.Outbox.check(f, path+".outbox")
		case s.Prometheus != nil:
			s.Prometheus.checkSource(f, path+".prometheus", Receiver(c.Sources[:i]) != nil)
		default:
			o := s.DeadLetterQueue.options()
			checkRabbitMQ(f, path+".rabbitmq_dead_letters", &s.DeadLetterQueue.rabbitBroker, o.Validate())
		}
		settingProblems(f, path, s.Validate(s.Outbox != nil))
	}
}

// settingProblems reports what a component says about its settings.
func settingProblems(f *yamldoc.Decoder, path string, err error) {
	for _, err := range split(err) {
		if s, ok := errors.AsType[*source.SettingError](err); !ok {
			f.Errorf(path, "", "%v", err)
		} else if at := path + "." + s.Key; !f.Broken(at) {
			f.Errorf(at, "", "%s", s.Text)
		}
	}
}

func (k *kafkaSourceConfig) check(f *yamldoc.Decoder, path string) {
	k.TLS.check(f, path+".tls")
	if f.Broken(path) {
		return
	}
	_, err := k.Client("")
	problems(f, path, "", err)
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
