package spec

import (
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// draft is one document, in no particular format, before it is checked against
// the others. What could not be read is missing from it and already reported.
type draft struct {
	service string
	at      Position

	description   string
	descriptionAt Position

	// perDocument says that the labels are those of this document, whatever others
	// of the service say; its SLOs have them already.
	perDocument bool

	labels     map[string]string
	labelAt    map[string]Position
	types      []string // as listed
	anyType    bool     // said to be any
	dimensions []string
	hasDims    bool
	buckets    []time.Duration
	hasBuckets bool

	slos        []*sloDraft
	corrections []*correctionDraft
	thresholds  []*thresholdDraft
	slas        []*slaDraft
	baselines   []*baselineDraft
}

// named is text with its place.
type named struct {
	name string
	at   Position
}

type sloDraft struct {
	*slo.SLO
	service     string
	at          Position // of its name
	objectiveAt Position
	was         *named
	valid       *selector // nil if nothing says which events count
	numerator   *selector // of a ratio
	finished    *selector // of completion, beside valid, which is what starts work
	failed      *selector
	withinAt    Position // of completion
	causes      []causeDraft
	groupsKnown bool // group_by could be read
	kindKnown   bool
	ok          bool             // nothing is wrong with it by itself
	covered     []slo.Correction // that leave nothing of a window
}

type correctionDraft struct {
	slo.Correction
	at   Position
	slos []named
	lost bool // its time zone is unknown
}

type thresholdDraft struct {
	*slo.Threshold
	at    Position
	match *selector
}

type slaDraft struct {
	*sla.Agreement
	at         Position
	weightsAt  Position
	components []componentDraft
	groups     []named
	catalogue  []catalogueDraft
	ok         bool
}

// catalogueDraft is one chosen entry of the catalogue of alerts.
type catalogueDraft struct {
	name string
	slos []named
}

type componentDraft struct {
	sla.Component
	slo     named
	bandsAt Position
	ok      bool
}

// Windows and slices are bounded by what the engine keeps and resolves.
const (
	day       = 24 * time.Hour
	minWindow = time.Hour
	maxWindow = 366 * day
	minSlice  = 10 * time.Second
	maxSlice  = day

	defaultWindow = 30 * day
)
