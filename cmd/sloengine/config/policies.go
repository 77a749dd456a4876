package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/bulkhead"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/retry"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// policies are what stands around each call to a sink: at the top level for all
// sinks, in a sink for what differs there.
type policies struct {
	Retry    retryConfig                `yaml:"retry"`
	Breaker  Disableable[breakerConfig] `yaml:"breaker"`
	Bulkhead bulkheadConfig             `yaml:"bulkhead"`
	Timeout  time.Duration              `yaml:"timeout" min:"1ms" max:"1h"` // of one call
}

type retryConfig struct {
	MaxRetries    retries       `yaml:"max_retries"` // after the first attempt
	Base          time.Duration `yaml:"base" min:"1ms" max:"1d"`
	Cap           time.Duration `yaml:"cap" min:"1ms" max:"1d"`
	Jitter        string        `yaml:"jitter" one:"full equal decorrelated plusminus none"`
	Spread        float64       `yaml:"spread" above:"0" max:"1"` // of plusminus
	RetryOn       []string      `yaml:"retry_on"`                 // classes and status codes; others become dead letters at once
	MaxElapsed    time.Duration `yaml:"max_elapsed"`              // 0: no limit
	MaxRetryAfter time.Duration `yaml:"max_retry_after" min:"1ms" max:"1d"`
	Budget        struct {
		Ratio        float64 `yaml:"ratio" above:"0" max:"1"` // retries per first attempt
		MinPerSecond float64 `yaml:"min_per_second" min:"0" max:"1000000"`
		Burst        float64 `yaml:"burst" min:"1" max:"1000000"`
	} `yaml:"budget"`
	RateLimit struct {
		Limit      int           `yaml:"limit" min:"1" max:"1000000"` // events
		Interval   time.Duration `yaml:"interval" min:"1ms" max:"1d"`
		OnExceeded string        `yaml:"on_exceeded" one:"delay drop dead_letter"`
	} `yaml:"rate_limit"`
	Staged Disableable[stagedConfig] `yaml:"staged"`
}

type stagedConfig struct {
	Items    int           `yaml:"items" min:"1" max:"1000000"`
	Interval time.Duration `yaml:"interval" min:"1ms" max:"1d"`
	Growth   float64       `yaml:"growth" min:"1" max:"1000"`
}

type breakerConfig struct {
	Consecutive    Disableable[consecutiveConfig] `yaml:"consecutive"`
	Rate           Disableable[failureRateConfig] `yaml:"rate"`
	ProbeTimeout   time.Duration                  `yaml:"probe_timeout" min:"1ms" max:"1h"`
	HealthInterval time.Duration                  `yaml:"health_interval" min:"10ms" max:"1h"`
}

type consecutiveConfig struct {
	Failures int           `yaml:"failures" min:"1" max:"1000000"`
	Open     time.Duration `yaml:"open" min:"1ms" max:"1d"`
	Probes   int           `yaml:"probes" min:"1" max:"1000"`
}

type failureRateConfig struct {
	Threshold float64       `yaml:"threshold" min:"0.01" max:"1"` // the breaker rounds to 1/100
	MinCalls  int           `yaml:"min_calls" min:"1" max:"1000000"`
	Window    time.Duration `yaml:"window" min:"10ms" max:"1d"`
	Open      time.Duration `yaml:"open" min:"1ms" max:"1d"`
	Probes    int           `yaml:"probes" min:"1" max:"1000"`
	Successes int           `yaml:"successes" min:"1" max:"1000"` // of the probes
}

type bulkheadConfig struct {
	Concurrency int           `yaml:"concurrency" min:"1" max:"1000"`
	MaxWait     time.Duration `yaml:"max_wait" max:"1h"` // 0: as long as the call may take
}

// defaultRetryOn are the classes of errors that another try may help with.
var defaultRetryOn = []string{"transient", "timeout", "overload", "unknown", "blocked"}

// retryOn reads a list of classes and status codes; nil is the default.
func retryOn(list []string) (*dispatch.RetryOn, error) {
	if slices.Equal(list, defaultRetryOn) {
		return nil, nil
	}
	var on dispatch.RetryOn
	for _, text := range list {
		if class, ok := retry.ParseClass(text); ok && class != retry.ClassBreakerOpen {
			on.Classes[class] = true
			continue
		}
		code, err := strconv.Atoi(text)
		if err != nil || code < 300 || code > 599 {
			return nil, fmt.Errorf("%q is neither a class of errors nor a status code", text)
		}
		on.Codes = append(on.Codes, code)
	}
	return &on, nil
}

func defaultPolicies() policies {
	var p policies
	r := &p.Retry
	r.MaxRetries = retry.DefaultMaxRetries
	r.RetryOn = defaultRetryOn
	r.Base, r.Cap = 100*time.Millisecond, 5*time.Second
	r.Jitter, r.Spread = "full", 0.5
	r.MaxRetryAfter = time.Minute
	r.Budget.Ratio, r.Budget.MinPerSecond, r.Budget.Burst = 0.2, 1, 10
	r.RateLimit.Limit, r.RateLimit.Interval, r.RateLimit.OnExceeded = 100, time.Second, "delay"
	r.Staged.V = stagedConfig{Items: 100, Interval: time.Second, Growth: 2}
	b := &p.Breaker.V
	b.Consecutive.V = consecutiveConfig{Failures: 5, Open: time.Minute, Probes: 3}
	b.Rate.V = failureRateConfig{Threshold: 0.5, MinCalls: 10, Window: time.Minute, Open: 30 * time.Second, Probes: 3, Successes: 2}
	b.ProbeTimeout, b.HealthInterval = 5*time.Second, 5*time.Second
	p.Bulkhead = bulkheadConfig{Concurrency: 4}
	p.Timeout = 5 * time.Second
	return p
}

// check tells what no single value shows. path is where the policies stand: "" or
// that of a sink.
func (p *policies) check(f *yamldoc.Decoder, path string) {
	// A sink takes over what is wrong at the top level. It is told there, once.
	own := func(keys ...string) bool {
		for _, k := range keys {
			k = child(path, k)
			if f.Broken(k) {
				return false
			}
			if path == "" || f.Has(k) {
				return true
			}
		}
		return false
	}
	r, b := &p.Retry, &p.Breaker.V
	if own("retry.base", "retry.cap") && r.Cap < r.Base {
		f.Errorf(child(path, "retry.cap"), "raise it, or lower base", "must be at least the base of %s", r.Base)
	}
	for i, text := range r.RetryOn {
		if _, err := retryOn([]string{text}); err != nil && own("retry.retry_on") {
			f.Errorf(item(child(path, "retry.retry_on"), i), "one of "+strings.Join(append(defaultRetryOn, "permanent"), ", ")+", or a code such as 409", "%v", err)
		}
	}
	if own("breaker.consecutive", "breaker.rate") && b.Consecutive.Off && b.Rate.Off && !p.Breaker.Off {
		f.Errorf(child(path, "breaker"), "write breaker: off, or leave one of them on", "both rules are off, so it would never open")
	}
	if own("breaker.rate.probes", "breaker.rate.successes") && !b.Rate.Off && b.Rate.V.Successes > b.Rate.V.Probes {
		f.Errorf(child(path, "breaker.rate.successes"), "lower it, or raise probes", "%d of %d probes cannot succeed", b.Rate.V.Successes, b.Rate.V.Probes)
	}
}

// fill gives the policies to a sink.
func (p *policies) fill(o *dispatch.SinkOptions) {
	r, b := &p.Retry, &p.Breaker.V
	o.Retry = retry.Options{
		Base: r.Base, Cap: r.Cap, Jitter: retry.Jitter(r.Jitter), Spread: r.Spread,
		MaxRetries: int(r.MaxRetries), MaxElapsed: r.MaxElapsed, MaxRetryAfter: r.MaxRetryAfter,
	}
	if o.Retry.MaxRetries == 0 {
		o.Retry.MaxRetries = retry.Never
	}
	o.RetryOn, _ = retryOn(r.RetryOn) // it was checked
	o.Budget = &retry.BudgetOptions{Ratio: r.Budget.Ratio, MinPerSecond: r.Budget.MinPerSecond, Burst: r.Budget.Burst}
	if r.Budget.MinPerSecond == 0 {
		o.Budget.MinPerSecond = -1 // that is how the option says none
	}
	o.RetryLimit = &retry.LimitOptions{PerInterval: r.RateLimit.Limit, Interval: r.RateLimit.Interval, OnExceed: retry.Exceed(r.RateLimit.OnExceeded)}
	s := r.Staged.V
	o.Staged = dispatch.Staged{Off: r.Staged.Off, Items: s.Items, Interval: s.Interval, Growth: s.Growth}
	run, rate := b.Consecutive.V, b.Rate.V
	o.Breaker = breaker.Options{
		Off:          p.Breaker.Off,
		Consecutive:  breaker.Consecutive{Off: b.Consecutive.Off, Failures: run.Failures, Open: run.Open, Probes: run.Probes},
		Rate:         breaker.Rate{Off: b.Rate.Off, Threshold: rate.Threshold, MinCalls: rate.MinCalls, Window: rate.Window, Open: rate.Open, Probes: rate.Probes, Successes: rate.Successes},
		ProbeTimeout: b.ProbeTimeout, HealthInterval: b.HealthInterval,
	}
	o.Bulkhead = bulkhead.Options{Concurrency: p.Bulkhead.Concurrency, MaxWait: p.Bulkhead.MaxWait}
	o.Timeout = p.Timeout
}

// retries is a number of retries, or unlimited.
type retries int

// DecodeYAML implements yamldoc.Unmarshaler.
func (r *retries) DecodeYAML(d *yamldoc.Decoder, v *yamldoc.Value, _ reflect.StructTag) {
	var n int
	if v.IsScalar() && v.Raw() == "unlimited" {
		*r = retry.Unlimited
	} else if d.DecodeTagged(v, &n, `min:"0" max:"1000000"`) {
		*r = retries(n)
	}
}
