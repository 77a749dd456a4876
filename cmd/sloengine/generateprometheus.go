package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	httpconfig "github.com/prometheus/common/config"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/cmd/sloengine/promapi"
	"github.com/sloengine/sloengine/ingest/source/series"
	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/rules"
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

type relabelConfig struct {
	Labels []string `yaml:"source_labels,flow"`
	Regex  string   `yaml:"regex"`
	Action string   `yaml:"action"`
}

// newRelabelCommand makes "generate relabel", which prints what a Prometheus leaves out of remote write.
func newRelabelCommand(s cli.Streams, files *cli.SpecFiles) *cobra.Command {
	return &cobra.Command{
		Use: "relabel", Short: "The write_relabel_configs that send an engine only the counters that it counts",
		Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			sp, err := files.Read(s)
			if err != nil {
				return err
			}
			var units []series.Unit
			for _, one := range sp.SLOs {
				in := &one.Indicator
				if native := config.NativeSelector(in, time.Minute); native != "" {
					units = append(units, series.Unit{Total: native, Part: native})
				} else if in.PromForm() == slo.PromCounters {
					units = append(units, series.Unit{Total: in.PromTotal, Part: in.PromBad + in.PromGood})
				}
			}
			if len(units) == 0 {
				return errors.New("no SLO of the spec counts two counters or a native histogram of a Prometheus")
			}
			labels, expr, err := series.Relabel(units)
			if err != nil {
				return err
			}
			out, err := yaml.Marshal(map[string][]relabelConfig{"write_relabel_configs": {{labels, expr, "keep"}}})
			if err == nil {
				_, err = s.Out.Write(out)
			}
			return err
		},
	}
}

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

// pushFlags say where rule groups go instead of into files.
type pushFlags struct {
	to, url, path, tenant, http, prefix string
	dryRun                              bool
}

func (f *pushFlags) add(c *cobra.Command) {
	p := c.Flags()
	cli.AddChoice(p, &f.to, "push", "", "send the rule groups to a rule API instead of writing files", "none", "mimir")
	p.StringVar(&f.url, "push-url", "", "URL of the rule API's server, such as http://mimir:8080")
	p.StringVar(&f.path, "push-path", "/prometheus/config/v1/rules",
		"path of the rule API: /api/v1/rules for Cortex, /api/prom/rules for Grafana Cloud")
	p.StringVar(&f.tenant, "push-tenant", "", "tenant, sent as X-Scope-OrgID (default: none)")
	p.StringVar(&f.http, "push-http-config", "",
		"file with basic_auth, authorization, oauth2 and tls_config, as promtool reads with --http.config.file")
	p.StringVar(&f.prefix, "push-prefix", "sloengine-",
		"first part of the namespaces; --prune removes groups of no other namespace")
	p.BoolVar(&f.dryRun, "dry-run", false, "print what --push would change, and change nothing")
}

func (f *pushFlags) active() bool { return f.to == "mimir" }

// check finds flags that need others, or exclude them.
func (f *pushFlags) check(p *pflag.FlagSet, operator bool) error {
	if !f.active() {
		for _, name := range []string{"push-url", "push-path", "push-tenant", "push-http-config", "push-prefix", "dry-run"} {
			if p.Changed(name) {
				return cli.Usagef("--%s requires --push mimir", name)
			}
		}
		return nil
	}
	switch {
	case operator:
		return cli.Usagef("--push sends rule groups, not manifests (remove --format operator)")
	case p.Changed("out"):
		return cli.Usagef("--push writes no files (remove --out, or --push)")
	case f.url == "":
		return cli.Usagef("--push requires --push-url, such as http://mimir:8080")
	case f.prefix == "":
		return cli.Usagef("--push-prefix must not be empty: it marks the namespaces that --prune may change")
	case strings.Trim(f.path, "/") == "":
		return cli.Usagef("invalid --push-path %q (want a path such as /prometheus/config/v1/rules)", f.path)
	}
	if err := remote.CheckBaseURL(f.url, "--push-http-config"); err != nil {
		return cli.Usagef("invalid --push-url: %v (want an address such as http://mimir:8080)", err)
	}
	return nil
}

func (f *pushFlags) ruler() (*promapi.Ruler, error) {
	u, err := url.Parse(f.url)
	if err != nil {
		return nil, err // checked
	}
	c := httpconfig.DefaultHTTPClientConfig
	if f.http != "" {
		read, _, err := httpconfig.LoadHTTPConfigFile(f.http)
		if err != nil {
			return nil, fmt.Errorf("read --push-http-config %s: %w", f.http, err)
		}
		c = *read
	}
	c.FollowRedirects = false // they would carry credentials elsewhere
	client, err := httpconfig.NewClientFromConfig(c, "push")
	if err != nil {
		return nil, fmt.Errorf("--push-http-config: %w", err)
	}
	return &promapi.Ruler{URL: u.JoinPath(f.path), Tenant: f.tenant, HTTP: client}, nil
}

// pushRules makes the groups on the server those of the spec. Groups that are equal are not sent.
func (f *generateFlags) pushRules(ctx context.Context, s cli.Streams) error {
	g, err := f.generator(s)
	if err != nil {
		return err
	}
	r, err := f.push.ruler()
	if err != nil {
		return err
	}
	at := r.URL.Redacted()
	have, err := r.Groups(ctx)
	if err != nil {
		return fmt.Errorf("list rule groups at %s: %w", at, err)
	}
	var p promapi.Push
	want := map[string][]promapi.RuleGroup{}
	err = g.ruleSets(func(set ruleSet) error {
		var file struct{ Groups []promapi.RuleGroup }
		namespace := f.push.prefix + set.name
		if err := yaml.Unmarshal(rules.File("", set.groups), &file); err != nil {
			return err
		}
		want[namespace] = promapi.Parts(file.Groups)
		p.Want(namespace, want[namespace], have[namespace])
		return nil
	})
	if err != nil {
		return fmt.Errorf("generate rules: %w", err)
	}
	for _, namespace := range slices.Sorted(maps.Keys(have)) {
		if strings.HasPrefix(namespace, f.push.prefix) {
			p.Unwanted(namespace, want[namespace], have[namespace], f.prune)
		}
	}
	g.printFindings(s.Err)
	for _, c := range p.Stale {
		fmt.Fprintf(s.Err, "stale: namespace %s, group %s is no longer generated; --prune removes it\n",
			cli.Printable(c.Namespace), cli.Printable(c.Name))
	}
	done, said := p, "would be "
	if f.push.dryRun {
		p.Print(s.Out)
	} else {
		said = ""
		done, err = p.Send(ctx, r)
	}
	fmt.Fprintf(s.Err, "%s: %d rule groups %sadded, %d changed, %d removed, %d unchanged\n", at, done.Count('+'), said,
		done.Count('~'), done.Count('-'), done.Equal)
	return err
}
