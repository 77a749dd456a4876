package outbox

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/ingest/position"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/reliability/outbox"
	"github.com/sloengine/sloengine/reliability/postgres"
)

// The ways to read a table.
const (
	Claim = "claim"
	XID   = "xid"
)

// Where the way "xid" begins in a table that it reads for the first time.
const (
	Earliest = "earliest"
	Latest   = "latest"
)

// Hostname is the ordinal of an engine whose host name ends in it, as the pods of a StatefulSet do.
const Hostname = "hostname"

// Settings are the settings of a source in engine.yaml besides the connection.
type Settings struct {
	// Table is the name of the table, with its schema or without. Preset and Columns are the mapping of its columns: see
	// package reliability/outbox.
	Table   string            `yaml:"table"`
	Preset  string            `yaml:"preset"`
	Columns map[string]string `yaml:"columns"`

	Way     string        `yaml:"way" one:"claim xid"`
	Start   string        `yaml:"start" one:"earliest latest"` // of the way xid
	Service string        `yaml:"service"`                     // of events without one
	Batch   int           `yaml:"batch" min:"1" max:"50000"`   // rows that are read at a time
	Poll    time.Duration `yaml:"poll" min:"10ms" max:"10m"`   // wait after the table had no more rows
	Refresh time.Duration `yaml:"refresh" min:"100ms" max:"1h"`

	// Listen wakes the source with NOTIFY on a channel. It needs a session of its own.
	ListenDSN     string `yaml:"listen_dsn"`
	ListenDSNFile string `yaml:"listen_dsn_file" is:"file"`
	ListenChannel string `yaml:"listen_channel"` // outbox

	Engines int    `yaml:"engines" min:"1" max:"64"`
	Ordinal string `yaml:"ordinal"` // from 0, or hostname
}

// Defaults are the settings of a source that says nothing else.
func Defaults() Settings {
	return Settings{
		Way: Claim, Start: Earliest, Batch: 2000, Poll: time.Second, Refresh: 10 * time.Second,
		ListenChannel: outbox.DefaultName, Engines: 1, Ordinal: "0",
	}
}

// resolved are the settings in the form that they are used in.
type resolved struct {
	Settings
	table   *outbox.Table
	ordinal int
	listen  bool
}

// Validate returns the problems of the settings. hostname is that of the machine.
func (s *Settings) Validate(hostname string) error {
	_, err := s.resolve(hostname)
	return err
}

func (s *Settings) resolve(hostname string) (r resolved, err error) {
	r.Settings = *s
	var errs []error
	bad := func(key, format string, args ...any) {
		errs = append(errs, &source.SettingError{Key: key, Text: fmt.Sprintf(format, args...)})
	}
	r.table, err = outbox.New(outbox.Options{Name: s.Table, Preset: s.Preset, Columns: s.Columns})
	for _, one := range each(err) {
		key, text, found := strings.Cut(one.Error(), ": ")
		if !found {
			key, text = "table", one.Error()
		}
		bad(strings.Replace(key, "name", "table", 1), "%s", text)
	}
	if s.Way == Claim && s.Start == Latest {
		bad("start", "latest requires way: xid (set counted_at of the rows that are not to be counted)")
	}
	if s.ListenDSN != "" && s.ListenDSNFile != "" {
		bad("listen_dsn_file", "listen_dsn and listen_dsn_file exclude each other")
	}
	r.listen = s.ListenDSN != "" || s.ListenDSNFile != ""
	if r.listen && len(s.ListenChannel) > 63 {
		bad("listen_channel", "%d bytes (PostgreSQL takes at most 63)", len(s.ListenChannel))
	}
	text, from := s.Ordinal, ""
	if text == Hostname {
		text, from = hostname[strings.LastIndexByte(hostname, '-')+1:], fmt.Sprintf(" (from the host name %q)", hostname)
	}
	r.ordinal, err = strconv.Atoi(text)
	switch {
	case err != nil || r.ordinal < 0:
		bad("ordinal", "%q%s is not a number from 0, or hostname for a host name that ends in -NUMBER", text, from)
	case r.ordinal >= s.Engines:
		bad("ordinal", "%d%s is not below engines, which is %d", r.ordinal, from, s.Engines)
	}
	if s.Engines > 1 && r.table != nil && r.table.Columns.Bucket == "" && r.table.Columns.Key == "" {
		bad("engines", "several engines share the rows by their key (set columns.key or columns.bucket)")
	}
	return r, errors.Join(errs...)
}

// each lists the errors that errors.Join has put together.
func each(err error) []error {
	if err == nil {
		return nil
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return many.Unwrap()
	}
	return []error{err}
}

// need lists the columns that the table must have.
func (r *resolved) need() outbox.Need {
	if r.Way == XID {
		return outbox.NeedXID
	}
	return outbox.NeedClaim
}

// Options configure a Source.
type Options struct {
	Settings Settings
	Hostname string
	Intake   *source.Intake // required
	// Database says how to reach the database.
	Database postgres.Options
	// Positions are the positions of this source in the log. The mode claim needs no positions.
	Positions []position.Progress
	Metrics   *Metrics // required
	Logger    *slog.Logger
	Now       func() time.Time

	// Headers are the headers and columns that become attributes, as in the settings of the Intake.
	Headers map[string]string
	// HeldTooLong is the age of committed rows from which an open transaction that holds them back is reported; 1 min.
	HeldTooLong time.Duration
	// Most bounds the bytes of a value that are read, which is max_message of the Intake; 10 MiB.
	Most int64
}

func (o *Options) applyDefaults() {
	o.Most = cmp.Or(o.Most, source.Defaults().MaxMessage)
	o.HeldTooLong = cmp.Or(o.HeldTooLong, time.Minute)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Now == nil {
		o.Now = time.Now
	}
}

// listener says how to reach the database for LISTEN.
func (o *Options) listener() postgres.Options {
	db := o.Database
	db.DSN, db.DSNFile, db.TransactionPooling = o.Settings.ListenDSN, o.Settings.ListenDSNFile, false
	return db
}
