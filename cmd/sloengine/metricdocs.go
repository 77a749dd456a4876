package main

import (
	"strings"

	"github.com/sloengine/sloengine/rules/series"
)

// metricPart are the metric families of one part of the program.
type metricPart struct {
	title string
	about string // when they are there, and what holds for all of them
	docs  []metricDoc
}

// metricDoc says what a family is. docs/metrics.md and the HELP lines of /metrics are
// made of it, and a test holds it against a running engine.
type metricDoc struct {
	name   string
	kind   series.Type
	unit   string // of the values; "1" for 1 or 0
	labels []metricLabel
	more   string // labels that come from the spec besides, in words
	help   string
	when   string // why it may be missing in a part that is there
}

// metricLabel is a label with all values that it can have, or what they are.
type metricLabel struct {
	name   string
	values []string
	about  string
}

// oneOf is a label of a few fixed values, separated by spaces.
func oneOf(name, values string) metricLabel {
	return metricLabel{name: name, values: strings.Fields(values)}
}

// named is a label whose values are names that somebody chose.
func named(name, about string) metricLabel { return metricLabel{name: name, about: about} }

// with lists labels.
func with(l ...metricLabel) []metricLabel { return l }

// Units that many families share.
const (
	unitEvents  = "events"
	unitBytes   = "bytes"
	unitSeconds = "seconds"
	unitYesNo   = "1 or 0"
	unitTimes   = "times"
)

// metricParts lists every family that the program exports, part by part.
func metricParts() []metricPart {
	return []metricPart{
		seriesDocs(), trafficDocs(), alertDocs(),
		ingestDocs(), dedupeDocs(), walDocs(), foldDocs(), checkpointDocs(), evaluateDocs(),
		ratelimitDocs(), outboundDocs(), redisDocs(), redactDocs(),
		sinkDocs(), retryDocs(), breakerDocs(), bulkheadDocs(), deadlineDocs(), dlqDocs(),
		webDocs(), processDocs(), clientDocs(),
	}
}

// metricHelp is the HELP line of every family, by name.
func metricHelp() map[string]string {
	help := map[string]string{}
	for _, p := range metricParts() {
		for _, d := range p.docs {
			help[d.name] = d.help
		}
	}
	return help
}
