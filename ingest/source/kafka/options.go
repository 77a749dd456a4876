package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/position"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/reliability/kafkaclient"
	"github.com/sloengine/sloengine/reliability/retry"
)

// How partitions get their engine.
const (
	Static = "static"
	Group  = "group"
)

// Where a partition without a position begins, besides a time in RFC 3339.
const (
	Earliest      = "earliest"
	Latest        = "latest"
	LongestWindow = "longest_window" // as far back as the longest window of the spec reaches
)

// Hostname is the ordinal of an engine whose host name ends in it, as the pods of a StatefulSet do.
const Hostname = "hostname"

// Settings are the settings of a source in engine.yaml besides the connection.
type Settings struct {
	Topics      []string `yaml:"topics"`
	TopicsRegex string   `yaml:"topics_regex"` // instead
	Start       string   `yaml:"start"`        // earliest, latest, longest_window or a time

	Ownership string `yaml:"ownership" one:"static group"`
	Engines   int    `yaml:"engines" min:"1" max:"10000"`
	Ordinal   string `yaml:"ordinal"` // from 0, or hostname
	Group     string `yaml:"group"`   // that commits are made for
	Instance  string `yaml:"instance"`
	Commit    bool   `yaml:"commit"`

	Fetch          FetchSettings `yaml:"fetch"`
	Buffer         int64         `yaml:"buffer" min:"4MiB" max:"4GiB" is:"size"` // of fetched messages, as sent
	SessionTimeout time.Duration `yaml:"session_timeout" min:"1s" max:"10m"`
	Heartbeat      time.Duration `yaml:"heartbeat" min:"100ms" max:"5m"`
	Refresh        time.Duration `yaml:"refresh" min:"100ms" max:"5m"` // of topics, partitions and lag
}

// FetchSettings say when a broker answers a fetch: once it has so many bytes, or after some time.
type FetchSettings struct {
	MinBytes int64         `yaml:"min_bytes" min:"1" max:"64MiB" is:"size"`
	MaxWait  time.Duration `yaml:"max_wait" min:"1ms" max:"30s"`
}

// Defaults are the settings of a source that says nothing else than its topics.
func Defaults() Settings {
	s := Settings{Start: Earliest, Ownership: Static, Engines: 1, Ordinal: "0", Commit: true, Buffer: 16 << 20,
		SessionTimeout: 30 * time.Second, Heartbeat: 10 * time.Second, Refresh: 10 * time.Second}
	s.Fetch.MinBytes, s.Fetch.MaxWait = 50_000, 200*time.Millisecond
	return s
}

// SettingError says which setting is invalid.
type SettingError = source.SettingError

// resolved are the settings in the form that they are used in.
type resolved struct {
	Settings
	pattern *regexp.Regexp
	ordinal int
	start   time.Time // if it is a time
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
		errs = append(errs, &SettingError{Key: key, Text: fmt.Sprintf(format, args...)})
	}
	switch {
	case len(s.Topics) == 0 && s.TopicsRegex == "":
		bad("topics", "topics or topics_regex is required")
	case len(s.Topics) > 0 && s.TopicsRegex != "":
		bad("topics_regex", "topics and topics_regex exclude each other")
	}
	for i, t := range s.Topics {
		if !topicName.MatchString(t) || t == "." || t == ".." {
			bad(
				fmt.Sprintf("topics[%d]", i), "%q is not the name of a topic (want 1 to 249 letters, digits, '.', '_' and '-')", t)
		}
	}
	if s.TopicsRegex != "" {
		if r.pattern, err = regexp.Compile(s.TopicsRegex); err != nil {
			bad("topics_regex", "%v", err)
		}
	}
	switch s.Start {
	case Earliest, Latest, LongestWindow:
	default:
		if r.start, err = time.Parse(time.RFC3339, strings.ToUpper(s.Start)); err != nil {
			bad("start", "%q is not earliest, latest, longest_window or a time such as 2026-11-20T09:00:00Z", s.Start)
		}
	}
	if s.Ownership == Static {
		r.ordinal = s.resolveOrdinal(hostname, bad)
	} else if s.Group == "" {
		bad("group", "ownership: group requires the name of the group")
	}
	if s.Heartbeat*3 > s.SessionTimeout {
		bad("heartbeat", "at most a third of session_timeout, which is %s", s.SessionTimeout)
	}
	return r, errors.Join(errs...)
}

func (s *Settings) resolveOrdinal(hostname string, bad func(key, format string, args ...any)) int {
	text, from := s.Ordinal, ""
	if text == Hostname {
		text, from = hostname[strings.LastIndexByte(hostname, '-')+1:], fmt.Sprintf(" (from the host name %q)", hostname)
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil || n < 0:
		bad("ordinal", "%q%s is not a number from 0, or hostname for a host name that ends in -NUMBER", text, from)
	case n >= s.Engines:
		bad("ordinal", "%d%s is not below engines, which is %d", n, from, s.Engines)
	}
	return n
}

var topicName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)

// Options configure a Source.
type Options struct {
	Settings Settings
	Hostname string
	Intake   *source.Intake // required
	// Client says how to reach the brokers.
	Client kafkaclient.Options
	// Positions are the positions of this source in the log.
	Positions     []position.Progress
	LongestWindow func() time.Duration // required with the start longest_window
	Metrics       *Metrics
	Logger        *slog.Logger
	Now           func() time.Time
}

func (o *Options) applyDefaults() {
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.LongestWindow == nil {
		o.LongestWindow = func() time.Duration { return 30 * 24 * time.Hour }
	}
}

// Source takes the messages of its topics, from Run until its end.
type Source struct {
	o    Options
	set  resolved
	in   *source.Intake
	book book
	show shown
	ids  idSample
}

// New makes a Source. It connects to nothing.
func New(o Options) (*Source, error) {
	o.applyDefaults()
	if o.Intake == nil || o.Metrics == nil {
		return nil, errors.New("kafka source: Intake and Metrics are required")
	}
	set, err := o.Settings.resolve(o.Hostname)
	if err != nil {
		return nil, err
	}
	if set.Group == "" {
		set.Group = "sloengine." + o.Intake.Name()
	}
	s := &Source{o: o, set: set, in: o.Intake}
	s.book.init(o.Positions)
	s.show.init(o.Metrics, o.Intake)
	s.ids.init(o.Metrics, o.Intake.Name())
	return s, nil
}

// Run takes messages until ctx ends. Every failed step is retried from the durable position. Run only returns the
// error of an engine that stops.
func (s *Source) Run(ctx context.Context) error {
	defer s.show.end()
	delay := time.Second
	for {
		began := s.o.Now()
		err := s.session(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, engine.ErrStopping) || errors.Is(err, engine.ErrPoisoned) {
			return nil // the engine has ended, or is about to
		}
		if s.o.Now().Sub(began) > time.Minute {
			delay = time.Second
		}
		if err != nil {
			s.failed(err, nil)
		}
		if !retry.Sleep(ctx, delay) {
			return nil
		}
		delay = min(2*delay, 30*time.Second)
	}
}
