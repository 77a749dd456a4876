package config

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/redisconn"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

type deadLettersConfig struct {
	Storage   string        `yaml:"storage" one:"file redis memory"`
	Dir       string        `yaml:"dir" is:"file"` // of files; "": in the data folder
	MaxBytes  int64         `yaml:"max_bytes" min:"8KiB" is:"size"`
	Segment   int64         `yaml:"segment" min:"4KiB" max:"1GiB" is:"size"`
	Retention time.Duration `yaml:"retention" min:"1m" max:"3650d"` // in Redis 7d unless set
	Clean     string        `yaml:"clean"`                          // cron
	Timezone  string        `yaml:"timezone"`                       // of clean and replay.schedule
	Filter    struct {
		NeverSave  []string `yaml:"never_save"`
		AlwaysSave []string `yaml:"always_save"`
		SaveIf     string   `yaml:"save_if"`
		Default    string   `yaml:"default" one:"save drop"`
	} `yaml:"filter"`
	Replay dlq.ReplayOptions `yaml:"replay"`
}

const fileRetention, redisRetention = 30 * 24 * time.Hour, 7 * 24 * time.Hour

func defaultDeadLetters() deadLettersConfig {
	var d deadLettersConfig
	d.Storage, d.MaxBytes, d.Segment = "file", 4<<30, 10_000_000
	d.Retention = fileRetention
	d.Clean, d.Timezone = "0 2 * * *", "UTC"
	d.Filter.Default = "save"
	d.Replay.Batch, d.Replay.Rate, d.Replay.StopAfter = 100, 100, 10
	return d
}

func (c *Config) checkDeadLetters(f *yamldoc.Decoder) {
	d := &c.DeadLetters
	const path = "dead_letters"
	if d.Storage == "redis" && !f.Has(path+".retention") {
		d.Retention = redisRetention
	}
	if d.Storage == "redis" && c.Redis == nil {
		f.Errorf(path+".storage", "add redis, or choose file", "the redis section is missing")
	}
	for _, key := range []string{"dir", "max_bytes", "segment"} {
		if at := child(path, key); d.Storage != "file" && f.Has(at) {
			f.Errorf(at, "remove it", "applies to storage: file, but storage is %s", d.Storage)
		}
	}
	if d.Storage == "file" && d.MaxBytes < 2*d.Segment {
		f.Errorf(path+".max_bytes", "raise it, or lower segment", "must be at least two segments of %d bytes", d.Segment)
	}
	zone := d.zone()
	if zone == nil {
		f.Errorf(path+".timezone", "want a name such as Europe/Berlin", "%q is not a time zone", d.Timezone)
	}
	if _, err := dlq.ParseSchedule(d.Clean, zone); err != nil {
		f.Errorf(path+".clean", `want a cron expression such as "0 2 * * *"`, "%v", err)
	}
	if s := d.Replay.Cron; s != "" {
		if _, err := dlq.ParseSchedule(s, zone); err != nil {
			f.Errorf(path+".replay.schedule", `want a cron expression such as "*/10 * * * *"`, "%v", err)
		}
	}
	d.checkFilter(f, path+".filter")
}

func (d *deadLettersConfig) checkFilter(f *yamldoc.Decoder, path string) {
	for key, patterns := range map[string][]string{"never_save": d.Filter.NeverSave, "always_save": d.Filter.AlwaysSave} {
		for i, p := range patterns {
			if _, err := dlq.NewFilter(dlq.FilterOptions{NeverSave: []string{p}, ValidName: event.ValidName}); err != nil {
				f.Errorf(item(child(path, key), i), "want a name, a name with * and ?, or /an expression/", "%s",
					strings.TrimPrefix(err.Error(), "never_save[0]: "))
			}
		}
	}
	if d.Filter.SaveIf == "" {
		return
	}
	if _, err := dlq.CompileExpr(d.Filter.SaveIf); err != nil {
		expressionProblem(f, path+".save_if", d.Filter.SaveIf, "event and failure", err)
	}
}

// zone is nil if there is no such time zone.
func (d *deadLettersConfig) zone() *time.Location {
	if d.Timezone == "" || d.Timezone == "Local" {
		return nil
	}
	zone, err := time.LoadLocation(d.Timezone)
	if err != nil {
		return nil
	}
	return zone
}

// DeadLetterFilter decides which failures are kept.
func (c *Config) DeadLetterFilter(m *dlq.Metrics) (*dlq.Filter, error) {
	o := &c.DeadLetters.Filter
	return dlq.NewFilter(dlq.FilterOptions{
		NeverSave: o.NeverSave, AlwaysSave: o.AlwaysSave, SaveIf: o.SaveIf, DropRest: o.Default == "drop", Metrics: m,
	})
}

// DeadLetterStore opens the storage that is set. client may be nil unless it is
// redis. Close lets go of it.
func (c *Config) DeadLetterStore(dataDir string, client *redisconn.Client, m *dlq.Metrics) (dlq.Store, error) {
	d := &c.DeadLetters
	switch d.Storage {
	case "redis":
		return dlq.NewRedis(dlq.RedisOptions{Client: client, Prefix: c.RedisKeys("dlq") + ":", TTL: d.Retention, Metrics: m})
	case "memory":
		return dlq.NewMemory(dlq.MemoryOptions{Metrics: m})
	}
	dir := d.Dir
	if dir == "" {
		dir = filepath.Join(dataDir, engine.DeadLetterDir)
	}
	return dlq.OpenFile(dlq.FileOptions{Dir: dir, SegmentBytes: d.Segment, MaxBytes: d.MaxBytes, Metrics: m})
}

// ReplayOptions say how entries are replayed; the targets are the caller's.
func (c *Config) ReplayOptions(store dlq.Store, m *dlq.Metrics) dlq.ReplayOptions {
	o := c.DeadLetters.Replay
	o.Store, o.Zone, o.Metrics = store, c.DeadLetters.zone(), m
	return o
}

// RetentionOptions say what is too old, and when it goes.
func (c *Config) RetentionOptions(store dlq.Store) dlq.RetentionOptions {
	d := &c.DeadLetters
	return dlq.RetentionOptions{Store: store, MaxAge: d.Retention, Cron: d.Clean, Zone: d.zone()}
}
