package fold

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// Retentions are rounded up to whole days, so that indicators share stores, and
// are at least minKeep, the longest of the burn-rate windows.
const (
	keepUnit = 24 * time.Hour
	minKeep  = 3 * keepUnit
	maxKeep  = 1000 * keepUnit
	maxSlice = 7 * 24 * time.Hour
)

// compiled is a config that was found to be good, before it takes effect.
type compiled struct {
	cfg  *Config      // deep copy
	text []byte       // its JSON
	inds []*indicator // by ID, without groups or stores
}

// compile checks everything that can be wrong with a config. The error lists all
// that is.
func compile(cfg *Config) (*compiled, error) {
	text, err := json.Marshal(cfg)
	if err != nil {
		return nil, fmt.Errorf("copy config: %w", err)
	}
	return compileJSON(text)
}

func compileJSON(text []byte) (*compiled, error) {
	c := &compiled{cfg: new(Config), text: text}
	if err := json.Unmarshal(text, c.cfg); err != nil {
		return nil, fmt.Errorf("copy config: %w", err)
	}
	var errs []error
	if c.cfg.Version != ConfigVersion {
		errs = append(errs, fmt.Errorf("config version %d, want %d", c.cfg.Version, ConfigVersion))
	}
	services := map[string]bool{}
	for i := range c.cfg.Services {
		s := &c.cfg.Services[i]
		if s.Name == "" || services[s.Name] {
			errs = append(errs, fmt.Errorf("service %q: missing or repeated name", s.Name))
		}
		if !rising(s.Buckets) {
			errs = append(errs, fmt.Errorf("service %q: buckets must rise", s.Name))
		}
		services[s.Name] = true
	}
	ids := map[string]bool{}
	for i := range c.cfg.Indicators {
		spec := &c.cfg.Indicators[i]
		ind, err := compileIndicator(spec)
		switch {
		case spec.ID == "" || ids[spec.ID]:
			err = errors.New("missing or repeated ID")
		case err == nil && !services[spec.Service]:
			err = fmt.Errorf("unknown service %q", spec.Service)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("indicator %q: %w", spec.ID, err))
		}
		ids[spec.ID] = true
		c.inds = append(c.inds, ind)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	slices.SortFunc(c.inds, func(a, b *indicator) int { return strings.Compare(a.spec.ID, b.spec.ID) })
	return c, nil
}

func rising(ds []time.Duration) bool {
	for i, d := range ds {
		if d < 0 || i > 0 && d <= ds[i-1] {
			return false
		}
	}
	return true
}

func compileIndicator(spec *Indicator) (*indicator, error) {
	ind := &indicator{spec: spec, width: 2, groups: map[string]*group{}}
	var err error
	if ind.valid, err = matchers(spec.Valid); err != nil {
		return nil, fmt.Errorf("valid: %w", err)
	}
	if ind.bad, err = matchers(spec.Bad); err != nil {
		return nil, fmt.Errorf("bad: %w", err)
	}
	switch spec.Kind {
	case Events:
		if len(spec.Edges) > 0 {
			return nil, errors.New("an indicator of events has no edges")
		}
	case Latency:
		if len(spec.Edges) == 0 || !rising(spec.Edges) {
			return nil, errors.New("a latency indicator needs edges, and they must rise")
		}
		for _, e := range spec.Edges {
			ind.edges = append(ind.edges, int64(e))
		}
		ind.width = len(spec.Edges) + 1
	default:
		return nil, fmt.Errorf("unknown kind %q", spec.Kind)
	}
	if spec.Retention < 0 || spec.Retention > maxKeep {
		return nil, fmt.Errorf("retention %s is not between 0 and %s", spec.Retention, maxKeep)
	}
	if spec.MaxGroups < 0 {
		return nil, errors.New("negative max_groups")
	}
	for _, e := range spec.Expect {
		if len(e) != len(spec.GroupBy) || len(e) == 0 {
			return nil, fmt.Errorf("expected group %q does not fit group_by %q", e, spec.GroupBy)
		}
	}
	ind.bins = ind.width
	if sl := spec.Slice; sl != nil {
		ind.bins = SliceBins
		if sl.Per < time.Second || sl.Per > maxSlice {
			return nil, fmt.Errorf("slices of %s are not between 1s and %s", sl.Per, maxSlice)
		}
		if spec.Kind == Latency && len(spec.Edges) != 1 {
			return nil, errors.New("a sliced latency indicator has exactly one edge")
		}
		if sl.Target < 0 || sl.Target > 1 {
			return nil, fmt.Errorf("slice target %v is not between 0 and 1", sl.Target)
		}
		if sl.During != "" {
			if ind.sched, err = slo.ParseSchedule(sl.During); err != nil {
				return nil, fmt.Errorf("during: %w", err)
			}
		}
	}
	ind.key, err = generationKey(spec)
	return ind, err
}

// generationKey is equal for indicators that count the same things. Bad matters
// only where it is read, so that it may be left or dropped for latencies.
func generationKey(spec *Indicator) (string, error) {
	what := struct {
		Service    string
		Kind       Kind
		Valid, Bad []Matcher
		Edges      []time.Duration
		GroupBy    []string
		Slice      *Slice
	}{spec.Service, spec.Kind, spec.Valid, spec.Bad, spec.Edges, spec.GroupBy, spec.Slice}
	if spec.Kind == Latency {
		what.Bad = nil
	}
	text, err := json.Marshal(what)
	if err != nil {
		return "", fmt.Errorf("compare indicator: %w", err)
	}
	return string(text), nil
}

func keepOf(spec *Indicator) time.Duration {
	return max(minKeep, (spec.Retention+keepUnit-1)/keepUnit*keepUnit)
}
