package config

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	httpconfig "github.com/prometheus/common/config"
	exporter "github.com/prometheus/exporter-toolkit/web"
	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/ingest"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/otlp"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// DataDir is the data directory of an engine.
type DataDir struct {
	Dir string   // "": unknown
	Own []string // the names in it that the engine uses
}

// StartProblems are what engine.yaml alone does not show: problems with the files and folders that it names, with the
// spec, and with the data directory. The errors keep an engine from starting. It reads files and changes nothing.
func (c *Config) StartProblems(known *Known, data DataDir) (out yamldoc.Problems) {
	if c.places == nil {
		return nil
	}
	warn := func(path, hint, format string, args ...any) {
		out = append(out, c.problem(yamldoc.SeverityWarning, path, hint, format, args...))
	}
	fail := func(path, hint, format string, args ...any) {
		out = append(out, c.problem(yamldoc.SeverityError, path, hint, format, args...))
	}
	c.find(warn)
	for i := range c.Sources {
		c.Sources[i].adviseRabbitMQ(item("sources", i), known, warn)
	}
	if _, err := ReadWebConfig(c.Web.ConfigFile); err != nil {
		fail("web.config_file", "", "%v", err)
	}
	out = append(out, c.tokenProblems()...)
	if known != nil {
		c.checkGroups(known.Groups, fail)
		c.checkSampling(known.Traced, fail)
	}
	for _, d := range c.folders() {
		if err := fsys.CheckFolder(d.dir); err != nil {
			report := warn // sinks and reports hold up no start, and work once the folder is there
			if d.path == "dead_letters.dir" {
				report = fail
			}
			report(d.path, "want a folder that the engine may write to", "%v", err)
		} else if why := data.conflict(d.dir); why != "" && !(d.path == "dead_letters.dir" && why == engine.DeadLetterDir) {
			fail(d.path, "set a separate directory", "%s is the engine's own, in the data directory", d.dir)
		}
	}
	return out
}

// checkSampling refuses to follow work over spans of which some are missing: work whose end was not sent looks late,
// and work whose start was not sent is unknown.
func (c *Config) checkSampling(traced map[string]slo.ID, fail func(path, hint, format string, args ...any)) {
	for _, service := range slices.Sorted(maps.Keys(c.OTLP.Sampling)) {
		if id, ok := traced[service]; ok && c.OTLP.Sampling[service] < 1 {
			fail("otlp.sampling."+service,
				"send all spans of "+service+" and remove the entry, or let the SLO count single spans",
				"%s follows work by %s, which needs every span", id, otlp.TraceID)
		}
	}
}

// tokenProblems reads the tokens file, and looks up the tokens that limits name.
func (c *Config) tokenProblems() (out yamldoc.Problems) {
	if c.Auth.TokensFile == "" {
		return nil
	}
	tokens, err := ingest.LoadTokens(c.Auth.TokensFile)
	for _, err := range split(err) {
		var at *yamldoc.Error
		if errors.As(err, &at) {
			out = append(out, at.Problem)
		} else {
			out = append(out, c.problem(yamldoc.SeverityError, "auth.tokens_file", "", "%v", err))
		}
	}
	if err != nil || c.Limits == nil {
		return out
	}
	for i, b := range c.Limits.Bypass {
		for j, name := range b.Tokens {
			if !slices.Contains(tokens.Names(), name) {
				out = append(out, c.problem(yamldoc.SeverityError, item(item("limits.bypass", i)+".tokens", j),
					"name a token of auth.tokens_file", "unknown token %q", name))
			}
		}
	}
	return out
}

// checkGroups reports services that could have more groups than their budgets. Every SLO and event threshold is bounded
// by its own max_groups, so their sum bounds the service.
func (c *Config) checkGroups(sums map[string]int, fail func(path, hint, format string, args ...any)) {
	for _, service := range slices.Sorted(maps.Keys(sums)) {
		if i, most := c.maxGroups(service); most > 0 && sums[service] > most {
			fail(item("budgets", i)+".groups", "lower max_groups in the spec, or raise it",
				"service %s: its SLOs and event thresholds may have %d groups, and its budget is %d", service, sums[service], most)
		}
	}
}

// folder is one that the engine writes to, with its path in the settings.
type folder struct{ path, dir string }

func (c *Config) folders() (out []folder) {
	add := func(path, dir string) {
		if dir != "" {
			out = append(out, folder{path, dir})
		}
	}
	add("dead_letters.dir", c.DeadLetters.Dir)
	for i := range c.Sinks {
		if f := c.Sinks[i].File; f != nil {
			add(item("sinks", i)+".file.dir", f.Dir)
		}
	}
	for i := range c.Reports {
		add(item("reports", i)+".to.folder", c.Reports[i].To.Folder)
	}
	return out
}

// conflict is the name in the data directory that a folder is, or lies in; "." is the directory itself, "" none.
func (d DataDir) conflict(dir string) string {
	if d.Dir == "" {
		return ""
	}
	rel, err := filepath.Rel(fsys.Resolve(d.Dir), fsys.Resolve(dir))
	if err != nil || !filepath.IsLocal(rel) {
		return ""
	}
	for name := rel; ; name = filepath.Dir(name) {
		if rel == "." || slices.Contains(d.Own, name) {
			return rel
		}
		if name == "." {
			return ""
		}
	}
}

// WebConfig is what a web.config_file puts in front of every request.
type WebConfig struct {
	TLS *struct {
		Cert      string `yaml:"cert_file"`
		Key       string `yaml:"key_file"`
		ClientCAs string `yaml:"client_ca_file"`
	} `yaml:"tls_server_config"`
	Users map[string]string `yaml:"basic_auth_users"`
}

// ReadWebConfig reads and checks the file; "" is an empty one.
func ReadWebConfig(file string) (w WebConfig, err error) {
	if file == "" {
		return w, nil
	}
	data, err := readSmall(file)
	if err != nil {
		return w, err
	}
	if err := yaml.Unmarshal(data, &w); err == nil && w.TLS != nil {
		for _, name := range []string{w.TLS.Cert, w.TLS.Key, w.TLS.ClientCAs} {
			if name == "" {
				continue
			}
			if err := fsys.CheckFile(httpconfig.JoinDir(filepath.Dir(file), name), maxSmall); err != nil {
				return w, err
			}
		}
	}
	if err := exporter.Validate(file); err != nil {
		return w, fmt.Errorf("%s: %w", file, err)
	}
	return w, nil
}
