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
	Bulkhead bulkhead.Options           `yaml:"bulkhead"`                   // max_wait 0: as long as the call may take
	Timeout  time.Duration              `yaml:"timeout" min:"1ms" max:"1h"` // of one call
}

type retryConfig struct {
	retry.Options `yaml:",inline"`
	MaxRetries    retries `yaml:"max_retries"` // after the first attempt
	// classes and status codes; others become dead letters at once
	RetryOn   []string                     `yaml:"retry_on"`
	Budget    retry.BudgetOptions          `yaml:"budget"`
	RateLimit retry.LimitOptions           `yaml:"rate_limit"` // in events
	Staged    Disableable[dispatch.Staged] `yaml:"staged"`
}

type breakerConfig struct {
	breaker.Options `yaml:",inline"`
	Consecutive     Disableable[breaker.Consecutive] `yaml:"consecutive"`
	Rate            Disableable[breaker.Rate]        `yaml:"rate"`
}

// options are those of the breaker.
func (b *breakerConfig) options(off bool) breaker.Options {
	o := b.Options
	o.Off = off
	o.Consecutive, o.Consecutive.Off = b.Consecutive.V, b.Consecutive.Off
	o.Rate, o.Rate.Off = b.Rate.V, b.Rate.Off
	return o
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
			return nil, fmt.Errorf("%q is neither an error class nor a status code", text)
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
	r.Jitter, r.Spread = retry.Full, 0.5
	r.MaxRetryAfter = time.Minute
	r.Budget.Ratio, r.Budget.MinPerSecond, r.Budget.Burst = 0.2, 1, 10
	r.RateLimit = retry.LimitOptions{PerInterval: 100, Interval: time.Second, OnExceed: retry.Delay}
	r.Staged.V = dispatch.Staged{Items: 100, Interval: time.Second, Growth: 2}
	b := &p.Breaker.V
	b.Consecutive.V = breaker.Consecutive{Failures: 5, Open: time.Minute, Probes: 3}
	b.Rate.V = breaker.Rate{Threshold: 0.5, MinCalls: 10, Window: time.Minute, Open: 30 * time.Second,
		Probes: 3, Successes: 2}
	b.ProbeTimeout, b.HealthInterval = 5*time.Second, 5*time.Second
	p.Bulkhead.Concurrency = 4
	p.Timeout = 5 * time.Second
	return p
}

// check tells what no single value shows. path is where the policies stand: "" or
// that of a sink.
func (p *policies) check(f *yamldoc.Decoder, path string) {
	// A sink inherits the problems of the top level, which are reported there, once.
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
		f.Errorf(child(path, "retry.cap"), "raise it, or lower base", "must be at least retry.base (%s)", r.Base)
	}
	for i, text := range r.RetryOn {
		if _, err := retryOn([]string{text}); err != nil && own("retry.retry_on") {
			f.Errorf(item(child(path, "retry.retry_on"), i),
				"want one of "+strings.Join(append(defaultRetryOn, "permanent"), ", ")+", or a code such as 409", "%v", err)
		}
	}
	if own("breaker.consecutive", "breaker.rate") && b.Consecutive.Off && b.Rate.Off && !p.Breaker.Off {
		f.Errorf(child(path, "breaker"), "set breaker: off, or enable one of the rules",
			"both rules are off, so the breaker would never open")
	}
	if own("breaker.rate.probes", "breaker.rate.successes") && !b.Rate.Off && b.Rate.V.Successes > b.Rate.V.Probes {
		f.Errorf(child(path, "breaker.rate.successes"), "lower it, or raise probes",
			"successes (%d) must not exceed probes (%d)", b.Rate.V.Successes, b.Rate.V.Probes)
	}
}

// fill gives the policies to a sink.
func (p *policies) fill(o *dispatch.SinkOptions) {
	r := p.Retry
	o.Retry = r.Options
	if o.Retry.MaxRetries = int(r.MaxRetries); r.MaxRetries == 0 {
		o.Retry.MaxRetries = retry.Never
	}
	o.RetryOn, _ = retryOn(r.RetryOn) // it was checked
	if r.Budget.MinPerSecond == 0 {
		r.Budget.MinPerSecond = -1 // that is how the option says none
	}
	o.Budget, o.RetryLimit = &r.Budget, &r.RateLimit
	o.Staged, o.Staged.Off = r.Staged.V, r.Staged.Off
	o.Breaker, o.Bulkhead, o.Timeout = p.Breaker.V.options(p.Breaker.Off), p.Bulkhead, p.Timeout
}

// retries is a number of retries, or unlimited.
type retries int

const retriesRange = `min:"0" max:"1000000"`

// DecodeYAML implements yamldoc.Unmarshaler.
func (r *retries) DecodeYAML(d *yamldoc.Decoder, v *yamldoc.Value, _ reflect.StructTag) {
	var n int
	if v.IsScalar() && v.Raw() == "unlimited" {
		*r = retry.Unlimited
	} else if d.DecodeTagged(v, &n, retriesRange) {
		*r = retries(n)
	}
}
