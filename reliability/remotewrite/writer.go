package remotewrite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/klauspost/compress/s2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sloengine/sloengine/reliability/health"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/reliability/retry"
)

// Settings are what engine.yaml says about the samples.
type Settings struct {
	Interval time.Duration     `yaml:"interval" min:"1s" max:"5m"`
	Protobuf string            `yaml:"protobuf" one:"auto v2 v1"`
	MaxAge   time.Duration     `yaml:"max_age" min:"1m" max:"30d"`
	MaxBytes int64             `yaml:"max_bytes" min:"1MiB" is:"size"`
	Headers  map[string]string `yaml:"headers"`
	Labels   map[string]string `yaml:"labels"` // that series get unless they have them
}

// Defaults are the settings that are not given. Prometheus and Mimir refuse samples that are older than an hour.
func Defaults() Settings {
	return Settings{Interval: 15 * time.Second, Protobuf: "auto", MaxAge: time.Hour, MaxBytes: 256 << 20}
}

// Options of a Writer. All are required.
type Options struct {
	Settings
	Name   string
	URL    string
	Client *http.Client // which follows no redirect
	Dir    string       // of the files
	Set    *metrics.Set
	Logger *slog.Logger
}

const (
	timeout = 30 * time.Second // of a request
	// logEvery is how often refused samples are logged, which may be a few of each interval.
	logEvery = 10 * time.Minute
)

// Writer sends samples to one server.
type Writer struct {
	o       Options
	queue   *queue
	shots   shots
	policy  *retry.Policy
	version atomic.Int32
	woken   chan struct{}

	sending, refused, saving health.Log

	sent, failures *metrics.Counter
	dropped        map[string]*metrics.Counter
	lastDelivery   atomic.Pointer[time.Time]
}

// Reasons for which samples are dropped.
const (
	reasonRefused  = "refused"    // by the server, for good
	reasonTooOld   = "too_old"    // than MaxAge
	reasonFull     = "queue_full" // the files had more than MaxBytes
	reasonNotSaved = "not_saved"  // the file could not be written
	reasonDamaged  = "damaged"    // the file could not be read
)

// New opens the files of an earlier process. It connects to nothing.
func New(o Options) (*Writer, error) {
	q, err := openQueue(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("remote write %s: %w", o.Name, err)
	}
	policy, err := retry.New(retry.Options{Base: 500 * time.Millisecond, Cap: 30 * time.Second, Jitter: retry.Equal,
		MaxRetries: retry.Unlimited, MaxRetryAfter: 5 * time.Minute})
	if err != nil {
		return nil, err
	}
	w := &Writer{o: o, queue: q, shots: shots{labels: sorted(o.Labels)}, policy: policy,
		woken: make(chan struct{}, 1)}
	log := o.Logger.With("remote_write", o.Name)
	w.sending = health.Log{Logger: log, Broken: "remote write fails, samples wait on disk",
		Works: "remote write works again"}
	w.refused = health.Log{Logger: log, Broken: "remote write: samples are refused and dropped",
		Works: "remote write: samples are accepted again", Tracker: health.Tracker{Interval: logEvery}}
	w.saving = health.Log{Logger: log, Broken: "remote write: samples cannot be saved and are dropped",
		Works: "remote write: samples are saved again"}
	w.version.Store(2)
	if o.Protobuf == "v1" {
		w.version.Store(1)
	}
	w.sent = metric.RemoteWriteSamples.Counter(o.Set, o.Name)
	w.failures = metric.RemoteWriteFailures.Counter(o.Set, o.Name)
	w.dropped = map[string]*metrics.Counter{}
	for _, reason := range []string{reasonRefused, reasonTooOld, reasonFull, reasonNotSaved, reasonDamaged} {
		w.dropped[reason] = metric.RemoteWriteDropped.Counter(o.Set, o.Name, reason)
	}
	metric.RemoteWriteLag.Read(o.Set, func() float64 { return w.lag(time.Now()).Seconds() }, o.Name)
	metric.RemoteWriteBytes.Read(o.Set, func() float64 { _, _, b := q.span(); return float64(b) }, o.Name)
	metric.RemoteWriteFailing.Read(o.Set, func() float64 {
		if w.sending.Failing() {
			return 1
		}
		return 0
	}, o.Name)
	return w, nil
}

// lag is the age of the oldest samples that wait.
func (w *Writer) lag(now time.Time) time.Duration {
	oldest, _, _ := w.queue.span()
	if oldest == 0 {
		return 0
	}
	return max(0, now.Sub(time.UnixMilli(oldest)))
}

// Run takes samples from and sends them until ctx ends. What is not sent by then waits for the next start.
func (w *Writer) Run(ctx context.Context, from prometheus.Gatherer) error {
	var both sync.WaitGroup
	both.Go(func() { w.collect(ctx, from) })
	both.Go(func() { w.send(ctx) })
	both.Wait()
	return nil
}

func (w *Writer) collect(ctx context.Context, from prometheus.Gatherer) {
	_, last, _ := w.queue.span()
	for {
		now := time.Now()
		at := now.Truncate(w.o.Interval).Add(w.o.Interval)
		if !retry.Sleep(ctx, at.Sub(now)) {
			return
		}
		ms := time.Now().UnixMilli()
		if ms <= last {
			continue // the clock was set back: series must not go back in time
		}
		last = ms
		w.save(ms, from)
	}
}

// save takes one value of each series.
func (w *Writer) save(ms int64, from prometheus.Gatherer) {
	families, err := from.Gather()
	if err != nil {
		w.o.Logger.Error("remote write: gather metrics", "remote_write", w.o.Name, "err", err)
	}
	chunks := w.shots.take(families, ms)
	if len(chunks) == 0 {
		return
	}
	err = w.queue.put(ms, chunks)
	w.saving.Note(err)
	if err != nil {
		for _, c := range chunks {
			w.dropped[reasonNotSaved].Add(c.samples)
		}
	}
	for _, s := range w.queue.surplus(w.o.MaxBytes) {
		w.drop(s, s.samples, reasonFull)
	}
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

// drop gives up a file, of which so many samples were not sent.
func (w *Writer) drop(s shot, samples int, reason string) {
	w.dropped[reason].Add(samples)
	if err := w.queue.remove(s); err != nil {
		w.o.Logger.Warn("remote write: file of samples is not removed", "remote_write", w.o.Name, "err", err)
	}
}

func (w *Writer) send(ctx context.Context) {
	for ctx.Err() == nil {
		s, ok := w.queue.next()
		if !ok {
			retry.SleepOr(ctx, time.Hour, w.woken)
			continue
		}
		w.sendFile(ctx, s)
	}
}

// sendFile sends what is in a file, or gives it up.
func (w *Writer) sendFile(ctx context.Context, s shot) {
	if time.Since(s.at()) > w.o.MaxAge {
		w.drop(s, s.samples, reasonTooOld)
		return
	}
	chunks, err := w.queue.get(s)
	if err != nil {
		w.o.Logger.Error("remote write: samples cannot be read and are dropped", "remote_write", w.o.Name, "file",
			w.queue.name(s), "err", err)
	}
	left := s.samples
	for _, c := range chunks {
		switch w.deliver(ctx, s, c) {
		case delivered:
			w.sent.Add(c.samples)
		case refused:
			w.dropped[reasonRefused].Add(c.samples)
		case expired:
			w.drop(s, left, reasonTooOld)
			return
		case stopped:
			return // the file is sent again
		}
		left -= c.samples
	}
	w.drop(s, left, reasonDamaged) // left is zero for a whole file
}

type outcome int

const (
	delivered outcome = iota
	refused
	expired
	stopped
)

// deliver sends a chunk until the server has it, refuses it for good, or it is too old.
func (w *Writer) deliver(ctx context.Context, s shot, c chunk) outcome {
	var delay time.Duration
	for n := 0; ; n++ {
		err := w.post(ctx, c)
		switch {
		case err == nil:
			w.sending.Note(nil)
			w.refused.Note(nil)
			now := time.Now()
			w.lastDelivery.Store(&now)
			return delivered
		case ctx.Err() != nil:
			return stopped
		case errors.Is(err, errOtherVersion):
			n--
			continue
		case retry.ClassOf(err) == retry.ClassPermanent:
			w.sending.Note(nil)
			w.refused.Note(err)
			return refused
		}
		w.failures.Inc()
		w.sending.Note(err)
		delay = w.policy.Delay(n, delay)
		wait := delay
		if after, ok := retry.AfterOf(err); ok {
			wait = max(delay, min(after, w.policy.MaxRetryAfter()))
		}
		if wait = min(wait, max(0, w.o.MaxAge-time.Since(s.at()))); !retry.Sleep(ctx, wait) {
			return stopped
		}
		if time.Since(s.at()) >= w.o.MaxAge {
			return expired
		}
	}
}

// errOtherVersion asks for the same request in version 1.
var errOtherVersion = errors.New("the server knows only version 1")

// post makes one request.
func (w *Writer) post(ctx context.Context, c chunk) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	version := w.version.Load()
	body, typ, header := c.body, requiredV2, "2.0.0"
	if version == 1 {
		raw, err := s2.Decode(nil, c.body)
		if err == nil {
			raw, err = versionOne(raw)
		}
		if err != nil {
			return retry.Permanent(err)
		}
		body, typ, header = s2.EncodeSnappy(nil, raw), requiredV1, "0.1.0"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.o.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	for name, value := range w.o.Headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", typ)
	req.Header.Set("Content-Encoding", "snappy")
	req.Header.Set("X-Prometheus-Remote-Write-Version", header)
	req.Header.Set("User-Agent", "sloengine")
	res, err := w.o.Client.Do(req)
	if of, ok := errors.AsType[*url.Error](err); ok {
		return retry.WithClass(of.Err, retry.ClassOf(err)) // without the URL, which may hold a secret
	}
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(res.Body, remote.MaxAnswer)) // the status decides
	// A server of version 1 that does not look at the content type takes nothing, and says that all went well.
	other := res.StatusCode == http.StatusUnsupportedMediaType ||
		res.StatusCode/100 == 2 && res.Header.Get("X-Prometheus-Remote-Write-Samples-Written") == ""
	if other && version == 2 && w.o.Protobuf == "auto" {
		w.version.Store(1)
		w.o.Logger.Info("remote write uses version 1, as the server knows no other", "remote_write", w.o.Name)
		return errOtherVersion
	}
	if res.StatusCode/100 == 2 {
		return nil
	}
	e := &remote.StatusError{Status: res.StatusCode, Class: remote.ClassOf(res.StatusCode),
		Detail: remote.Text(string(answer))}
	switch {
	case res.StatusCode == http.StatusUnsupportedMediaType:
		e.Class = retry.ClassBlocked // until protobuf is set to another version
	case res.StatusCode/100 == 3:
		e.Detail = "redirects are not followed, set url to the new address"
	}
	if after, ok := retry.ParseRetryAfter(res.Header.Get("Retry-After"), time.Now()); ok {
		return retry.After(e, after)
	}
	return e
}

// Status is how a Writer does.
type Status struct {
	Name         string
	Lag          time.Duration // age of the oldest samples that wait
	Files        int
	Bytes, Most  int64
	Sent         uint64 // samples
	Failures     uint64 // requests
	Dropped      uint64 // samples
	LastDelivery time.Time
	Failure      health.Failure // zero: requests succeed
}

// Status reports how the writer does.
func (w *Writer) Status(now time.Time) Status {
	s := Status{Name: w.o.Name, Lag: w.lag(now), Most: w.o.MaxBytes, Sent: w.sent.Get(), Failures: w.failures.Get(),
		Failure: w.sending.Failure()}
	w.queue.mu.Lock()
	s.Files, s.Bytes = len(w.queue.shots), w.queue.bytes
	w.queue.mu.Unlock()
	for _, c := range w.dropped {
		s.Dropped += c.Get()
	}
	if at := w.lastDelivery.Load(); at != nil {
		s.LastDelivery = *at
	}
	return s
}
