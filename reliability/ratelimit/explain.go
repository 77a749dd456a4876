package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sloengine/sloengine/reliability/pattern"
)

// Setting is a value of a rule and where it comes from: "type NAME", "preset NAME",
// "context NAME", "default", "global" or "built-in".
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from"`
}

// Explained is one rule that applies to an event.
type Explained struct {
	Layer    string    `json:"layer"`
	Rule     string    `json:"rule"`
	Value    string    `json:"value,omitempty"` // of a context
	Settings []Setting `json:"settings"`
}

// Explanation lists the limits for an event.
type Explanation struct {
	// Exempt is why the event is not limited: "audit PATTERN" or "bypass rule N", counted
	// from 1; "" if it is limited.
	Exempt string      `json:"exempt,omitempty"`
	Rules  []Explained `json:"rules"`
}

// Explain says which rules apply to an event of the caller, and where their values come
// from. The rules are listed for an exempt event, too.
func Explain(c Config, caller *Caller, s *Subject) (*Explanation, error) {
	k := newCompiler(&c)
	k.explain = true
	p := k.compile()
	if len(k.errs) > 0 {
		return nil, errors.Join(k.errs...)
	}
	out := &Explanation{}
	typ := p.typeOf(s.Type)
	switch {
	case typ.audit:
		i := slices.IndexFunc(p.audit, func(a pattern.Pattern) bool { return a.Match(typ.name) })
		out.Exempt = "audit " + p.audit[i].String()
	case caller.Authenticated:
		for i := range p.bypass {
			if typ.bypass&(1<<i) != 0 && p.bypass[i].fits(caller, s) {
				out.Exempt = "bypass rule " + strconv.Itoa(i+1)
				break
			}
		}
	}
	add := func(n uint16, value string) {
		r := &p.rules[n]
		e := Explained{Layer: r.layer.String(), Rule: r.name, Value: value, Settings: r.settings}
		if r.layer == Context { // the treatment of events over it comes from the type, unless it is set here
			e.Settings = slices.Clone(e.Settings)
			for i := range e.Settings {
				if x := &e.Settings[i]; slices.Contains(treatment, x.Name) && x.From != "context "+r.name {
					j := slices.IndexFunc(p.rules[typ.rule].settings, func(y Setting) bool { return y.Name == x.Name })
					*x = p.rules[typ.rule].settings[j]
				}
			}
		}
		out.Rules = append(out.Rules, e)
	}
	if p.global != nil {
		add(0, "")
	}
	add(typ.rule, "")
	var t Tickets
	t.begin(p, caller)
	for i := range p.contexts {
		if _, value, ok := t.context(i, &p.contexts[i], caller, s); ok {
			add(p.contexts[i].rule, string(t.valueAt(value)))
		}
	}
	return out, nil
}

// treatment holds the settings for events over a limit.
var treatment = []string{"on_exceeded", "sample_rate", "throttle", "throttle_max", "aggregate_fields"}

// Counter is how far one value of a context is used up.
type Counter struct {
	Rule      string        `json:"rule"`
	Value     string        `json:"value"`
	Limit     int64         `json:"limit"` // events; of a token bucket its burst
	Remaining int64         `json:"remaining"`
	Window    time.Duration `json:"-"`
	Reset     time.Duration `json:"-"` // until there is room again, or all of the limit at the latest
}

// ErrNoContext means that there is no context rule of that name.
var ErrNoContext = errors.New("unknown context")

// Counter looks at the counter of a context's value, and charges nothing. It asks the
// store.
func (l *Limiter) Counter(ctx context.Context, now time.Time, name, value string) (*Counter, error) {
	p := l.Policy()
	i := -1
	if p != nil {
		i = slices.IndexFunc(p.contexts, func(x contextRule) bool { return p.rules[x.rule].name == name })
	}
	if i < 0 {
		return nil, fmt.Errorf("%w: %q", ErrNoContext, name)
	}
	x := &p.contexts[i]
	var t Tickets
	t.begin(p, &Caller{})
	key, at := keep(&t, x, value)
	t.charges = append(t.charges, Charge{Key: key, Limit: x.limit, Layer: Context, Rule: x.rule, value: at})
	t.List = append(t.List, Ticket{policy: p, end: 1})
	if err := l.force.Load().store.Peek(ctx, now, &t); err != nil {
		return nil, fmt.Errorf("rate limits: %w", err)
	}
	q, ok := t.Quota(now)
	if !ok {
		return nil, errors.New("rate limits: the counters are unreachable")
	}
	if t.List[0].Over == 0 && q.Limit > q.Remaining { // the event that was tried is not there
		q.Remaining++
	}
	return &Counter{Rule: name, Value: value, Limit: q.Limit, Remaining: q.Remaining,
		Window: q.Window, Reset: q.Reset}, nil
}
