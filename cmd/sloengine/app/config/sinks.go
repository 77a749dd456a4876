package config

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/textproto"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	httpconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"golang.org/x/net/http/httpguts"

	"github.com/sloengine/sloengine/ingest/sink"
	"github.com/sloengine/sloengine/reliability/amqpclient"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/kafkaclient"
	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/reliability/remotewrite"
	"github.com/sloengine/sloengine/reliability/retry"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// Sink is one place that gets every event. It is of exactly one kind.
type Sink struct {
	Name string          `yaml:"name" is:"required"`
	HTTP *httpSinkConfig `yaml:"http"`
	File *fileSinkConfig `yaml:"file"`

	Parquet *parquetSinkConfig `yaml:"parquet"`

	Kafka    *kafkaSinkConfig    `yaml:"kafka"`
	RabbitMQ *rabbitMQSinkConfig `yaml:"rabbitmq"`

	Start string `yaml:"start" one:"oldest newest"` // without a cursor
	Batch struct {
		Items int           `yaml:"items" min:"1" max:"100000"`
		Bytes int64         `yaml:"bytes" min:"1KiB" max:"1GiB" is:"size"`
		Wait  time.Duration `yaml:"wait" max:"1h"` // 0: a call takes what is there
	} `yaml:"batch"`
	policies
	TTL         time.Duration    `yaml:"ttl"`                     // 0: events never get too old
	MaxLagBytes int64            `yaml:"max_lag_bytes" is:"size"` // 0: as far as the log goes
	RateLimit   *sinkLimitConfig `yaml:"rate_limit"`
	// breaker and retry budget are those of all engines with a sink of this name
	Shared bool `yaml:"shared"`
}

func (s *Sink) prefill(c *Config) {
	s.Start = "oldest"
	s.Batch.Items, s.Batch.Bytes, s.Batch.Wait = 500, 1<<20, 100*time.Millisecond
	s.MaxLagBytes = 4 << 30 // a sink that is gone for good must not fill the disk in silence
	s.policies = c.policies
}

type httpSinkConfig struct {
	sink.HTTPOptions `yaml:",inline"`
	TLS              tlsConfig `yaml:"tls"`
}

func (h *httpSinkConfig) prefill(*Config) {
	h.Method, h.Format, h.MaxConns = http.MethodPost, sink.JSON, 8
}

type fileSinkConfig struct {
	sink.FileOptions `yaml:",inline"`
}

type parquetSinkConfig struct {
	sink.ParquetOptions `yaml:",inline"`
}

func (s *parquetSinkConfig) prefill(*Config) { s.Roll = time.Hour }

// parquetTimeout is that of a call, which may write many files.
const parquetTimeout = 2 * time.Minute

// folder is that of a sink that writes files, with the setting.
func (s *Sink) folder() (key, dir string) {
	switch {
	case s.File != nil:
		return ".file.dir", s.File.Dir
	case s.Parquet != nil:
		return ".parquet.dir", s.Parquet.Dir
	}
	return "", ""
}

func (s *fileSinkConfig) prefill(*Config) { s.MaxBytes, s.Fsync = 100<<20, sink.FsyncCursor }

// sinkLimitConfig bounds calls to a sink: those of all instances together if it is
// shared.
type sinkLimitConfig struct {
	Limit    int           `yaml:"limit" is:"required" min:"1" max:"1000000"`
	Window   time.Duration `yaml:"window" min:"100ms" max:"1h"`
	Unit     string        `yaml:"unit" one:"calls events"`
	Wait     time.Duration `yaml:"wait" min:"1ms" max:"1m"` // for a turn; then the call is postponed
	Shared   bool          `yaml:"shared"`
	Fallback float64       `yaml:"fallback" above:"0" max:"1000000"` // a second and instance, while Redis is not reachable
}

func (l *sinkLimitConfig) prefill(*Config) {
	l.Window, l.Unit, l.Wait, l.Fallback = time.Second, "calls", 5*time.Second, 1
}

// Kind is what the sink writes to, for people.
func (s *Sink) Kind() string { return append(s.kinds(), "")[0] } // "" if it was not checked

// kinds are those that are set: one, if the settings are right.
func (s *Sink) kinds() []string {
	return given(kind{"http", s.HTTP != nil}, kind{"file", s.File != nil},
		kind{"parquet", s.Parquet != nil}, kind{"kafka", s.Kafka != nil},
		kind{"rabbitmq", s.RabbitMQ != nil})
}

func (c *Config) checkSinks(f *yamldoc.Decoder) {
	names, dirs := fileNames{}, map[string]int{}
	for i := range c.Sinks {
		s, path := &c.Sinks[i], item("sinks", i)
		s.check(f, path)
		names.check(f, path, s.Name, "sink", "the name identifies its cursor in the log")
		if key, dir := s.folder(); dir != "" {
			dir = filepath.Clean(dir)
			if first, twice := dirs[dir]; twice {
				f.Errorf(path+key, "set a separate directory for each sink",
					"sinks[%d] already writes to this directory", first)
			}
			dirs[dir] = i
			if c.DeadLetters.Dir != "" && filepath.Clean(c.DeadLetters.Dir) == dir {
				f.Errorf(path+key, "set a separate directory", "the dead letters use this directory")
			}
		}
		if s.Shared && c.Redis == nil {
			f.Errorf(path+".shared", "add redis, or remove shared",
				"breaker and retry budget are shared through Redis, but the redis section is missing")
		}
		if l := s.RateLimit; l != nil {
			if l.Shared && c.Redis == nil {
				f.Errorf(path+".rate_limit.shared", "add redis, or remove shared",
					"rate limits are shared through Redis, but the redis section is missing")
			}
			if !l.Shared && f.Has(path+".rate_limit.fallback") {
				f.Errorf(path+".rate_limit.fallback", "set shared: true, or remove it", "fallback requires a shared rate limit")
			}
		}
	}
}

func (s *Sink) check(f *yamldoc.Decoder, path string) {
	if kinds := s.kinds(); !anyBroken(f, path, "http", "file", "parquet", "kafka", "rabbitmq") {
		oneKind(f, path, kinds, "sink", "add http, file, parquet, kafka or rabbitmq", "the sink has no destination")
	}
	s.policies.check(f, path)
	if s.TTL > 0 && s.TTL <= s.Batch.Wait {
		f.Errorf(path+".ttl", "raise it, or lower batch.wait",
			"events would expire while they wait %s for their batch", s.Batch.Wait)
	}
	if s.MaxLagBytes > 0 && s.MaxLagBytes < s.Batch.Bytes {
		f.Errorf(path+".max_lag_bytes", "raise it, or lower batch.bytes",
			"must be at least one batch of %d bytes", s.Batch.Bytes)
	}
	if s.HTTP != nil {
		s.HTTP.check(f, path+".http")
	}
	if s.Kafka != nil {
		s.Kafka.check(f, path+".kafka")
		if f.Has(path + ".timeout") {
			f.Errorf(path+".timeout", "set kafka.delivery_timeout", "the time-out of a call to Kafka is its delivery time-out")
		}
	}
	if s.RabbitMQ != nil {
		s.RabbitMQ.check(f, path+".rabbitmq")
	}
	if key, dir := s.folder(); key != "" && f.Has(path+key) && dir == "" {
		f.Errorf(path+key, "", "must not be empty")
	}
	if s.Parquet != nil {
		for _, key := range []string{".bulkhead.concurrency", ".timeout"} {
			if f.Has(path + key) {
				f.Errorf(path+key, "remove it", "a Parquet sink makes one call after the other, of at most %s", parquetTimeout)
			}
		}
	}
	if s.File != nil {
		if age := s.File.MaxAge; age > 0 && age < time.Second {
			f.Errorf(path+".file.max_age", "", "must be at least 1s, or 0 for none")
		}
	}
}

// secretHeaders are those whose value should not stand in engine.yaml.
var secretHeaders = regexp.MustCompile(`(?i)^(proxy-)?authorization$|^cookie$|secret|token|password|api-?key`)

func (h *httpSinkConfig) check(f *yamldoc.Decoder, path string) {
	checkURL(f, path+".url", h.URL, "header_files", true)
	checkURL(f, path+".health_url", h.HealthURL, "header_files", false)
	for _, name := range slices.Sorted(maps.Keys(h.Headers)) {
		if secretHeaders.MatchString(name) {
			f.Errorf(path+".headers."+name, "write the value to a file and set the file name under header_files",
				"a secret must not be set here")
		}
		for _, other := range slices.Sorted(maps.Keys(h.HeaderFiles)) {
			if textproto.CanonicalMIMEHeaderKey(name) == textproto.CanonicalMIMEHeaderKey(other) {
				f.Errorf(path+".header_files."+other, "remove one of them", "the header is also set under headers")
			}
		}
	}
	h.TLS.check(f, path+".tls")
	if f.Broken(path) {
		return
	}
	// The sink knows the rest, such as what a header may be, and reads the secrets.
	s, err := h.sink(nil)
	tried(f, path, "http sink: ", s, err)
}

// checkURL checks the URL of a web service. credentials names the setting that takes what must not be in the URL.
func checkURL(f *yamldoc.Decoder, path, text, credentials string, required bool) {
	if f.Broken(path) || text == "" && !required {
		return
	}
	if err := remote.CheckURL(text, credentials); err != nil {
		f.Errorf(path, "want a URL such as https://example.org/events", "%v", err)
	}
}

// RemoteWrite is a server that gets the engine's own series.
type RemoteWrite struct {
	Name                 string `yaml:"name" is:"required"`
	httpServer           `yaml:",inline"`
	remotewrite.Settings `yaml:",inline"`
}

func (r *RemoteWrite) prefill(*Config) { r.Settings = remotewrite.Defaults() }

// Client reads files with secrets again for each request.
func (r *RemoteWrite) Client() (*http.Client, error) {
	return httpconfig.NewClientFromConfig(r.client(), "remote_write")
}

func (c *Config) checkRemoteWrite(f *yamldoc.Decoder) {
	names := fileNames{}
	for i := range c.RemoteWrite {
		r, path := &c.RemoteWrite[i], item("remote_write", i)
		names.check(f, path, r.Name, "server", "the name identifies its samples on disk")
		checkURL(f, path+".url", r.URL, "basic_auth", true)
		r.checkAccess(f, path)
		for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
			switch {
			case secretHeaders.MatchString(name):
				f.Errorf(path+".headers."+name, "set basic_auth or bearer_token_file", "a secret must not be set here")
			case !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(r.Headers[name]):
				f.Errorf(path+".headers."+name, "", "not an HTTP header")
			}
		}
		for _, name := range slices.Sorted(maps.Keys(r.Labels)) {
			if !model.LegacyValidation.IsValidLabelName(name) || strings.HasPrefix(name, "__") {
				f.Errorf(path+".labels."+name, "letters, digits and underscore, not two of them first",
					"%q is not a name for a label", name)
			}
		}
		if r.MaxAge < 2*r.Interval {
			f.Errorf(path+".max_age", "raise it, or lower interval", "must be at least two intervals of %s", r.Interval)
		}
	}
}

// problems reports the single errors that were joined, without a prefix.
func problems(f *yamldoc.Decoder, path, prefix string, err error) {
	if err == nil {
		return
	}
	for text := range strings.SplitSeq(strings.TrimPrefix(err.Error(), prefix), "\n") {
		f.Errorf(path, "", "%s", text)
	}
}

// tried reports what kept a sink or publisher from being made, and closes what was made only to find out.
func tried[T io.Closer](f *yamldoc.Decoder, path, prefix string, made T, err error) {
	if problems(f, path, prefix, err); err == nil {
		_ = made.Close()
	}
}

func (h *httpSinkConfig) sink(answered func(code int)) (*sink.HTTP, error) {
	o := h.HTTPOptions
	o.UserAgent, o.Answered = "sloengine", answered
	var err error
	if o.TLS, err = h.TLS.client(); err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	return sink.NewHTTP(o)
}

// SinkParts are what sinks need besides their settings.
type SinkParts struct {
	FS fsys.FS
	// Shared makes a limit that all instances have in common. Only needed for sinks with
	// such a limit, which there are only with a redis section.
	Shared func(SharedSinkLimit) (dispatch.Limiter, error)
	// Sharing makes a breaker and a retry budget that all instances have in common. Only needed for sinks that share
	// theirs.
	Sharing func(name string, budget retry.BudgetOptions) (dispatch.Sharing, error)
	// Answered, if not nil, counts the answers of HTTP sinks by status code.
	Answered func(sink string, code int)
	// Kafka and RabbitMQ, if not nil, get the metrics of connections.
	Kafka    *kafkaclient.Metrics
	RabbitMQ *amqpclient.Metrics
}

// SharedSinkLimit is an outbound limit for all instances together.
type SharedSinkLimit struct {
	Name     string // of the sink
	Limit    int    // turns in any Window
	Window   time.Duration
	MaxWait  time.Duration
	Fallback float64 // turns a second for this instance, while Redis is not reachable
}

// Options makes a sink. One that writes files takes hold of its folder when its dispatcher opens it.
func (s *Sink) Options(parts SinkParts) (o dispatch.SinkOptions, err error) {
	o = dispatch.SinkOptions{
		Name: s.Name, BatchItems: s.Batch.Items, BatchBytes: int(s.Batch.Bytes), BatchWait: s.Batch.Wait,
		TTL: s.TTL, MaxLagBytes: s.MaxLagBytes,
	}
	if s.Start == "newest" {
		o.Start = dispatch.Newest
	}
	if o.BatchWait == 0 {
		o.BatchWait = -1 // that is how the option says not at all
	}
	s.fill(&o)
	if o.RateLimit, err = s.RateLimit.limiter(s.Name, parts); err != nil {
		return o, fmt.Errorf("sink %s: rate_limit: %w", s.Name, err)
	}
	if s.Shared {
		if o.Sharing, err = parts.Sharing(s.Name, s.Retry.Budget); err != nil {
			return o, fmt.Errorf("sink %s: shared: %w", s.Name, err)
		}
	}
	o.LimitItems = s.RateLimit != nil && s.RateLimit.Unit == "events"
	if s.File != nil {
		files := s.File.FileOptions
		files.FS = parts.FS
		o.Open = func() (dispatch.Sink, error) {
			sink, err := sink.NewFile(files)
			if err != nil {
				return nil, err // not a nil pointer in an interface
			}
			return sink, nil
		}
		return o, nil
	}
	if s.Parquet != nil {
		o.Bulkhead.Concurrency, o.Timeout = 1, parquetTimeout
		files := s.Parquet.ParquetOptions
		files.FS = parts.FS
		o.Open = func() (dispatch.Sink, error) {
			sink, err := sink.NewParquet(files)
			if err != nil {
				return nil, err // not a nil pointer in an interface
			}
			return sink, nil
		}
		return o, nil
	}
	switch {
	case s.Kafka != nil:
		o.Timeout = s.Kafka.DeliveryTimeout + kafkaGrace
		o.Sink, err = s.Kafka.sink(ClientOfSink+s.Name, parts.Kafka)
	case s.RabbitMQ != nil:
		o.Sink, err = s.RabbitMQ.sink(ClientOfSink+s.Name, parts.RabbitMQ)
	default:
		o.Sink, err = s.HTTP.sink(func(code int) {
			if parts.Answered != nil {
				parts.Answered(s.Name, code)
			}
		})
	}
	if err != nil {
		o.Sink = nil // not a nil pointer in an interface
		return o, fmt.Errorf("sink %s: %w", s.Name, err)
	}
	return o, nil
}

func (l *sinkLimitConfig) limiter(name string, parts SinkParts) (dispatch.Limiter, error) {
	switch {
	case l == nil:
		return nil, nil
	case l.Shared:
		return parts.Shared(SharedSinkLimit{name, l.Limit, l.Window, l.Wait, l.Fallback})
	}
	perSecond := float64(l.Limit) / l.Window.Seconds()
	return dispatch.NewLocalLimit(perSecond, l.Limit, l.Wait)
}
