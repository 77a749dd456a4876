// Package keys describes the keys of specs in the own format, for people and editors. The readers of slo/spec decide what
// a spec may hold: a test holds this description to them, key by key.
package keys

import (
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo/yamldoc/shape"
)

type (
	doc = shape.Shape
	key = shape.Key
)

// Patterns of names and decimals.
const (
	namePattern       = `^[a-z0-9._-]*[a-z0-9][a-z0-9._-]*$`
	idPattern         = `^([a-z0-9._-]*[a-z0-9][a-z0-9._-]*/)?[a-z0-9._-]*[a-z0-9][a-z0-9._-]*$`
	anyCasePattern    = `^[A-Za-z0-9._-]*[A-Za-z0-9][A-Za-z0-9._-]*$`
	labelPattern      = `^[a-zA-Z_][a-zA-Z0-9_]*$`
	attributePattern  = `^[a-zA-Z_][a-zA-Z0-9._-]*$`
	typePattern       = `^[a-zA-Z0-9._-]+$`
	currencyPattern   = `^[A-Z]{3}$`
	percentilePattern = `^p[0-9]{2}(\.[0-9]+)?$`
	falsePattern      = `^[0-9]{1,4}(\.[0-9]{1,9})?/y$`
	instantPattern    = `^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9:.]+([Zz]|[+-][0-9]{2}:[0-9]{2})$`
)

var (
	text     = doc{Kind: shape.Text}
	name     = doc{Kind: shape.Text, Pattern: namePattern, Note: "name"}
	zone     = doc{Kind: shape.Text, Note: "IANA time zone"}
	matchers = doc{Kind: shape.Text, Note: "label matchers"}
	query    = doc{Kind: shape.Text, Note: "PromQL"}
	label    = doc{Kind: shape.Text, Pattern: attributePattern, Note: "attribute"}
	percent  = doc{Kind: shape.Number, Quoted: true, Min: "1", Max: "100", Above: true, Below: true, Note: "percentage"}
	share    = doc{Kind: shape.Number, Quoted: true, Min: "0", Max: "1000", Above: true, Below: true, Note: "percentage"}
	amount   = doc{Kind: shape.Number, Quoted: true, Min: "0", Above: true, Note: "amount of money"}
	labels   = doc{Kind: shape.Map, Of: &text, Pattern: labelPattern}
	hours    = doc{Kind: shape.Text, Note: "weekly hours"}
)

func duration(least, most string) doc { return doc{Kind: shape.Duration, Min: least, Max: most} }
func whole(least, most string) doc {
	return doc{Kind: shape.Whole, Quoted: true, Min: least, Max: most}
}
func number(least, most string) doc {
	return doc{Kind: shape.Number, Quoted: true, Min: least, Max: most}
}
func words(list ...string) doc { return doc{Kind: shape.Text, Words: list} }
func mapping(keys ...key) doc  { return doc{Kind: shape.Mapping, Keys: keys} }
func list(of doc) doc          { return doc{Kind: shape.List, Of: &of} }
func either(shapes ...doc) doc { return doc{Kind: shape.Either, Or: shapes} }
func oneOf(keys ...key) doc    { return doc{Kind: shape.Mapping, Keys: keys, One: true} }

// The longest window, and so the longest duration.
const longest = "366d"

// Spec describes a document of the own format.
func Spec() doc {
	return mapping(
		key{Name: "version", Required: true, Shape: words("sloengine/v1"), Example: "sloengine/v1", Text: "The format."},
		key{Name: "service", Required: true, Shape: name, Example: "shop", Text: "The service whose events this spec counts."},
		key{Name: "description", Shape: text, Example: "The shop", Text: "Text for people, shown on the page."},
		key{Name: "labels", Shape: labels, Example: "{team: orders}", Text: "Labels of `slo_info` of all SLOs."},
		key{Name: "types", Shape: either(words("any"), list(doc{Kind: shape.Text, Pattern: typePattern, Note: "event type"})), Default: "types that the matchers name", Example: "any",
			Text: "The event types that the service may send."},
		key{Name: "dimensions", Shape: list(label), Example: "[error_type]", Text: "The attributes by which `sloengine_events_total` is split, at most 8."},
		key{Name: "buckets", Shape: list(duration("1ms", longest)), Default: "bounds from 5ms to 30m", Example: "[100ms, 1s, 10s]",
			Text: "The ascending bounds of `sloengine_event_duration_seconds`, at most 50."},
		key{Name: "slos", Shape: list(slo()), Example: `[{name: checkout, objective: 99.9, indicator: {events: {bad: '{outcome="failure"}'}}}]`, Text: "The SLOs."},
		key{Name: "corrections", Shape: list(correction()), Example: "[{name: db upgrade, start: 2026-11-22T01:00:00Z, duration: 2h, author: ops, reason: maintenance}]",
			Text: "Times that do not count, such as planned maintenance."},
		key{Name: "thresholds", Shape: list(threshold()), Not: []string{"limits"}, Example: `[{name: checkout, match: '{type="task"}', warning: 30s}]`, Text: "The event thresholds: agreements about single events."},
		key{Name: "limits", Shape: list(threshold()), Example: `[{name: checkout, match: '{type="task"}', warning: 30s}]`, Text: "The old name of `thresholds`."},
		key{Name: "slas", Shape: list(agreement()), Example: "[{name: gold, components: {checkout: {weight: 1}}}]", Text: "The agreements, which are scores over SLOs."},
		key{Name: "baselines", Shape: list(baseline()), Example: "[{name: performance, detection: {from: 60m, to: 90m}}]", Text: "How long detection and response took before."},
	)
}

// window is a rolling or a calendar window.
func window() key {
	return key{Name: "window", Default: "30d", Example: "7d", Text: "The rolling window, or a calendar window.",
		Shape: either(duration("1h", longest), mapping(
			key{Name: "calendar", Required: true, Shape: words("day", "week", "month", "quarter", "year"), Example: "month", Text: "The unit after which the window starts again."},
			key{Name: "timezone", Required: true, Shape: zone, Example: "Europe/Berlin", Text: "The time zone in which days begin."},
		))}
}

// slices is the length of a slice of time.
func slices(name string) key {
	return key{Name: name, Required: true, Shape: duration("10s", "1d"), Example: "1m", Text: "The length of a slice, which divides an hour or is whole minutes."}
}

func slo() doc {
	return mapping(
		key{Name: "name", Required: true, Shape: name, Example: "checkout", Text: "The name, unique in the service."},
		key{Name: "was", Shape: name, Example: "purchase", Text: "The old name. The SLO keeps its counts over the rename."},
		key{Name: "description", Shape: text, Example: "Orders are accepted", Text: "Text for people, shown on the page."},
		key{Name: "labels", Shape: labels, Default: "those of the service", Example: "{tier: gold}", Text: "Further labels of `slo_info`."},
		key{Name: "objective", Required: true, Shape: percent, Example: "99.9", Text: "The share of good events, exact to the decimal."},
		window(),
		key{Name: "budgeting", Default: "occurrences", Example: "{timeslices: {slice: 1m, target: 95}}", Text: "How the budget is used: by events, or by slices of time.",
			Shape: either(words("occurrences"), oneOf(
				key{Name: "timeslices", Example: "{slice: 1m, target: 95}", Text: "The share of slices that meet the target.", Shape: mapping(
					slices("slice"), key{Name: "target", Required: true, Shape: percent, Example: "95", Text: "The share of good events that a slice needs."})},
				key{Name: "ratio_timeslices", Example: "{slice: 1m}", Text: "The mean of the slices' ratios.", Shape: mapping(slices("slice"))},
			))},
		key{Name: "group_by", Shape: list(label), Example: "[region]", Text: "Attributes. Each combination of their values is an SLO of its own."},
		maxGroups(),
		key{Name: "expect", Needs: []string{"group_by"}, Example: "[eu, us]", Text: "Groups that exist before their first event: a value, a list or a mapping of values for each.",
			Shape: list(either(text, list(text), doc{Kind: shape.Map, Of: &text}))},
		key{Name: "indicator", Required: true, Example: `{latency: {threshold: 300ms}}`, Text: "What is measured.", Shape: indicator()},
		key{Name: "caused_by", Example: "[{slo: payments/availability}]", Text: "The SLOs whose faults this one suffers from. While one of them pages, this one does not.", Shape: list(causedBy())},
		key{Name: "alerting", Default: "the usual tiers", Example: "{min_events: 100}", Text: "How alerts on the SLO differ from the usual ones.", Shape: alerting()},
		key{Name: "cost", Example: "{per_bad: 12.50, currency: EUR}", Text: "What violations cost.", Shape: cost()},
	)
}

func causedBy() doc {
	values := either(words("all"), list(text))
	return mapping(
		key{Name: "slo", Required: true, Shape: doc{Kind: shape.Text, Pattern: idPattern, Note: "name or service/name"}, Example: "payments/availability", Text: "The SLO, of this service or of another."},
		key{Name: "group", Shape: doc{Kind: shape.Map, Of: &text, Pattern: attributePattern}, Example: "{integration: mdm}", Text: "The group of that SLO, by the labels that the two do not share."},
		key{Name: "affects", Shape: doc{Kind: shape.Map, Of: &values, Pattern: attributePattern}, Example: "{product: [a, b]}", Text: "The groups of this SLO that suffer, by the labels that the two do not share."},
	)
}

func maxGroups() key {
	return key{Name: "max_groups", Needs: []string{"group_by"}, Shape: whole("1", "100000"), Default: "1000", Example: "200", Text: "The number of groups. Further values share the group `__other__`."}
}

// valid is the key of the events that an indicator is about.
func valid() key {
	return key{Name: "valid", Shape: matchers, Default: "all events", Example: `'{type="order"}'`, Text: "The events that count."}
}

func indicator() doc {
	events := whole("1", "4294967295")
	per := slices("per")
	per.Required, per.Default, per.Example = false, "1m", "5m"
	threshold := duration("1ms", longest)
	return oneOf(
		key{Name: "events", Example: `{valid: '{type="order"}', bad: '{outcome="failure"}'}`, Text: "Good and bad events.", Shape: mapping(valid(),
			key{Name: "bad", Shape: matchers, Not: []string{"good"}, Example: `'{outcome="failure"}'`, Text: "The bad events among the valid ones. `bad` or `good` is required."},
			key{Name: "good", Shape: matchers, Example: `'{outcome="success"}'`, Text: "The good events, by a single matcher, instead of `bad`."})},
		key{Name: "latency", Example: `{threshold: 300ms}`, Text: "Events with a duration up to a threshold are good.", Shape: mapping(valid(),
			key{Name: "threshold", Required: true, Shape: threshold, Example: "300ms", Text: "The longest good duration."})},
		key{Name: "throughput", Example: `{at_least: 100, per: 1m}`, Text: "Slices of time with enough events are good.", Shape: mapping(valid(),
			key{Name: "at_least", Required: true, Shape: events, Example: "100", Text: "The number of events of a good slice."},
			per,
			key{Name: "during", Shape: hours, Default: "always", Example: `"Mon-Fri 09:00-18:00 Europe/Moscow"`, Text: "The weekly hours in which slices count."},
			key{Name: "capacity", Example: "120 per 1m", Text: "How many events the service can take.", Shape: either(
				doc{Kind: shape.Text, Pattern: `^[0-9]+ per [0-9a-z]+$`, Note: "number of events per time"}, mapping(
					key{Name: "events", Required: true, Shape: events, Example: "120", Text: "The number of events."},
					key{Name: "per", Required: true, Shape: duration("1s", "1d"), Example: "1m", Text: "The time in which they can be taken."}))})},
		key{Name: "ratio", Example: `{numerator: '{type="connected"}', denominator: '{type="applied"}'}`, Text: "One count over another.", Shape: mapping(
			key{Name: "numerator", Required: true, Shape: matchers, Example: `'{type="connected"}'`, Text: "The events that are counted."},
			key{Name: "denominator", Required: true, Shape: matchers, Example: `'{type="applied"}'`, Text: "The events that they are set against."})},
		key{Name: "apdex", Example: `{satisfied: 500ms, tolerating: 2s}`, Text: "A score with two time thresholds.", Shape: mapping(valid(),
			key{Name: "satisfied", Required: true, Shape: threshold, Example: "500ms", Text: "The longest duration of an event that counts whole."},
			key{Name: "tolerating", Required: true, Shape: threshold, Example: "2s", Text: "The longest duration of an event that counts half."})},
		key{Name: "volume", Example: `{at_least: 10000, per: day, timezone: Europe/Moscow}`, Text: "Days, weeks or months with enough events are good.", Shape: mapping(valid(),
			key{Name: "at_least", Required: true, Shape: events, Example: "10000", Text: "The number of events of a good period."},
			key{Name: "per", Shape: words("day", "week", "month"), Default: "day", Example: "week", Text: "The period."},
			key{Name: "timezone", Shape: zone, Not: []string{"during"}, Example: "Europe/Moscow", Text: "The time zone in which days begin, required without `during`."},
			key{Name: "during", Shape: hours, Default: "always", Example: `"Mon-Fri 09:00-18:00 Europe/Moscow"`, Text: "The weekly hours that count, with `per: day`."})},
		key{Name: "completion", Example: `{started: '{type="order.created"}', finished: '{type="order.shipped"}', key: order_id, within: 15m}`, Text: "Work that starts is good if it finishes in time.", Shape: mapping(
			key{Name: "started", Required: true, Shape: matchers, Example: `'{type="order.created"}'`, Text: "The events that start work."},
			key{Name: "finished", Required: true, Shape: matchers, Example: `'{type="order.shipped"}'`, Text: "The events that finish it."},
			key{Name: "failed", Shape: matchers, Example: `'{type="order.cancelled"}'`, Text: "The events that end it as bad."},
			key{Name: "key", Required: true, Shape: label, Example: "order_id", Text: "The attribute that identifies a piece of work."},
			key{Name: "within", Required: true, Shape: duration("1s", "30d"), Example: "15m", Text: "The longest time of good work."},
			key{Name: "max_in_flight", Shape: whole("1", "10000000"), Default: "100000", Example: "5000", Text: "The number of unfinished pieces of work that are tracked."},
			key{Name: "stage", Shape: label, Example: "step", Text: "The attribute that says how far work is."})},
		key{Name: "prometheus", Example: `{bad: 'http_requests_total{code=~"5.."}', total: 'http_requests_total'}`, Text: "Counters or queries of Prometheus, for generated rules only.", Shape: prometheus()},
	)
}

func prometheus() doc {
	counter := doc{Kind: shape.Text, Note: "selector of a counter"}
	return mapping(
		key{Name: "bad", Shape: counter, Not: []string{"good", "error_query", "error_ratio_query", "query"}, Needs: []string{"total"}, Example: `'http_requests_total{code=~"5.."}'`, Text: "The counter of bad events."},
		key{Name: "good", Shape: counter, Not: []string{"error_query", "good_query", "total_query", "error_ratio_query", "query"}, Needs: []string{"total"}, Example: `'http_requests_total{code!~"5.."}'`, Text: "The counter of good events, instead of `bad`."},
		key{Name: "total", Shape: counter, Not: []string{"error_query", "good_query", "total_query", "error_ratio_query", "query"}, Example: "http_requests_total", Text: "The counter of all events, with `bad` or `good`."},
		key{Name: "error_query", Shape: query, Not: []string{"good_query", "error_ratio_query", "query"}, Needs: []string{"total_query"}, Example: `'sum(rate(http_requests_total{code=~"5.."}[$window]))'`,
			Text: "The rate of bad events, with `$window` as the range."},
		key{Name: "good_query", Shape: query, Not: []string{"bad", "error_ratio_query", "query"}, Needs: []string{"total_query"}, Example: `'sum(rate(http_requests_total{code!~"5.."}[$window]))'`,
			Text: "The rate of good events, instead of `error_query`."},
		key{Name: "total_query", Shape: query, Not: []string{"bad", "error_ratio_query", "query"}, Example: "'sum(rate(http_requests_total[$window]))'", Text: "The rate of all events, with `error_query` or `good_query`."},
		key{Name: "error_ratio_query", Shape: query, Not: []string{"query"}, Example: "'sum(rate(errors_total[$window])) / sum(rate(requests_total[$window]))'", Text: "The ratio of bad events."},
		key{Name: "query", Shape: query, Needs: []string{"op", "value"}, Example: "max(queue_length)", Text: "A query whose samples are compared with `value`."},
		key{Name: "op", Shape: words("lt", "lte", "gt", "gte"), Needs: []string{"query", "value"}, Example: "lt", Text: "The comparison that makes a sample good."},
		key{Name: "value", Shape: doc{Kind: shape.Number, Quoted: true}, Needs: []string{"query", "op"}, Example: "100", Text: "The value that samples are compared with."},
	)
}

func alerting() doc {
	settings := []key{
		{Name: "for", Shape: duration("0", "1d"), Default: "0s", Example: "5m", Text: "The time for which the condition has to hold."},
		{Name: "labels", Shape: labels, Example: "{team: orders}", Text: "Further labels of the alert."},
		{Name: "annotations", Shape: labels, Example: "{summary: Checkout fails}", Text: "Further annotations of the alert."},
	}
	own := mapping(append([]key{{Name: "disabled", Shape: doc{Kind: shape.Bool, Quoted: true}, Default: "false", Example: "true", Text: "Whether the alert is left out."}}, settings...)...)
	soon := mapping(append([]key{
		{Name: "within", Shape: duration("1h", "7d"), Default: "1d", Example: "12h", Text: "The time in which the budget will be empty."},
		{Name: "probability", Shape: percent, Default: "80", Example: "90", Text: "The probability of it, in percent."},
	}, settings...)...)
	return mapping(
		key{Name: "name", Shape: text, Example: "CheckoutErrors", Text: "The name of the alerts, instead of the usual ones."},
		key{Name: "tiers", Default: "the usual tiers", Example: "[{severity: page, long: 1h, short: 5m, budget: 2}]", Text: "Burn-rate tiers, which replace the usual ones, at most 16.", Shape: list(mapping(
			key{Name: "severity", Required: true, Shape: words("page", "ticket"), Example: "page", Text: "The severity of its alerts."},
			key{Name: "long", Required: true, Shape: duration("1m", longest), Example: "1h", Text: "The long window."},
			key{Name: "short", Required: true, Shape: duration("1m", longest), Example: "5m", Text: "The short window, at most `long`."},
			key{Name: "budget", Required: true, Shape: share, Example: "2", Text: "The share of the budget that the long window may use, in percent."}))},
		key{Name: "min_events", Shape: whole("0", "1000000000"), Default: "0", Example: "100", Text: "The number of events in the long window below which no alert fires."},
		key{Name: "false_pages", Shape: doc{Kind: shape.Text, Pattern: falsePattern, Note: "pages per year"}, Default: "1/y", Example: "4/y",
			Text: "How many pages a year chance may cause in one group, from `0.001/y` to `365/y`."},
		key{Name: "inherit_labels", Shape: doc{Kind: shape.Bool, Quoted: true}, Default: "true", Example: "false", Text: "Whether alerts have the `labels` of the service and the SLO."},
		key{Name: "page", Shape: own, Example: "{labels: {team: orders}}", Text: "The alerts that page."},
		key{Name: "ticket", Shape: own, Example: "{disabled: true}", Text: "The alerts that open a ticket."},
		key{Name: "no_data", Shape: own, Example: "{for: 30m}", Text: "The alert on missing data."},
		key{Name: "exhausted_soon", Shape: soon, Example: "{within: 24h, probability: 80}", Text: "An alert on the forecast that the budget will be empty."},
	)
}

func cost() doc {
	payment := func(example string) doc {
		return mapping(
			key{Name: "amount", Required: true, Shape: amount, Example: example, Text: "The amount, with at most 6 decimals."},
			key{Name: "per", Required: true, Shape: duration("1h", longest), Example: "30d", Text: "The time that it is for."})
	}
	return mapping(
		key{Name: "per_bad", Shape: amount, Not: []string{"per_minute"}, Example: "12.50", Text: "What one bad event costs. `per_bad` or `per_minute` is required."},
		key{Name: "per_minute", Shape: amount, Example: "40", Text: "What one minute of bad slices costs, with slices of time."},
		key{Name: "currency", Required: true, Shape: doc{Kind: shape.Text, Pattern: currencyPattern, Note: "currency of ISO 4217"}, Example: "EUR", Text: "The currency."},
		key{Name: "baseline", Shape: payment("12000"), Example: "{amount: 12000, per: 30d}", Text: "What violations cost before."},
		key{Name: "investment", Shape: payment("3000"), Needs: []string{"baseline"}, Example: "{amount: 3000, per: 30d}", Text: "What the improvement costs."},
	)
}

func correction() doc {
	return mapping(
		key{Name: "name", Required: true, Shape: text, Example: "db upgrade", Text: "The name."},
		key{Name: "start", Required: true, Shape: doc{Kind: shape.Text, Pattern: instantPattern, Note: "RFC 3339 time"}, Example: "2026-11-22T01:00:00Z", Text: "When it begins."},
		key{Name: "duration", Required: true, Shape: duration("1s", longest), Example: "2h", Text: "How long it lasts. Whole steps of 5m are excluded."},
		key{Name: "rrule", Shape: doc{Kind: shape.Text, Note: "RFC 5545 rule"}, Default: "once", Example: `"FREQ=WEEKLY;BYDAY=SU"`, Text: "When it recurs."},
		key{Name: "timezone", Shape: zone, Default: "that of start", Example: "Europe/Berlin", Text: "The time zone in which it recurs."},
		key{Name: "slos", Shape: list(name), Default: "all of the service", Example: "[checkout]", Text: "The SLOs that it is for."},
		key{Name: "author", Required: true, Shape: text, Example: "ops", Text: "Who decided it."},
		key{Name: "reason", Required: true, Shape: text, Example: "maintenance", Text: "Why the time does not count."},
		key{Name: "description", Shape: text, Example: "PostgreSQL 18", Text: "Text for people. It is read and not used."},
	)
}

func threshold() doc {
	return mapping(
		key{Name: "name", Required: true, Shape: doc{Kind: shape.Text, Pattern: anyCasePattern, Note: "name"}, Example: "createApplication", Text: "The name, unique in the service. It may hold capital letters."},
		key{Name: "match", Required: true, Shape: matchers, Example: `'{type="task"}'`, Text: "The events that it applies to."},
		key{Name: "warning", Shape: duration("1ms", longest), Not: []string{"each"}, Example: "30s", Text: "A longer event is a violation of severity warning."},
		key{Name: "critical", Shape: duration("1ms", longest), Not: []string{"each"}, Example: "2m", Text: "A longer event is a violation of severity critical. It is longer than `warning`."},
		key{Name: "each", Shape: words("warning", "critical"), Example: "critical", Text: "Every match is a violation of this severity."},
		key{Name: "group_by", Shape: list(label), Example: "[region]", Text: "Attributes by which violations are counted."},
		maxGroups(),
		key{Name: "description", Shape: text, Example: "Tasks of applications", Text: "Text for people. It is read and not used."},
	)
}

func agreement() doc {
	component := mapping(
		key{Name: "slo", Shape: name, Default: "the name of the component", Example: "checkout", Text: "The SLO."},
		key{Name: "weight", Required: true, Shape: doc{Kind: shape.Number, Quoted: true, Min: "0", Max: "1000000000", Above: true}, Example: "40", Text: "The weight of its score."},
		key{Name: "bands", Example: "[{p95: 5m, score: 100}, {score: 0}]", Text: "The steps of `score: bands`, from the shortest time to the rest.", Shape: list(mapping(
			key{Name: "p95", Pattern: percentilePattern, Shape: duration("1ms", longest), Example: "5m", Text: "The threshold of a percentile from `p50` to `p99.9`. The last step has none."},
			key{Name: "score", Required: true, Shape: number("0", "100"), Example: "100", Text: "The score of the step."}))},
	)
	components := doc{Kind: shape.Map, Of: &component, Pattern: namePattern}
	catalogue := words(sla.CatalogueNames()...)
	return mapping(
		key{Name: "name", Required: true, Shape: name, Example: "gold", Text: "The name, unique in the service."},
		key{Name: "description", Shape: text, Example: "The contract with gold customers", Text: "Text for people, shown on the page."},
		key{Name: "group_by", Shape: list(label), Example: "[region]", Text: "Attributes that all its SLOs are grouped by. Each group has a score."},
		window(),
		key{Name: "score", Shape: words("attainment", "ratio", "bands"), Default: "attainment", Example: "ratio", Text: "How a component is scored."},
		key{Name: "components", Required: true, Shape: components, Example: "{checkout: {weight: 40}}", Text: "The SLOs that it is made of, by name."},
		key{Name: "no_data", Shape: words("exclude", "good", "bad"), Default: "exclude", Example: "bad", Text: "How a component without data counts."},
		key{Name: "alerts", Example: "{warning: 95, critical: 90}", Text: "The alerts on the score.", Shape: mapping(
			key{Name: "warning", Shape: number("0", "100"), Example: "95", Text: "A score below it is a warning."},
			key{Name: "critical", Shape: number("0", "100"), Example: "90", Text: "A score below it is critical. It is below `warning`."},
			key{Name: "catalogue", Example: "[latency, error_rate]", Text: "Entries of the [catalogue](../alerts.md) of SLA alerts.", Shape: list(either(catalogue, mapping(
				key{Name: "name", Required: true, Shape: catalogue, Example: "error_rate", Text: "The entry."},
				key{Name: "slos", Shape: list(name), Default: "all of the right kind", Example: "[checkout]", Text: "The SLOs that it is for."})))},
			key{Name: "severities", Shape: words("ticket", "seed"), Default: "ticket", Example: "seed",
				Text: "The severities of these alerts: `ticket`, or with `seed` `warning` and `critical`, of which `critical` pages."})},
		key{Name: "alert_window", Shape: duration("5m", longest), Needs: []string{"alerts"}, Default: "that of window", Example: "1h", Text: "The window of the score that alerts are about, shorter than `window`."},
	)
}

func baseline() doc {
	before := mapping(
		key{Name: "from", Required: true, Shape: duration("1s", "365d"), Example: "60m", Text: "The shortest time that it took."},
		key{Name: "to", Required: true, Shape: duration("1s", "365d"), Example: "90m", Text: "The longest time that it took."},
		key{Name: "target", Shape: duration("1s", "365d"), Example: "5m", Text: "The time that it is to take."},
	)
	return mapping(
		key{Name: "name", Required: true, Shape: name, Example: "performance", Text: "The name, unique in the service."},
		key{Name: "slos", Shape: list(name), Example: "[checkout]", Text: "The SLOs that it is about. Without `slos` and `slas`, it is about all incidents of the service."},
		key{Name: "slas", Shape: list(name), Example: "[gold]", Text: "The agreements that it is about."},
		key{Name: "detection", Shape: before, Example: "{from: 60m, to: 90m, target: 5m}", Text: "How long it took until an incident was noticed. `detection` or `response` is required."},
		key{Name: "response", Shape: before, Example: "{from: 60m, to: 2h}", Text: "How long it took from there until somebody acknowledged it."},
		key{Name: "goal", Shape: number("1", "99"), Default: "50", Example: "60", Text: "The percentage by which the times are to shrink."},
	)
}
