// Package config is engine.yaml: the settings of the process, read strictly, with their defaults, and checked as a
// whole. Every problem is reported with its line and column. A component receives its options from here.
//
// It starts nothing and knows neither the spec, which says what is counted, nor the order in which the process starts.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/reliability/deadline"
	"github.com/sloengine/sloengine/slo"
)

// Config is engine.yaml: the settings of the process. What is counted is in the
// spec files instead.
type Config struct {
	Environment environment `yaml:"environment"` // whose values are taken where they differ
	Ingest      struct {
		AllowedLateness Duration `yaml:"allowed_lateness" above:"0"`    // live events older than this are refused
		MaxFuture       Duration `yaml:"max_future" above:"0" max:"1d"` // events further ahead of the clock are refused
		MaxBody         Size     `yaml:"max_body" above:"0"`            // of a request, after decompression
		MaxEvent        Size     `yaml:"max_event" above:"0"`
		MaxBatch        int      `yaml:"max_batch" above:"0"`        // events in a request
		Queue           Size     `yaml:"queue" above:"0"`            // requests waiting for the disk; beyond: 503
		BodiesInFlight  Size     `yaml:"bodies_memory"`              // memory for bodies being read and decoded
		Deadline        Duration `yaml:"deadline" max:"10m"`         // of a request without X-Request-Deadline, from its last byte; 0: none
		DeadlineReserve Duration `yaml:"deadline_reserve" max:"10s"` // of any deadline, for the answer
	} `yaml:"ingest"`
	KnownIDs struct {
		Memory Size     `yaml:"memory" min:"1MiB"`
		MaxAge Duration `yaml:"max_age" above:"0"`
	} `yaml:"known_ids"`
	Parked struct {
		Memory Size `yaml:"memory"` // counts of SLOs that are not in the spec any more
	} `yaml:"parked"`
	Log struct {
		Segment Size `yaml:"segment" min:"1MiB"`
	} `yaml:"log"`
	Checkpoint struct {
		Interval Duration `yaml:"interval" above:"0"`
		Log      Size     `yaml:"log" above:"0"` // at the latest after this much log
	} `yaml:"checkpoint"`
	Evaluator struct {
		Interval Duration `yaml:"interval" above:"0"`
	} `yaml:"evaluator"`
	Disk struct {
		LowWater Size `yaml:"low_water"` // below it no events are taken
	} `yaml:"disk"`
	Auth struct {
		TokensFile string `yaml:"tokens_file" is:"file"`
	} `yaml:"auth"`
	Web struct {
		ConfigFile  string `yaml:"config_file" is:"file"` // TLS and basic auth
		ExternalURL string `yaml:"external_url"`          // as users see it, behind a proxy
		// Host names that requests may be for besides localhost, as long as the engine
		// listens on loopback without credentials.
		AllowedHosts []string `yaml:"allowed_hosts"`
		Pprof        bool     `yaml:"pprof"`

		MaxConnections  int  `yaml:"max_connections" above:"0"`   // fewer if the limit of open files says so
		ResponsesMemory Size `yaml:"responses_memory" min:"1MiB"` // for responses being made, sent or kept; beyond: 503
	} `yaml:"web"`

	Shutdown struct {
		Timeout Duration `yaml:"timeout" above:"0"` // from the signal to the end of the process
	} `yaml:"shutdown"`

	Alerts      alertsConfig      `yaml:"alerts"`
	Redis       *redisConfig      `yaml:"redis"`
	Limits      *RateLimits       `yaml:"limits"`
	Redact      []redactRule      `yaml:"redact"`
	DeadLetters deadLettersConfig `yaml:"dead_letters"`
	policies                      // of all sinks
	Sinks       []Sink            `yaml:"sinks"` // after the policies, which they take over
}

// Default is what an empty engine.yaml means.
func Default() Config {
	var c Config
	c.Ingest.AllowedLateness = Duration(24 * time.Hour)
	c.Ingest.MaxFuture = Duration(5 * time.Minute)
	c.Ingest.MaxBody = 16 << 20
	c.Ingest.MaxEvent = 64 << 10
	c.Ingest.MaxBatch = 10_000
	c.Ingest.Queue = 64 << 20
	c.Web.MaxConnections = 4096
	c.Web.ResponsesMemory = 32 << 20
	c.Ingest.BodiesInFlight = 256 << 20
	c.Ingest.Deadline, c.Ingest.DeadlineReserve = Duration(deadline.Default), Duration(10*time.Millisecond)
	c.KnownIDs.Memory = 512 << 20
	c.KnownIDs.MaxAge = Duration(7 * 24 * time.Hour)
	c.Parked.Memory = 256 << 20
	c.Log.Segment = 64 << 20
	c.Checkpoint.Interval = Duration(30 * time.Second)
	c.Checkpoint.Log = 256 << 20
	c.Evaluator.Interval = Duration(10 * time.Second)
	c.Disk.LowWater = 256 << 20
	c.Alerts = defaultAlerts()
	c.Shutdown.Timeout = Duration(time.Minute)
	c.DeadLetters = defaultDeadLetters()
	c.policies = defaultPolicies()
	return c
}

// Load reads engine.yaml over the defaults; "" is the defaults alone. The error
// names the place of everything that is wrong, and what is allowed there.
func Load(name string) (Config, error) {
	if name == "" {
		return Read("", nil)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return Default(), fmt.Errorf("read process settings: %w", err)
	}
	return Read(name, data)
}

func Read(name string, data []byte) (Config, error) {
	c, _, err := parseConfig(name, data)
	return c, err
}

// parseConfig gives the places of the values as well.
func parseConfig(name string, data []byte) (Config, *settingsFile, error) {
	c := Default()
	f := &settingsFile{name: name, dir: filepath.Dir(name), env: os.Getenv(EnvironmentVariable), config: &c, nodes: map[string]*yaml.Node{}}
	if f.env != "" && !validEnvironment(f.env) {
		return c, f, fmt.Errorf("%s=%q is not the name of an environment: lower-case letters, digits, - and _", EnvironmentVariable, f.env)
	}
	c.Environment = environment(f.env)
	var root, second yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&root); errors.Is(err, io.EOF) {
		return c, f, nil
	} else if err != nil {
		return c, f, fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		return c, f, fmt.Errorf("%s: a second YAML document is not read; put all settings into one", name)
	}
	f.decode(root.Content[0], "", reflect.ValueOf(&c).Elem(), "")
	c.check(f)
	return c, f, f.err()
}

// check refuses settings that cannot work together.
func (c *Config) check(f *settingsFile) {
	if c.Ingest.BodiesInFlight < c.Ingest.MaxBody {
		f.addProblem("ingest.bodies_memory", "raise it, or lower max_body", "must be at least ingest.max_body")
	}
	if c.Ingest.Deadline != 0 && c.Ingest.DeadlineReserve >= c.Ingest.Deadline {
		f.addProblem("ingest.deadline_reserve", "lower it, or raise deadline", "must be less than ingest.deadline")
	}
	if c.KnownIDs.MaxAge < c.Ingest.AllowedLateness {
		f.addProblem("known_ids.max_age", "raise it, or lower allowed_lateness", "must be at least ingest.allowed_lateness, or a late repeat is counted twice")
	}
	for i, name := range c.Web.AllowedHosts {
		if name == "" || strings.ContainsAny(name, "/:@*? \t") {
			f.addProblem(item("web.allowed_hosts", i), "such as slo.example.org, without scheme and port", "%q is not a host name", name)
		}
	}
	c.Redis.check(f)
	c.checkLimits(f)
	c.checkRedact(f)
	c.checkDeadLetters(f)
	c.policies.check(f, "")
	c.checkSinks(f)
}

// Changed names the sections that differ from those of another config, for a reload
// that cannot take over all of them.
func (c *Config) Changed(next *Config) (sections []string) {
	before, after := settingFields(reflect.ValueOf(c).Elem()), settingFields(reflect.ValueOf(next).Elem())
	for i := range before {
		if !reflect.DeepEqual(before[i].value.Interface(), after[i].value.Interface()) {
			sections = append(sections, before[i].key)
		}
	}
	return sections
}

// Duration is a slo duration ("30s", "7d") in YAML.
type Duration time.Duration

func (d *Duration) parse(text string) error {
	v, err := slo.ParseDuration(text)
	if err != nil {
		return err
	}
	*d = Duration(v)
	return nil
}

func (d Duration) String() string { return slo.FormatDuration(time.Duration(d)) }

// Size is a number of bytes in YAML: 65536, 64KiB, 16MiB, 1GiB, 10MB.
type Size int64

func (s *Size) parse(text string) error {
	v, err := parseSize(text)
	if err != nil {
		return err
	}
	*s = Size(v)
	return nil
}

// sizeUnits are the suffixes of sizes.
var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}}

func parseSize(text string) (int64, error) {
	num, unit := text, int64(1)
	for _, u := range sizeUnits {
		if cut, ok := strings.CutSuffix(text, u.suffix); ok {
			num, unit = cut, u.bytes
		}
	}
	v, err := strconv.ParseInt(strings.TrimSpace(num), 10, 64)
	if err != nil || v < 0 || v > (1<<62)/unit {
		return 0, fmt.Errorf("%q: want a size such as 65536, 64KiB, 16MiB or 1GiB", text)
	}
	return v * unit, nil
}
