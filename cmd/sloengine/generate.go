package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/alertmanager"
	"github.com/sloengine/sloengine/cmd/sloengine/config"
	"github.com/sloengine/sloengine/dashboards"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/slo"
)

// ruleHeader is the first comment of every generated rule file.
const ruleHeader = "Made by sloengine from the spec; changes are lost when it is made again."

// generateFlags are the flags of all subcommands of generate.
type generateFlags struct {
	files     specFiles
	out       string
	prune     bool
	names     string
	format    string
	scrape    string
	from      string
	until     string
	page      string
	dashboard string
	runbooks  string
	receivers string
	config    string
	namespace string
	labels    []string
}

func newGenerate(s streams) *cobra.Command {
	var f generateFlags
	c := &cobra.Command{
		Use:   "generate",
		Short: "Write Prometheus rules, rule tests, Alertmanager routing and Grafana dashboards",
		Long: `generate writes Prometheus, Alertmanager and Grafana configuration for specs in the
sloengine, Sloth or OpenSLO format. Its output is deterministic: the same specs and flags
give the same bytes.

Calendar windows and planned maintenance become time tables that cover --from to --until,
by default six months from the first day of this month. An alert fires before they end,
in time to generate new ones.`,
		Example: `  sloengine generate all -f specs/ --out out/
  sloengine generate rules -f specs/ --out out/ --names sloth
  sloengine generate rules -f spec.yaml --out -`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return usageError{errors.New("nothing selected: generate takes rules, tests, alertmanager, dashboards, k8s or all")}
		},
	}
	p := c.PersistentFlags()
	f.files.add(p)
	p.StringVar(&f.out, "out", "out", "folder to write to, or - for standard output")
	p.BoolVar(&f.prune, "prune", false, "remove files that an earlier run generated and this run did not")
	addChoice(p, &f.names, "names", "", "naming scheme of series and labels", "own", "sloth")
	addChoice(p, &f.format, "format", "", "rule files (prometheus) or PrometheusRule manifests (operator)", "prometheus", "operator")
	p.StringVar(&f.scrape, "scrape-interval", "15s", "how often Prometheus scrapes the counters")
	p.StringVar(&f.from, "from", "", "start of the time tables, RFC 3339 (default: first day of this month)")
	p.StringVar(&f.until, "until", "", "end of the time tables, RFC 3339 (default: six months after --from)")
	p.StringVar(&f.page, "page-url", "", "URL of the status page, for links (default: no links)")
	p.StringVar(&f.dashboard, "dashboard-url", "", "URL of Grafana, for links in alerts (default: no links)")
	p.StringVar(&f.runbooks, "runbook-url", "", "URL of the runbooks, for links")
	p.StringVarP(&f.config, "config", "c", "", "engine settings (engine.yaml), for URLs that are not given and the thresholds of alerts about the engine")
	p.StringVar(&f.receivers, "receivers", "", "file with the Alertmanager receivers")
	p.StringVar(&f.namespace, "namespace", "", "namespace of Kubernetes manifests")
	p.StringArrayVar(&f.labels, "manifest-label", nil, "label of Kubernetes manifests, name=value (repeatable)")
	for _, kind := range []struct{ name, short string }{
		{"rules", "Recording rules and alert rules, one file of each per service"},
		{"tests", "Unit tests of the rules, for promtool test rules"},
		{"alertmanager", "Alertmanager routes, receivers, inhibition rules and mute times"},
		{"dashboards", "Grafana dashboards and their provisioning file"},
		{"k8s", "PrometheusRule and ConfigMap manifests"},
		{"all", "All of the above"},
	} {
		c.AddCommand(&cobra.Command{
			Use: kind.name, Short: kind.short, Args: noArgs,
			RunE: func(*cobra.Command, []string) error { return f.run(s, kind.name) },
		})
	}
	return c
}

// generator is one run of generate, with its flags parsed.
type generator struct {
	in         rules.Spec
	services   []string
	rules      rules.Options
	alerts     alerts.Options
	dimensions []string
	receivers  *alertmanager.Receivers
	operator   bool
	namespace  string
	labels     map[string]string
	findings   []alerts.Finding
}

func (f *generateFlags) run(s streams, kind string) error {
	g, err := f.generator(s)
	if err != nil {
		return err
	}
	write, finish, err := f.output(s)
	if err != nil {
		return err
	}
	var scope []string
	for _, part := range []struct {
		kind, scope string
		make        func(emit) error
	}{
		{"rules", "rules", g.ruleFiles},
		{"tests", "tests", g.testFiles},
		{"alertmanager", "alertmanager.yaml", g.alertmanager},
		{"dashboards", "dashboards", g.dashboards},
		{"k8s", "k8s", g.manifests},
	} {
		if kind != "all" && kind != part.kind {
			continue
		}
		if err := part.make(write); err != nil {
			return fmt.Errorf("generate %s: %w", part.kind, err)
		}
		scope = append(scope, part.scope)
	}
	g.printFindings(s.err)
	return finish(scope)
}

// emit takes one generated file.
type emit func(outFile) error

// output is where files go: the folder of --out, or standard output.
func (f *generateFlags) output(s streams) (emit, func(scope []string) error, error) {
	if f.out == "-" {
		return func(file outFile) error {
			fmt.Fprintf(s.out, "# --- %s\n", file.path)
			_, err := s.out.Write(file.data)
			return err
		}, func([]string) error { return nil }, nil
	}
	o, err := openOut(f.out, s.err)
	if err != nil {
		return nil, nil, err
	}
	return o.add, func(scope []string) error { return o.close(scope, f.prune) }, nil
}

func (f *generateFlags) generator(s streams) (*generator, error) {
	sp, err := f.files.read(s)
	if err != nil {
		return nil, fmt.Errorf("%w; nothing was written", err)
	}
	g := &generator{
		in:        rulesSpec(sp),
		operator:  f.format == "operator",
		namespace: f.namespace,
		labels:    map[string]string{},
	}
	for _, l := range f.labels {
		name, value, ok := strings.Cut(l, "=")
		if !ok {
			return nil, usageError{fmt.Errorf("invalid --manifest-label %q (want name=value)", l)}
		}
		g.labels[name] = value
	}
	for _, service := range sp.Services {
		for _, d := range service.Dimensions {
			if !slices.Contains(g.dimensions, d) {
				g.dimensions = append(g.dimensions, d)
			}
		}
	}
	seen := map[string]bool{}
	for _, o := range sp.SLOs {
		seen[o.ID.Service()] = true
	}
	for _, a := range sp.Agreements {
		seen[a.Service] = true
	}
	g.services = slices.Sorted(maps.Keys(seen))
	return g, f.options(g)
}

func (f *generateFlags) options(g *generator) (err error) {
	var o rules.Options
	if f.names == "sloth" {
		o.Names = rules.Sloth
	}
	if o.Scrape, err = slo.ParseDuration(f.scrape); err != nil {
		return usageError{fmt.Errorf("invalid --scrape-interval: %w", err)}
	}
	now := time.Now().UTC()
	o.From = time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	if f.from != "" {
		if o.From, err = time.Parse(time.RFC3339, f.from); err != nil {
			return usageError{fmt.Errorf("invalid --from %q (want RFC 3339, such as 2026-11-01T00:00:00Z)", f.from)}
		}
	}
	o.Until = o.From.AddDate(0, 6, 0)
	if f.until != "" {
		if o.Until, err = time.Parse(time.RFC3339, f.until); err != nil {
			return usageError{fmt.Errorf("invalid --until %q (want RFC 3339, such as 2027-05-01T00:00:00Z)", f.until)}
		}
	}
	settings, err := config.Load(f.config)
	if err != nil {
		return err
	}
	links := settings.AlertOptions() // those of the live alerts
	o.PageURL, o.DashboardURL, o.RunbookURL = cmp.Or(f.page, links.PageURL), cmp.Or(f.dashboard, links.DashboardURL), cmp.Or(f.runbooks, links.RunbookURL)
	g.rules = o
	g.alerts = alerts.Options{Options: o, Engine: settings.Alerts}
	g.receivers = &alertmanager.Receivers{Receivers: []alertmanager.Receiver{{Name: "nobody", Discard: true}}, Default: "nobody"}
	if f.receivers != "" {
		data, err := os.ReadFile(f.receivers)
		if err != nil {
			return fmt.Errorf("read receivers: %w", err)
		}
		if g.receivers, err = alertmanager.ReadReceivers(f.receivers, data); err != nil {
			return err
		}
	}
	return nil
}

// of is the part of the spec that belongs to one service.
func (g *generator) of(service string) rules.Spec {
	var out rules.Spec
	for _, s := range g.in.SLOs {
		if s.ID.Service() == service {
			out.SLOs = append(out.SLOs, s)
		}
	}
	for _, l := range g.in.Thresholds {
		if l.Service == service {
			out.Thresholds = append(out.Thresholds, l)
		}
	}
	for _, a := range g.in.Agreements {
		if a.Service == service {
			out.Agreements = append(out.Agreements, a)
		}
	}
	return out
}

// ruleSet is the content of one rule file.
type ruleSet struct {
	name   string
	groups []rules.Group
}

// ruleSets makes the rules of every service, one at a time, and those about the engine.
func (g *generator) ruleSets(take func(ruleSet) error) error {
	for _, service := range g.services {
		part := g.of(service)
		recording, err := rules.Recording(part, g.rules)
		if err != nil {
			return fmt.Errorf("service %s: %w", service, err)
		}
		if err := take(ruleSet{service + ".recording", recording}); err != nil {
			return err
		}
		o := g.alerts
		o.NoEngine = true
		firing, err := alerts.Rules(part, o)
		if err != nil {
			return fmt.Errorf("service %s: %w", service, err)
		}
		if len(firing) == 0 {
			continue
		}
		if err := take(ruleSet{service + ".alerts", firing}); err != nil {
			return err
		}
	}
	engine, err := alerts.Rules(rules.Spec{}, g.alerts)
	if err != nil {
		return fmt.Errorf("alerts about the engine: %w", err)
	}
	name := "sloengine"
	for slices.Contains(g.services, name) {
		name += "-engine" // otherwise it would overwrite the file of that service
	}
	return take(ruleSet{name + ".alerts", engine})
}

func (g *generator) ruleFiles(out emit) error {
	if g.operator {
		return g.prometheusRules("rules", out)
	}
	return g.ruleSets(func(set ruleSet) error {
		return out(outFile{"rules/" + set.name + ".yaml", rules.File(ruleHeader, set.groups)})
	})
}

func (g *generator) testFiles(out emit) error {
	files, err := alerts.Tests(g.in, g.alerts)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := out(outFile{"tests/" + f.Name, f.YAML}); err != nil {
			return err
		}
	}
	return nil
}

func (g *generator) alertmanager(out emit) error {
	data, findings, err := alertmanager.Config(g.in, alertmanager.Options{
		Receivers: *g.receivers, From: g.rules.From, Until: g.rules.Until, Header: ruleHeader,
	})
	if err != nil {
		return err
	}
	g.findings = append(g.findings, findings...)
	if g.receivers.Default == "nobody" {
		g.findings = append(g.findings, alerts.Finding{
			Severity: alerts.FindingWarning, Message: "no receivers are configured, so Alertmanager notifies nobody",
			Hint: "set --receivers FILE",
		})
	}
	return out(outFile{"alertmanager.yaml", data})
}

func (g *generator) dashboards(out emit) error {
	boards, err := dashboards.All(g.in, dashboards.Options{Options: g.rules, Dimensions: g.dimensions})
	if err != nil {
		return err
	}
	for _, d := range boards {
		if err := out(outFile{"dashboards/" + d.FileName, d.JSON}); err != nil {
			return err
		}
	}
	return out(outFile{"dashboards/" + dashboards.ProviderFile, []byte(dashboards.Provider)})
}

// manifests writes rules and dashboards as Kubernetes manifests.
func (g *generator) manifests(out emit) error {
	if err := g.prometheusRules("k8s", out); err != nil {
		return err
	}
	boards, err := dashboards.All(g.in, dashboards.Options{Options: g.rules, Dimensions: g.dimensions})
	if err != nil {
		return err
	}
	maps, err := dashboards.ConfigMaps(boards, g.namespace)
	if err != nil {
		return err
	}
	for _, m := range maps {
		if err := out(outFile{"k8s/" + m.FileName, m.YAML}); err != nil {
			return err
		}
	}
	return nil
}

// prometheusRules writes each rule file as a PrometheusRule manifest.
func (g *generator) prometheusRules(dir string, out emit) error {
	return g.ruleSets(func(set ruleSet) error {
		name := "slo-" + strings.Trim(strings.NewReplacer(".", "-", "_", "-").Replace(set.name), "-")
		return out(outFile{dir + "/" + name + ".yaml", rules.Manifest(ruleHeader, name, g.namespace, g.labels, set.groups)})
	})
}

func (g *generator) printFindings(w io.Writer) {
	g.findings = append(g.findings, alerts.Lint(g.in, alerts.LintOptions{Options: g.alerts})...)
	for _, f := range g.findings {
		line := string(f.Severity) + ": "
		if f.SLO != "" {
			line += string(f.SLO) + ": "
		}
		line += f.Message
		if f.Hint != "" {
			line += " (" + f.Hint + ")"
		}
		fmt.Fprintln(w, line)
	}
}
