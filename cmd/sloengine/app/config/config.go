// Package config is engine.yaml: the settings of the process, read strictly, with their defaults, and checked as a
// whole. Every problem is reported with its line and column. A component receives its options from here.
//
// It starts nothing and knows neither the spec, which says what is counted, nor the order in which the process starts.
package config

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/mapping"
	"github.com/sloengine/sloengine/ingest/otlp"
	"github.com/sloengine/sloengine/reliability/deadline"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
	"github.com/sloengine/sloengine/web/site"
)

// rebuildConfig says how changed definitions are counted from the retained log.
type rebuildConfig struct {
	CPU float64 `yaml:"cpu" min:"0.01" max:"1"` // share of a core
}

// Config is engine.yaml: the settings of the process. What is counted is in the
// spec files instead.
type Config struct {
	Environment environment `yaml:"environment"` // whose values are taken where they differ
	Ingest      struct {
		AllowedLateness time.Duration `yaml:"allowed_lateness" above:"0"`    // live events older than this are refused
		MaxFuture       time.Duration `yaml:"max_future" above:"0" max:"1d"` // events further ahead of the clock are refused
		MaxBody         int64         `yaml:"max_body" above:"0" is:"size"`  // of a request, after decompression
		MaxEvent        int64         `yaml:"max_event" above:"0" is:"size"`
		MaxBatch        int           `yaml:"max_batch" above:"0"`       // events in a request
		Queue           int64         `yaml:"queue" above:"0" is:"size"` // requests waiting for the disk; beyond: 503
		BodiesInFlight  int64         `yaml:"bodies_memory" is:"size"`   // memory for bodies being read and decoded
		// of a request without X-Request-Deadline, from its last byte; 0: none
		Deadline        time.Duration `yaml:"deadline" max:"10m"`
		DeadlineReserve time.Duration `yaml:"deadline_reserve" max:"10s"` // of any deadline, for the answer
		CloudEvents     struct {
			Map *mapping.Settings `yaml:"map"` // of their data; nil: these are events
		} `yaml:"cloudevents"`
	} `yaml:"ingest"`
	OTLP   otlp.Settings    `yaml:"otlp"`
	Dedup  engine.IDOptions `yaml:"known_ids"`
	Parked struct {
		Memory int64 `yaml:"memory" is:"size"` // counts of SLOs that are not in the spec any more
	} `yaml:"parked"`
	Log struct {
		Segment int64 `yaml:"segment" min:"1MiB" is:"size"`
		// of the log behind the last checkpoint
		Retain      *time.Duration `yaml:"retain" min:"0" max:"3650d"` // nil: see RetainFor
		RetainBytes *int64         `yaml:"retain_bytes" min:"0" is:"size"`
	} `yaml:"log"`
	Rebuild    Disableable[rebuildConfig] `yaml:"rebuild"`
	Checkpoint engine.CheckpointOptions   `yaml:"checkpoint"`
	Evaluator  struct {
		Interval time.Duration `yaml:"interval" above:"0"`
	} `yaml:"evaluator"`
	Forecast struct {
		Groups int `yaml:"groups" min:"0" max:"100000"` // that are forecast; 0: none
	} `yaml:"forecast"`
	Ledger report.LedgerOptions `yaml:"ledger"`
	Disk   engine.DiskOptions   `yaml:"disk"`
	Auth   struct {
		TokensFile string `yaml:"tokens_file" is:"file"`
	} `yaml:"auth"`
	Web struct {
		ConfigFile  string `yaml:"config_file" is:"file"` // TLS and basic auth
		ExternalURL string `yaml:"external_url"`          // as users see it, behind a proxy
		TraceURL    string `yaml:"trace_url"`             // where a trace is shown
		// Host names that requests may be for besides localhost, as long as the engine
		// listens on loopback without credentials.
		AllowedHosts []string `yaml:"allowed_hosts"`
		Pprof        bool     `yaml:"pprof"`

		MaxConnections int `yaml:"max_connections" above:"0"` // fewer if the limit of open files says so
		// for responses being made, sent or kept; beyond: 503
		ResponsesMemory int64 `yaml:"responses_memory" min:"1MiB" is:"size"`
	} `yaml:"web"`
	Public publicConfig `yaml:"public"`

	Shutdown struct {
		Timeout time.Duration `yaml:"timeout" above:"0"` // from the signal to the end of the process
	} `yaml:"shutdown"`

	Alerts        alerts.EngineThresholds `yaml:"alerts"`
	Notifications notificationsConfig     `yaml:"notifications"`
	SMTP          *smtpConfig             `yaml:"smtp"`
	Reports       []reportConfig          `yaml:"reports"`
	Redis         *redisConfig            `yaml:"redis"`
	Limits        *RateLimits             `yaml:"limits"`
	Budgets       []budgetRule            `yaml:"budgets"` // of services
	Redact        []redactRule            `yaml:"redact"`
	Sources       []Source                `yaml:"sources"`
	DeadLetters   deadLettersConfig       `yaml:"dead_letters"`
	policies                              // of all sinks
	Sinks         []Sink                  `yaml:"sinks"` // after the policies, which they take over
	RemoteWrite   []RemoteWrite           `yaml:"remote_write"`

	places *yamldoc.Decoder // where each value stands; nil without a file
}

// Default is what an empty engine.yaml means.
func Default() Config {
	var c Config
	c.Ingest.AllowedLateness = 24 * time.Hour
	c.Ingest.MaxFuture = 5 * time.Minute
	c.Ingest.MaxBody = 16 << 20
	c.Ingest.MaxEvent = 64 << 10
	c.Ingest.MaxBatch = 10_000
	c.Ingest.Queue = 64 << 20
	c.Web.MaxConnections = 4096
	c.Web.ResponsesMemory = 32 << 20
	c.Ingest.BodiesInFlight = 256 << 20
	c.Ingest.Deadline, c.Ingest.DeadlineReserve = deadline.Default, 10*time.Millisecond
	c.OTLP.Keep = slices.Clone(otlp.DefaultKeep)
	c.Dedup.Bytes = 512 << 20
	c.Dedup.MaxAge = 7 * 24 * time.Hour
	c.Parked.Memory = 256 << 20
	c.Log.Segment = 64 << 20
	c.Checkpoint.Interval = 30 * time.Second
	c.Checkpoint.LogBytes = 256 << 20
	c.Evaluator.Interval = 10 * time.Second
	c.Forecast.Groups = 1000
	c.Rebuild.V.CPU = 0.5
	c.Ledger = report.LedgerOptions{Accounts: slices.Clone(slo.LedgerOrder), Deployment: report.DeploymentTime}
	c.Disk.LowWater = 256 << 20
	c.Alerts = alerts.EngineThresholds{}.WithDefaults()
	c.Notifications = notificationsConfig{Send: true, Resend: time.Minute, Timeout: 10 * time.Second, Job: "sloengine"}
	c.Shutdown.Timeout = time.Minute
	c.DeadLetters = defaultDeadLetters()
	c.policies = defaultPolicies()
	return c
}

// retainBeyond is how much more of the log than the longest window is retained by default: for late events, and because
// windows are rounded outward.
const retainBeyond = 48 * time.Hour

// RetainFor is how far back the log is retained for the longest window of a spec; 0: it is not retained.
func (c *Config) RetainFor(longest time.Duration) time.Duration {
	if c.Log.Retain != nil {
		return *c.Log.Retain
	}
	return longest + retainBeyond
}

// Load reads engine.yaml over the defaults; "" is the defaults alone. The error
// names the place of everything that is wrong, and what is allowed there.
func Load(name string) (Config, error) {
	if name == "" {
		return Read("", nil)
	}
	data, err := fsys.ReadFile(name, yamldoc.MaxFileBytes)
	if err != nil {
		return Default(), fmt.Errorf("read settings: %w", err)
	}
	return Read(name, data)
}

func Read(name string, data []byte) (Config, error) {
	c, problems, err := parseConfig(name, data)
	if err == nil {
		err = problems.Err()
	}
	return c, err
}

func parseConfig(name string, data []byte) (Config, yamldoc.Problems, error) {
	c := Default()
	env := os.Getenv(EnvironmentVariable)
	if env != "" && !validEnvironment(env) {
		return c, nil, fmt.Errorf("%s=%q is not an environment name (want lower-case letters, digits, '-' and '_')",
			EnvironmentVariable, env)
	}
	c.Environment = environment(env)
	var r yamldoc.Reader
	root := r.Document(name, data)
	if root == nil {
		return c, r.Problems(), nil
	}
	if in := root.Peek("environment"); env == "" && in != nil {
		env = in.Raw()
	}
	f := &yamldoc.Decoder{
		Dir: filepath.Dir(name), Duration: slo.ParseDuration, Choose: environmentChooser(env),
		Prefill: func(into any) {
			if p, ok := into.(prefilled); ok {
				p.prefill(&c)
			}
		},
	}
	f.Decode(root, &c)
	c.Environment = environment(env)
	c.check(f)
	c.places = f
	return c, r.Problems(), nil
}

// prefilled are types whose default is not their zero value, or comes from other settings, which stand before it in
// Config.
type prefilled interface{ prefill(c *Config) }

// CloudEventMapping makes events of the data of CloudEvents that come over HTTP; nil: the data are events.
func (c *Config) CloudEventMapping() (*mapping.Mapping, error) {
	if c.Ingest.CloudEvents.Map == nil {
		return nil, nil
	}
	return mapping.New(c.Ingest.CloudEvents.Map, true)
}

// check refuses settings that cannot work together.
func (c *Config) check(f *yamldoc.Decoder) {
	if c.Ingest.BodiesInFlight < c.Ingest.MaxBody {
		f.Errorf("ingest.bodies_memory", "raise it, or lower max_body", "must be at least ingest.max_body")
	}
	if c.Ingest.Deadline != 0 && c.Ingest.DeadlineReserve >= c.Ingest.Deadline {
		f.Errorf("ingest.deadline_reserve", "lower it, or raise deadline", "must be less than ingest.deadline")
	}
	if c.Dedup.MaxAge < c.Ingest.AllowedLateness {
		f.Errorf("known_ids.max_age", "raise it, or lower allowed_lateness",
			"must be at least ingest.allowed_lateness, or a late duplicate is counted twice")
	}
	_, err := c.CloudEventMapping()
	settingProblems(f, "ingest.cloudevents", err)
	c.OTLP.Check(func(place, remedy, text string) { f.Errorf("otlp."+place, remedy, "%s", text) })
	for i, name := range c.Web.AllowedHosts {
		if name == "" || strings.ContainsAny(name, "/:@*? \t") {
			f.Errorf(item("web.allowed_hosts", i), "want a name such as slo.example.org, without scheme and port",
				"%q is not a host name", name)
		}
	}
	c.checkExternalURL(f)
	c.checkTraceURL(f)
	if err := slo.CheckLedgerOrder(c.Ledger.Accounts); err != nil {
		f.Errorf("ledger.accounts", "remove or replace it", "%v", err)
	}
	c.Public.check(f, c.Web.ExternalURL)
	c.Notifications.check(f, c.SMTP)
	c.SMTP.check(f)
	c.checkReports(f)
	c.Redis.check(f)
	c.checkLimits(f)
	c.checkBudgets(f)
	c.checkRedact(f)
	c.checkSources(f)
	c.checkDeadLetters(f)
	c.policies.check(f, "")
	c.checkSinks(f)
	c.checkRemoteWrite(f)
}

// checkExternalURL refuses an address that cannot begin links, or that has something in it that readers must not see.
func (c *Config) checkExternalURL(f *yamldoc.Decoder) {
	const path, want = "web.external_url", "want an address such as https://slo.example.org/path"
	if text := c.Web.ExternalURL; text != "" && !f.Broken(path) {
		if err := remote.CheckBaseURL(text, ""); err != nil {
			f.Errorf(path, want, "%v", err)
		} else if u, err := url.Parse(text); err == nil && (u.EscapedPath() != u.Path || strings.HasPrefix(u.Path, "//")) {
			f.Errorf(path, want, "the path must not need escaping")
		}
	}
}

// checkTraceURL refuses an address that cannot link to a trace.
func (c *Config) checkTraceURL(f *yamldoc.Decoder) {
	const path, want = "web.trace_url", "want an address such as https://tempo.example/trace/" + site.TracePlace
	text := c.Web.TraceURL
	if text == "" || f.Broken(path) {
		return
	}
	link := strings.Replace(text, site.TracePlace, "0", 1)
	u, err := url.Parse(link)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		f.Errorf(path, want, "must begin with http:// or https:// and have a host")
	case u.User != nil:
		f.Errorf(path, want, "must not contain credentials")
	case strings.Count(text, site.TracePlace) != 1:
		f.Errorf(path, want, "must contain %s once", site.TracePlace)
	case !strings.HasPrefix(text, u.Scheme+"://"+u.Host):
		f.Errorf(path, want, "%s must come after the host", site.TracePlace)
	case strings.ContainsFunc(link, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune("\"<>\\^`{|}", r)
	}):
		f.Errorf(path, want, "must not have characters that need escaping")
	}
}

// Changed names the sections that differ from those of another config, for a reload that cannot take over all of them.
func (c *Config) Changed(next *Config) (sections []string) {
	before, after := reflect.ValueOf(c).Elem(), reflect.ValueOf(next).Elem()
	var compare func(before, after reflect.Value)
	compare = func(before, after reflect.Value) {
		for i := range before.NumField() {
			switch field := before.Type().Field(i); {
			case field.Anonymous:
				compare(before.Field(i), after.Field(i))
			case !field.IsExported():
			case !reflect.DeepEqual(before.Field(i).Interface(), after.Field(i).Interface()):
				sections = append(sections, field.Tag.Get("yaml"))
			}
		}
	}
	compare(before, after)
	return sections
}

// child is the path of a key below path.
func child(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// item is the path of an element of a list.
func item(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }
