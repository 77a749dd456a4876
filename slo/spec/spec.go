// Package spec reads what users write: YAML files that describe services, their
// SLOs, event thresholds, corrections and agreements, as values of slo and sla.
//
// Besides the own format it reads Sloth's prometheus/v1 and Kubernetes resource,
// Pyrra's resource, the configuration of slo-generator, SLOs of Nobl9, and OpenSLO
// v1 and v1alpha.
// Every document says what it is, so files of all formats can be loaded together;
// Write writes any of them in the own format. A query that is no more than the rate
// of a counter is taken apart into the counter's selector.
//
// It is strict. Unknown keys, wrong types, doubtful units and references to
// what does not exist are problems, and all of them are reported at once, each
// with file, line, column and what to do about it. What another format says and
// this one cannot is an error too; what is taken in a way that the writer may not
// have meant is a warning. Nothing is dropped in silence.
//
// It knows nothing of how events are counted, stored or served, of the engine's
// own settings, and of the clock: the same files always give the same Spec.
package spec

import (
	"bytes"
	_ "embed"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// Version is the version key of the own format.
const Version = "sloengine/v1"

// DefaultMaxGroups is the number of groups that an SLO with group_by may have
// when it does not say max_groups.
const DefaultMaxGroups = 1000

// DefaultDimensions are the attributes that a service's counters are split by
// when it does not say dimensions.
var DefaultDimensions = []string{"error_type"}

// DefaultBuckets are the upper bounds of the duration histogram of a service that
// does not say buckets.
var DefaultBuckets = []time.Duration{
	5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
	250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond,
	5 * time.Second, 10 * time.Second,
	30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
}

// File is one file to read. Its name is only used in problems and sources.
type File struct {
	Name string
	Data []byte
}

// Spec is everything that the files say, checked. It must not be changed.
type Spec struct {
	SLOs       []*slo.SLO       // by ID
	Thresholds []*slo.Threshold // by service, in the order of the files within one
	Agreements []*sla.Agreement // by service, then name
	Baselines  []*slo.Baseline  // by service, in the order of the files within one
	Services   []Service        // by name
	Warnings   []string         // the warnings among the problems, as text
	Sources    []Source         // where each SLO, event threshold and agreement is written
}

// Service is a service that some file describes.
type Service struct {
	Name        string
	Description string
	// Types are the event types that the service sends, sorted; empty means any.
	// Unless a file lists them they are those that the selectors name.
	Types []string
	// Dimensions are the attributes that the service's counters are split by.
	Dimensions []string

	// Buckets are upper bounds of the service's duration histogram, ascending. The
	// thresholds in use are added to them. Nil if not known.
	Buckets []time.Duration
	Labels  map[string]string
}

// Kind says what a Source is the source of.
type Kind string

// The kinds of source.
const (
	KindSLO       Kind = "slo"
	KindThreshold Kind = "threshold"
	KindSLA       Kind = "sla"
)

// Source is the place where something is written.
type Source struct {
	Kind    Kind
	Service string
	Name    string
	Position
}

// Source finds where something is written.
func (s *Spec) Source(k Kind, service, name string) (Source, bool) {
	for _, src := range s.Sources {
		if src.Kind == k && src.Service == service && src.Name == name {
			return src, true
		}
	}
	return Source{}, false
}

// The parts of a problem, as the reader reports them.
type (
	Position = yamldoc.Position
	Problem  = yamldoc.Problem
	Problems = yamldoc.Problems
	Severity = yamldoc.Severity
)

// The severities. Only errors keep a spec from being used.
const (
	Error   = yamldoc.SeverityError
	Warning = yamldoc.SeverityWarning
)

//go:embed starter.yaml
var starter []byte

// Starter is a commented spec to begin with, for the service of that name. It
// is valid if the name is.
func Starter(service string) []byte {
	return bytes.ReplaceAll(starter, []byte("SERVICE"), []byte(service))
}
