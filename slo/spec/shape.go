package spec

import (
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc/shape"
)

type (
	doc  = shape.Shape
	item = shape.Key
)

// Patterns that only the description needs.
const (
	idPattern         = `^([a-z0-9._-]*[a-z0-9][a-z0-9._-]*/)?[a-z0-9._-]*[a-z0-9][a-z0-9._-]*$`
	anyCasePattern    = `^[A-Za-z0-9._-]*[A-Za-z0-9][A-Za-z0-9._-]*$`
	percentilePattern = `^p[0-9]{2}(\.[0-9]+)?$`
	instantPattern    = `^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9:.]+([Zz]|[+-][0-9]{2}:[0-9]{2})$`
)

var (
	textDoc       = doc{Kind: shape.Text}
	nameDoc       = doc{Kind: shape.Text, Pattern: namePattern.String(), Note: "name"}
	zoneDoc       = doc{Kind: shape.Text, Note: "IANA time zone"}
	matchersDoc   = doc{Kind: shape.Text, Note: "label matchers"}
	queryDoc      = doc{Kind: shape.Text, Note: "PromQL"}
	labelDoc      = doc{Kind: shape.Text, Pattern: attributePattern.String(), Note: "attribute"}
	percentDoc    = doc{Kind: shape.Number, Quoted: true, Min: "1", Max: "100", Above: true, Below: true, Note: "percentage"}
	shareDoc      = doc{Kind: shape.Number, Quoted: true, Min: "0", Max: "1000", Above: true, Below: true, Note: "percentage"}
	amountDoc     = doc{Kind: shape.Number, Quoted: true, Min: "0", Above: true, Note: "amount of money"}
	labelsDoc     = doc{Kind: shape.Map, Of: &textDoc, Pattern: labelPattern.String()}
	anyCaseDoc    = doc{Kind: shape.Text, Pattern: anyCasePattern, Note: "name"}
	currencyDoc   = doc{Kind: shape.Text, Pattern: currencyPattern.String(), Note: "currency of ISO 4217"}
	instantDoc    = doc{Kind: shape.Text, Pattern: instantPattern, Note: "RFC 3339 time"}
	falsePagesDoc = doc{Kind: shape.Text, Pattern: falsePagesPattern.String(), Note: "pages per year"}
	hoursDoc      = doc{Kind: shape.Text, Note: "weekly hours"}
)

func durationShape(least, most string) doc { return doc{Kind: shape.Duration, Min: least, Max: most} }
func wholeShape(least, most string) doc {
	return doc{Kind: shape.Whole, Quoted: true, Min: least, Max: most}
}
func numberShape(least, most string) doc {
	return doc{Kind: shape.Number, Quoted: true, Min: least, Max: most}
}
func wordsShape(list ...string) doc { return doc{Kind: shape.Text, Words: list} }
func mappingShape(keys ...item) doc { return doc{Kind: shape.Mapping, Keys: keys} }
func listShape(of doc) doc          { return doc{Kind: shape.List, Of: &of} }
func eitherShape(shapes ...doc) doc { return doc{Kind: shape.Either, Or: shapes} }
func oneOfShape(keys ...item) doc   { return doc{Kind: shape.Mapping, Keys: keys, One: true} }

// The longest window, and so the longest duration.
const longest = "366d"

// Shape describes a document of the own format.
func Shape() doc {
	return mappingShape(
		item{Name: "version", Required: true, Shape: wordsShape("sloengine/v1"), Example: "sloengine/v1", Text: "The format."},
		item{Name: "service", Required: true, Shape: nameDoc, Example: "shop", Text: "The service whose events this spec counts."},
		item{Name: "description", Shape: textDoc, Example: "The shop", Text: "Text for people, shown on the page."},
		item{Name: "labels", Shape: labelsDoc, Example: "{team: orders}", Text: "Labels of `slo_info` of all SLOs."},
		item{Name: "types", Shape: eitherShape(wordsShape("any"), listShape(doc{Kind: shape.Text, Pattern: typePattern.String(), Note: "event type"})), Default: "types that the matchers name", Example: "any",
			Text: "The event types that the service may send."},
		item{Name: "dimensions", Shape: listShape(labelDoc), Example: "[error_type]", Text: "The attributes by which `sloengine_events_total` is split, at most 8."},
		item{Name: "buckets", Shape: listShape(durationShape("1ms", longest)), Default: "bounds from 5ms to 30m", Example: "[100ms, 1s, 10s]",
			Text: "The ascending bounds of `sloengine_event_duration_seconds`, at most 50."},
		item{Name: "slos", Shape: listShape(sloShape()), Example: `[{name: checkout, objective: 99.9, indicator: {events: {bad: '{outcome="failure"}'}}}]`, Text: "The SLOs."},
		item{Name: "corrections", Shape: listShape((&correctionDraft{}).keys().shape()), Example: "[{name: db upgrade, start: 2026-11-22T01:00:00Z, duration: 2h, author: ops, reason: maintenance}]",
			Text: "Times that do not count, such as planned maintenance."},
		item{Name: "thresholds", Shape: listShape((&thresholdDraft{Threshold: &slo.Threshold{}}).keys().shape()), Not: []string{"limits"}, Example: `[{name: checkout, match: '{type="task"}', warning: 30s}]`, Text: "The event thresholds: agreements about single events."},
		item{Name: "limits", Shape: listShape((&thresholdDraft{Threshold: &slo.Threshold{}}).keys().shape()), Example: `[{name: checkout, match: '{type="task"}', warning: 30s}]`, Text: "The old name of `thresholds`."},
		item{Name: "slas", Shape: listShape(newSLADraft("").keys().shape()), Example: "[{name: gold, components: {checkout: {weight: 1}}}]", Text: "The agreements, which are scores over SLOs."},
		item{Name: "baselines", Shape: listShape((&baselineDraft{Baseline: &slo.Baseline{}}).keys().shape()), Example: "[{name: performance, detection: {from: 60m, to: 90m}}]", Text: "How long detection and response took before."},
	)
}

// slices is the length of a slice of time.
func slicesShape(name string) item {
	return item{Name: name, Required: true, Shape: durationShape("10s", "1d"), Example: "1m", Text: "The length of a slice, which divides an hour or is whole minutes."}
}

func sloShape() doc {
	return mappingShape(
		item{Name: "name", Required: true, Shape: nameDoc, Example: "checkout", Text: "The name, unique in the service."},
		item{Name: "was", Shape: nameDoc, Example: "purchase", Text: "The old name. The SLO keeps its counts over the rename."},
		item{Name: "description", Shape: textDoc, Example: "Orders are accepted", Text: "Text for people, shown on the page."},
		item{Name: "labels", Shape: labelsDoc, Default: "those of the service", Example: "{tier: gold}", Text: "Further labels of `slo_info`."},
		item{Name: "objective", Required: true, Shape: percentDoc, Example: "99.9", Text: "The share of good events, exact to the decimal."},
		windowItem(),
		item{Name: "budgeting", Default: "occurrences", Example: "{timeslices: {slice: 1m, target: 95}}", Text: "How the budget is used: by events, or by slices of time.",
			Shape: eitherShape(wordsShape("occurrences"), oneOfShape(
				item{Name: "timeslices", Example: "{slice: 1m, target: 95}", Text: "The share of slices that meet the target.", Shape: mappingShape(
					slicesShape("slice"), item{Name: "target", Required: true, Shape: percentDoc, Example: "95", Text: "The share of good events that a slice needs."})},
				item{Name: "ratio_timeslices", Example: "{slice: 1m}", Text: "The mean of the slices' ratios.", Shape: mappingShape(slicesShape("slice"))},
			))},
		item{Name: "group_by", Shape: listShape(labelDoc), Example: "[region]", Text: "Attributes. Each combination of their values is an SLO of its own."},
		maxGroupsShape(),
		item{Name: "expect", Needs: []string{"group_by"}, Example: "[eu, us]", Text: "Groups that exist before their first event: a value, a list or a mapping of values for each.",
			Shape: listShape(eitherShape(textDoc, listShape(textDoc), doc{Kind: shape.Map, Of: &textDoc}))},
		item{Name: "indicator", Required: true, Example: `{latency: {threshold: 300ms}}`, Text: "What is measured.", Shape: indicatorShape()},
		item{Name: "caused_by", Example: "[{slo: payments/availability}]", Text: "The SLOs whose faults this one suffers from. While one of them pages, this one does not.", Shape: listShape(causedByShape())},
		item{Name: "alerting", Default: "the usual tiers", Example: "{min_events: 100}", Text: "How alerts on the SLO differ from the usual ones.", Shape: (&sloDraft{SLO: &slo.SLO{}}).alerting().shape()},
		item{Name: "cost", Example: "{per_bad: 12.50, currency: EUR}", Text: "What violations cost.", Shape: costKeys(&slo.Cost{}).shape()},
	)
}

func causedByShape() doc {
	values := eitherShape(wordsShape("all"), listShape(textDoc))
	return mappingShape(
		item{Name: "slo", Required: true, Shape: doc{Kind: shape.Text, Pattern: idPattern, Note: "name or service/name"}, Example: "payments/availability", Text: "The SLO, of this service or of another."},
		item{Name: "group", Shape: doc{Kind: shape.Map, Of: &textDoc, Pattern: attributePattern.String()}, Example: "{integration: mdm}", Text: "The group of that SLO, by the labels that the two do not share."},
		item{Name: "affects", Shape: doc{Kind: shape.Map, Of: &values, Pattern: attributePattern.String()}, Example: "{product: [a, b]}", Text: "The groups of this SLO that suffer, by the labels that the two do not share."},
	)
}

func maxGroupsShape() item {
	return item{Name: "max_groups", Needs: []string{"group_by"}, Shape: wholeShape("1", "100000"), Default: "1000", Example: "200", Text: "The number of groups. Further values share the group `__other__`."}
}

// valid is the key of the events that an indicator is about.
func validShape() item {
	return item{Name: "valid", Shape: matchersDoc, Default: "all events", Example: `'{type="order"}'`, Text: "The events that count."}
}

func indicatorShape() doc {
	events := wholeShape("1", "4294967295")
	per := slicesShape("per")
	per.Required, per.Default, per.Example = false, "1m", "5m"
	threshold := durationShape("1ms", longest)
	return oneOfShape(
		item{Name: "events", Example: `{valid: '{type="order"}', bad: '{outcome="failure"}'}`, Text: "Good and bad events.", Shape: mappingShape(validShape(),
			item{Name: "bad", Shape: matchersDoc, Not: []string{"good"}, Example: `'{outcome="failure"}'`, Text: "The bad events among the valid ones. `bad` or `good` is required."},
			item{Name: "good", Shape: matchersDoc, Example: `'{outcome="success"}'`, Text: "The good events, by a single matcher, instead of `bad`."})},
		item{Name: "latency", Example: `{threshold: 300ms}`, Text: "Events with a duration up to a threshold are good.", Shape: mappingShape(validShape(),
			item{Name: "threshold", Required: true, Shape: threshold, Example: "300ms", Text: "The longest good duration."})},
		item{Name: "throughput", Example: `{at_least: 100, per: 1m}`, Text: "Slices of time with enough events are good.", Shape: mappingShape(validShape(),
			item{Name: "at_least", Required: true, Shape: events, Example: "100", Text: "The number of events of a good slice."},
			per,
			item{Name: "during", Shape: hoursDoc, Default: "always", Example: `"Mon-Fri 09:00-18:00 Europe/Moscow"`, Text: "The weekly hours in which slices count."},
			item{Name: "capacity", Example: "120 per 1m", Text: "How many events the service can take.", Shape: eitherShape(
				doc{Kind: shape.Text, Pattern: `^[0-9]+ per [0-9a-z]+$`, Note: "number of events per time"}, mappingShape(
					item{Name: "events", Required: true, Shape: events, Example: "120", Text: "The number of events."},
					item{Name: "per", Required: true, Shape: durationShape("1s", "1d"), Example: "1m", Text: "The time in which they can be taken."}))})},
		item{Name: "ratio", Example: `{numerator: '{type="connected"}', denominator: '{type="applied"}'}`, Text: "One count over another.", Shape: mappingShape(
			item{Name: "numerator", Required: true, Shape: matchersDoc, Example: `'{type="connected"}'`, Text: "The events that are counted."},
			item{Name: "denominator", Required: true, Shape: matchersDoc, Example: `'{type="applied"}'`, Text: "The events that they are set against."})},
		item{Name: "apdex", Example: `{satisfied: 500ms, tolerating: 2s}`, Text: "A score with two time thresholds.", Shape: mappingShape(validShape(),
			item{Name: "satisfied", Required: true, Shape: threshold, Example: "500ms", Text: "The longest duration of an event that counts whole."},
			item{Name: "tolerating", Required: true, Shape: threshold, Example: "2s", Text: "The longest duration of an event that counts half."})},
		item{Name: "volume", Example: `{at_least: 10000, per: day, timezone: Europe/Moscow}`, Text: "Days, weeks or months with enough events are good.", Shape: mappingShape(validShape(),
			item{Name: "at_least", Required: true, Shape: events, Example: "10000", Text: "The number of events of a good period."},
			item{Name: "per", Shape: wordsShape("day", "week", "month"), Default: "day", Example: "week", Text: "The period."},
			item{Name: "timezone", Shape: zoneDoc, Not: []string{"during"}, Example: "Europe/Moscow", Text: "The time zone in which days begin, required without `during`."},
			item{Name: "during", Shape: hoursDoc, Default: "always", Example: `"Mon-Fri 09:00-18:00 Europe/Moscow"`, Text: "The weekly hours that count, with `per: day`."})},
		item{Name: "completion", Example: `{started: '{type="order.created"}', finished: '{type="order.shipped"}', key: order_id, within: 15m}`, Text: "Work that starts is good if it finishes in time.", Shape: mappingShape(
			item{Name: "started", Required: true, Shape: matchersDoc, Example: `'{type="order.created"}'`, Text: "The events that start work."},
			item{Name: "finished", Required: true, Shape: matchersDoc, Example: `'{type="order.shipped"}'`, Text: "The events that finish it."},
			item{Name: "failed", Shape: matchersDoc, Example: `'{type="order.cancelled"}'`, Text: "The events that end it as bad."},
			item{Name: "key", Required: true, Shape: labelDoc, Example: "order_id", Text: "The attribute that identifies a piece of work."},
			item{Name: "within", Required: true, Shape: durationShape("1s", "30d"), Example: "15m", Text: "The longest time of good work."},
			item{Name: "max_in_flight", Shape: wholeShape("1", "10000000"), Default: "100000", Example: "5000", Text: "The number of unfinished pieces of work that are tracked."},
			item{Name: "stage", Shape: labelDoc, Example: "step", Text: "The attribute that says how far work is."})},
		item{Name: "prometheus", Example: `{bad: 'http_requests_total{code=~"5.."}', total: 'http_requests_total'}`, Text: "Counters or queries of Prometheus, for generated rules only.", Shape: prometheusShape()},
	)
}

func prometheusShape() doc {
	counter := doc{Kind: shape.Text, Note: "selector of a counter"}
	return mappingShape(
		item{Name: "bad", Shape: counter, Not: []string{"good", "error_query", "error_ratio_query", "query"}, Needs: []string{"total"}, Example: `'http_requests_total{code=~"5.."}'`, Text: "The counter of bad events."},
		item{Name: "good", Shape: counter, Not: []string{"error_query", "good_query", "total_query", "error_ratio_query", "query"}, Needs: []string{"total"}, Example: `'http_requests_total{code!~"5.."}'`, Text: "The counter of good events, instead of `bad`."},
		item{Name: "total", Shape: counter, Not: []string{"error_query", "good_query", "total_query", "error_ratio_query", "query"}, Example: "http_requests_total", Text: "The counter of all events, with `bad` or `good`."},
		item{Name: "error_query", Shape: queryDoc, Not: []string{"good_query", "error_ratio_query", "query"}, Needs: []string{"total_query"}, Example: `'sum(rate(http_requests_total{code=~"5.."}[$window]))'`,
			Text: "The rate of bad events, with `$window` as the range."},
		item{Name: "good_query", Shape: queryDoc, Not: []string{"bad", "error_ratio_query", "query"}, Needs: []string{"total_query"}, Example: `'sum(rate(http_requests_total{code!~"5.."}[$window]))'`,
			Text: "The rate of good events, instead of `error_query`."},
		item{Name: "total_query", Shape: queryDoc, Not: []string{"bad", "error_ratio_query", "query"}, Example: "'sum(rate(http_requests_total[$window]))'", Text: "The rate of all events, with `error_query` or `good_query`."},
		item{Name: "error_ratio_query", Shape: queryDoc, Not: []string{"query"}, Example: "'sum(rate(errors_total[$window])) / sum(rate(requests_total[$window]))'", Text: "The ratio of bad events."},
		item{Name: "query", Shape: queryDoc, Needs: []string{"op", "value"}, Example: "max(queue_length)", Text: "A query whose samples are compared with `value`."},
		item{Name: "op", Shape: wordsShape("lt", "lte", "gt", "gte"), Needs: []string{"query", "value"}, Example: "lt", Text: "The comparison that makes a sample good."},
		item{Name: "value", Shape: doc{Kind: shape.Number, Quoted: true}, Needs: []string{"query", "op"}, Example: "100", Text: "The value that samples are compared with."},
	)
}

func windowItem() item {
	return (keys{windowKey(&slo.Window{})}).shape().Keys[0]
}
