package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/slo"
)

// config is engine.yaml: the settings of the process. What is counted is in the
// spec files instead.
type config struct {
	Ingest struct {
		AllowedLateness duration `yaml:"allowed_lateness"` // live events older than this are refused
		MaxFuture       duration `yaml:"max_future"`       // events further ahead of the clock are refused
		MaxBody         size     `yaml:"max_body"`         // of a request, after decompression
		MaxEvent        size     `yaml:"max_event"`
		MaxBatch        int      `yaml:"max_batch"`     // events in a request
		Queue           size     `yaml:"queue"`         // requests waiting for the disk; beyond: 503
		BodiesInFlight  size     `yaml:"bodies_memory"` // memory for bodies being read and decoded
	} `yaml:"ingest"`
	KnownIDs struct {
		Memory size     `yaml:"memory"`
		MaxAge duration `yaml:"max_age"`
	} `yaml:"known_ids"`
	Log struct {
		Segment size `yaml:"segment"`
	} `yaml:"log"`
	Checkpoint struct {
		Interval duration `yaml:"interval"`
		Log      size     `yaml:"log"` // at the latest after this much log
	} `yaml:"checkpoint"`
	Evaluator struct {
		Interval duration `yaml:"interval"`
	} `yaml:"evaluator"`
	Disk struct {
		LowWater size `yaml:"low_water"` // below it no events are taken
	} `yaml:"disk"`
	Auth struct {
		TokensFile string `yaml:"tokens_file"`
	} `yaml:"auth"`
	Web struct {
		ConfigFile  string `yaml:"config_file"`  // TLS and basic auth
		ExternalURL string `yaml:"external_url"` // as users see it, behind a proxy
		Pprof       bool   `yaml:"pprof"`
	} `yaml:"web"`
}

// defaultConfig is what an empty engine.yaml means.
func defaultConfig() config {
	var c config
	c.Ingest.AllowedLateness = duration(24 * time.Hour)
	c.Ingest.MaxFuture = duration(5 * time.Minute)
	c.Ingest.MaxBody = 16 << 20
	c.Ingest.MaxEvent = 64 << 10
	c.Ingest.MaxBatch = 10_000
	c.Ingest.Queue = 64 << 20
	c.Ingest.BodiesInFlight = 256 << 20
	c.KnownIDs.Memory = 512 << 20
	c.KnownIDs.MaxAge = duration(7 * 24 * time.Hour)
	c.Log.Segment = 64 << 20
	c.Checkpoint.Interval = duration(30 * time.Second)
	c.Checkpoint.Log = 256 << 20
	c.Evaluator.Interval = duration(10 * time.Second)
	c.Disk.LowWater = 256 << 20
	return c
}

// loadConfig reads engine.yaml over the defaults; "" is the defaults alone.
// Every error names the file, the line and what is allowed.
func loadConfig(name string) (config, error) {
	c := defaultConfig()
	if name == "" {
		return c, nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return c, fmt.Errorf("read process settings: %w", err)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		var te *yaml.TypeError
		if errors.As(err, &te) {
			for i, e := range te.Errors {
				te.Errors[i] = goType.ReplaceAllString(e, "")
			}
			return c, fmt.Errorf("%s: %s", name, strings.Join(te.Errors, "\n"+name+": "))
		}
		return c, fmt.Errorf("%s: %w", name, err)
	}
	if err := dec.Decode(new(config)); !errors.Is(err, io.EOF) {
		return c, fmt.Errorf("%s: a second YAML document is not read; put all settings into one", name)
	}
	dir := filepath.Dir(name)
	for _, p := range []*string{&c.Auth.TokensFile, &c.Web.ConfigFile} {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(dir, *p)
		}
	}
	if err := c.check(); err != nil {
		return c, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

// goType is what the decoder adds to its messages and no user can read.
var goType = regexp.MustCompile(` in type (struct \{.*\}|main\.config)$`)

// check refuses settings that cannot work, all of them at once.
func (c *config) check() error {
	var errs []error
	positive := func(key string, ok bool) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s must be more than 0", key))
		}
	}
	positive("ingest.allowed_lateness", c.Ingest.AllowedLateness > 0)
	positive("ingest.max_future", c.Ingest.MaxFuture > 0)
	positive("ingest.max_body", c.Ingest.MaxBody > 0)
	positive("ingest.max_event", c.Ingest.MaxEvent > 0)
	positive("ingest.max_batch", c.Ingest.MaxBatch > 0)
	positive("ingest.queue", c.Ingest.Queue > 0)
	positive("known_ids.max_age", c.KnownIDs.MaxAge > 0)
	positive("checkpoint.interval", c.Checkpoint.Interval > 0)
	positive("checkpoint.log", c.Checkpoint.Log > 0)
	positive("evaluator.interval", c.Evaluator.Interval > 0)
	if c.KnownIDs.Memory < 1<<20 {
		errs = append(errs, errors.New("known_ids.memory must be at least 1MiB"))
	}
	if c.Ingest.MaxFuture > duration(24*time.Hour) {
		errs = append(errs, errors.New("ingest.max_future must be at most 1d: events further ahead cannot be counted"))
	}
	if c.Log.Segment < 1<<20 {
		errs = append(errs, errors.New("log.segment must be at least 1MiB"))
	}
	if c.Ingest.BodiesInFlight < c.Ingest.MaxBody {
		errs = append(errs, errors.New("ingest.bodies_memory must be at least ingest.max_body"))
	}
	if c.KnownIDs.MaxAge < c.Ingest.AllowedLateness {
		errs = append(errs, errors.New("known_ids.max_age must be at least ingest.allowed_lateness, or a late repeat is counted twice"))
	}
	return errors.Join(errs...)
}

// duration is a slo duration ("30s", "7d") in YAML.
type duration time.Duration

func (d *duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := slo.ParseDuration(n.Value)
	if err != nil {
		return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d, column %d: %v", n.Line, n.Column, err)}}
	}
	*d = duration(v)
	return nil
}

// size is a number of bytes in YAML: 65536, 64KiB, 16MiB, 1GiB.
type size int64

func (s *size) UnmarshalYAML(n *yaml.Node) error {
	v, err := parseSize(n.Value)
	if err != nil {
		return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d, column %d: %v", n.Line, n.Column, err)}}
	}
	*s = size(v)
	return nil
}

func parseSize(text string) (int64, error) {
	num, shift := text, 0
	for suffix, sh := range map[string]int{"KiB": 10, "MiB": 20, "GiB": 30} {
		if cut, ok := strings.CutSuffix(text, suffix); ok {
			num, shift = cut, sh
		}
	}
	v, err := strconv.ParseInt(strings.TrimSpace(num), 10, 64)
	if err != nil || v < 0 || v > (1<<62)>>shift {
		return 0, fmt.Errorf("%q: want a size such as 65536, 64KiB, 16MiB or 1GiB", text)
	}
	return v << shift, nil
}
