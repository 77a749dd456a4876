package main

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamlgen"
)

// prometheusFlags say whom Prometheus scrapes and notifies.
type prometheusFlags struct {
	engines       []string
	relays        []string
	alertmanagers []string
	tokenFile     string
}

func (f *prometheusFlags) add(p *pflag.FlagSet) {
	p.StringArrayVar(&f.engines, "engine-url", []string{"http://127.0.0.1:8080"},
		"URL of an engine that Prometheus scrapes (repeatable)")
	p.StringArrayVar(
		&f.relays, "relay-url", nil, "URL of the http listener of a relay that Prometheus scrapes (repeatable)")
	p.StringArrayVar(&f.alertmanagers, "alertmanager-url", []string{"http://127.0.0.1:9093"},
		"URL of an Alertmanager that Prometheus notifies (repeatable)")
	p.StringVar(
		&f.tokenFile, "scrape-token-file", "", "file on Prometheus' machine with a token of the engines, permission read")
}

// The parts of Prometheus' configuration that are generated. Empty ones are left out.
type (
	prometheusConfig struct {
		Global   prometheusGlobal   `yaml:"global"`
		Rules    []string           `yaml:"rule_files"`
		Alerting prometheusAlerting `yaml:"alerting,omitempty"`
		Scrape   []prometheusJob    `yaml:"scrape_configs,omitempty"`
	}
	prometheusGlobal struct {
		Scrape   string `yaml:"scrape_interval"`
		Evaluate string `yaml:"evaluation_interval"`
	}
	prometheusAlerting struct {
		Alertmanagers []prometheusPeer `yaml:"alertmanagers,omitempty"`
	}
	prometheusPeer struct {
		Scheme string             `yaml:"scheme,omitempty"`
		Prefix string             `yaml:"path_prefix,omitempty"`
		Static []prometheusStatic `yaml:"static_configs"`
	}
	prometheusJob struct {
		Name          string             `yaml:"job_name"`
		HonorLabels   bool               `yaml:"honor_labels"`
		Scheme        string             `yaml:"scheme,omitempty"`
		Path          string             `yaml:"metrics_path,omitempty"`
		Authorization *prometheusToken   `yaml:"authorization,omitempty"`
		Static        []prometheusStatic `yaml:"static_configs"`
	}
	prometheusToken struct {
		File string `yaml:"credentials_file"`
	}
	prometheusStatic struct {
		Targets []string `yaml:"targets"`
	}
)

// prometheusHeader says what the settings are for, since the file is the one that people edit.
const prometheusHeader = ruleHeader + `
scrape_interval: the rules assume it. Generate them again with --scrape-interval if you change it.`

const prometheusJobHeader = `
honor_labels: series carry the service that they describe, which must not become exported_service.`

// prometheusYAML writes Prometheus' configuration: the scrape of the engines, the generated rules, the Alertmanagers.
func (g *generator) prometheusYAML(out emit) error {
	if g.operator {
		return nil // a ServiceMonitor takes its place
	}
	interval := slo.FormatDuration(g.rules.Scrape)
	c := prometheusConfig{
		Global: prometheusGlobal{Scrape: interval, Evaluate: interval},
		Rules:  []string{"rules/*.yaml"},
	}
	peers, err := targets("--alertmanager-url", g.prometheus.alertmanagers)
	if err != nil {
		return err
	}
	for _, t := range peers {
		c.Alerting.Alertmanagers = append(c.Alerting.Alertmanagers, prometheusPeer{t.scheme, t.path, t.static()})
	}
	var engines []string
	if g.engine {
		engines = g.prometheus.engines
	}
	for _, of := range []struct {
		job, flag string
		urls      []string
		tokens    bool // relays have none
	}{{"sloengine", "--engine-url", engines, true}, {"sloengine-relay", "--relay-url", g.prometheus.relays, false}} {
		all, err := targets(of.flag, of.urls)
		if err != nil {
			return err
		}
		for i, t := range all {
			job := prometheusJob{Name: of.job, HonorLabels: true, Scheme: t.scheme, Static: t.static()}
			if i > 0 {
				job.Name = fmt.Sprintf("%s-%d", of.job, i+1)
			}
			if t.path != "" {
				job.Path = t.path + "/metrics"
			}
			if g.prometheus.tokenFile != "" && of.tokens {
				job.Authorization = &prometheusToken{g.prometheus.tokenFile}
			}
			c.Scrape = append(c.Scrape, job)
		}
	}
	header := prometheusHeader
	if len(c.Scrape) > 0 {
		header += prometheusJobHeader
	}
	return out(outFile{"prometheus.yaml", yamlgen.Document(header, c)})
}

// target is the addresses that share scheme and path, which are settings of a whole job.
type target struct {
	scheme, path string // "" for http and for no path
	hosts        []string
}

func (t target) static() []prometheusStatic { return []prometheusStatic{{t.hosts}} }

// targets groups URLs by scheme and path, in the order of their first URL.
func targets(flag string, urls []string) (out []target, err error) {
	for _, text := range urls {
		if err := remote.CheckBaseURL(text, ""); err != nil {
			return nil, cli.Usagef("invalid %s: %v (want an address such as http://127.0.0.1:8080)", flag, err)
		}
		u, err := url.Parse(text)
		if err != nil {
			return nil, err // checked above
		}
		host := u.Host
		if u.Port() == "" {
			host += map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
		}
		t := target{path: strings.TrimRight(u.Path, "/")}
		if u.Scheme == "https" {
			t.scheme = u.Scheme
		}
		same := slices.IndexFunc(out, func(o target) bool { return o.scheme == t.scheme && o.path == t.path })
		if same < 0 {
			same, out = len(out), append(out, t)
		}
		if slices.Contains(out[same].hosts, host) {
			return nil, cli.Usagef("invalid %s %q (it is listed twice, and its events would count twice)", flag, text)
		}
		out[same].hosts = append(out[same].hosts, host)
	}
	return out, nil
}
