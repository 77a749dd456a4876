package spec

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/suggest"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// sliPlugin says what a plugin of Sloth's common library counts. In matchers, "{option}" is the value of an option.
type sliPlugin struct {
	total string // the counter of all events
	part  string // that of the bad ones, or of the good ones below a bucket; that of all if it is ""
	match string // matchers of both
	only  string // those of part
	bad   string // instead of part and only: queries in which {total} is the selector of total
	all   string
	ratio string // of bad events, instead of all of these

	errors  string // the matcher that exclude_errors adds to both
	options map[string]optionKind
	note    string // how its numbers differ from those of Sloth
}

// optionKind is what an option of a plugin may hold.
type optionKind int

const (
	matchersOption optionKind = iota // label matchers
	neededMatchers
	textOption // required, as are the next two
	regexpOption
	bucketOption
	codesOption // a regular expression with a default
	truthOption
)

const (
	failures    = `(5..|429)`
	lastWindow  = "[" + slo.PromWindow + "]"
	sliPlugins  = "sloth-common/"
	goHTTPTotal = "http_request_duration_seconds_count"
)

// latencyPlugin counts the events of a histogram up to a bucket as good.
func latencyPlugin(histogram, match, errors string, options map[string]optionKind) sliPlugin {
	out := map[string]optionKind{"bucket": bucketOption, "filter": matchersOption}
	maps.Copy(out, options)
	if errors != "" {
		out["exclude_errors"] = truthOption
	}
	return sliPlugin{total: histogram + "_count", part: histogram + "_bucket", match: match, only: `le="{bucket}"`,
		errors: errors, options: out}
}

// commonPlugins are those of github.com/slok/sloth-common-sli-plugins by id.
var commonPlugins = func() map[string]sliPlugin {
	type options = map[string]optionKind
	filter := options{"filter": matchersOption}
	const (
		istio  = `destination_service_name="{service}",destination_service_namespace="{namespace}"`
		kooper = `controller="{controller}"`
		events = "kooper_controller_processed_event_duration_seconds"
	)
	ofIstio := options{"filter": matchersOption, "service": textOption, "namespace": textOption}
	ofKooper := options{"filter": matchersOption, "controller": textOption}
	ofBackend := options{"filter": matchersOption, "backend_regex": regexpOption}
	ofService := options{"filter": matchersOption, "service_name_regex": regexpOption}
	istioLatency := latencyPlugin("istio_request_duration_milliseconds", istio, `response_code!~"5.."`, ofIstio)
	istioLatency.note = "exclude_errors excludes by the label response_code: Sloth's plugin does by code, which " +
		"Istio has not"
	return map[string]sliPlugin{
		"coredns/availability": {total: "coredns_dns_responses_total", only: `rcode=~"{custom_rcode_regex}"`,
			options: options{"filter": matchersOption, "custom_rcode_regex": codesOption}},
		"coredns/latency": latencyPlugin("coredns_dns_request_duration_seconds", "", "", nil),
		"haproxy/frontend/availability": {total: "haproxy_frontend_http_responses_total", only: `code="5xx"`,
			options: filter},
		"istio/v1/availability": {total: "istio_requests_total", match: istio,
			only: `response_code=~"` + failures + `"`, options: ofIstio},
		"istio/v1/latency": istioLatency,
		"kubernetes/apiserver/availability": {total: "apiserver_request_total", only: `code=~"` + failures + `"`,
			options: filter},
		"kubernetes/apiserver/latency": latencyPlugin("apiserver_request_duration_seconds", `verb!="WATCH"`, "", nil),
		"kubernetes/kooper/availability": {total: events + "_count", match: kooper, options: ofKooper,
			bad: `sum(rate(` + events + `_count{{match},success="false"}` + lastWindow + `))`,
			// Without what is tried again later.
			all: `sum(rate(` + events + `_count{{match}}` + lastWindow +
				`)) - (sum(rate(kooper_controller_queued_events_total{{match},requeue="true"}` + lastWindow + `)) or vector(0))`},
		"kubernetes/kooper/latency": latencyPlugin(events, kooper, "", ofKooper),
		"kubernetes/kooper/queue-congestion": latencyPlugin("kooper_controller_event_in_queue_duration_seconds", kooper, "",
			ofKooper),
		"kubernetes/nginx-ingress/availability": {total: "nginx_ingress_controller_requests",
			only: `status=~"` + failures + `"`, options: filter},
		"prometheus/rules/eval-availability": {total: "prometheus_rule_evaluations_total",
			part: "prometheus_rule_evaluation_failures_total", options: filter},
		"prometheus/targets/availability": {total: "up", options: filter,
			ratio: "1 - sum(sum_over_time(up{{match}}" + lastWindow + ")) / sum(count_over_time(up{{match}}" + lastWindow + "))",
			note:  "the share of failed scrapes: the query of Sloth's plugin returns their number"},
		"slok-go-http-metrics/availability": {total: goHTTPTotal, only: `code=~"` + failures + `"`,
			options: options{"filter": neededMatchers}},
		"slok-go-http-metrics/latency": latencyPlugin("http_request_duration_seconds", "", `code!~"5.."`,
			options{"filter": neededMatchers}),
		"traefik/v1/availability": {total: "traefik_backend_requests_total", match: `backend=~"{backend_regex}"`,
			only: `code=~"` + failures + `"`, options: ofBackend},
		"traefik/v1/latency": latencyPlugin("traefik_backend_request_duration_seconds", `backend=~"{backend_regex}"`,
			`code!~"5.."`, ofBackend),
		"traefik/v2/availability": {total: "traefik_service_requests_total", match: `service=~"{service_name_regex}"`,
			only: `code=~"(5..)"`, options: ofService},
		"traefik/v2/latency": latencyPlugin("traefik_service_request_duration_seconds", `service=~"{service_name_regex}"`,
			`code!~"5.."`, ofService),
	}
}()

// madeUp are the plugins of that library whose numbers are invented.
var madeUp = map[string]string{
	"noop": "returns no errors, whatever happens", "fake": "returns errors that nothing has counted",
}

// readSLIPlugin makes the indicator that a plugin of Sloth's common library stands for.
func (s *sloDraft) readSLIPlugin(v *yamldoc.Value) {
	o := v.Object("id", "options")
	id := o.Need("id", "name the plugin, such as `id: sloth-common/coredns/availability`")
	name, ok := id.Text()
	if !ok {
		return
	}
	short, common := strings.CutPrefix(name, sliPlugins)
	p, known := commonPlugins[short]
	switch why, invented := madeUp[short]; {
	case common && invented:
		id.Errorf("write the queries of a real indicator as `events`", "plugin: %s %s", yamldoc.Printable(name), why)
		return
	case !common || !known:
		var ids []string
		for id := range commonPlugins {
			ids = append(ids, sliPlugins+id)
		}
		hint := suggest.DidYouMean(name, sorted(ids))
		if hint == "" {
			hint = "write the queries that it generates as `events`, or `raw`"
		}
		id.Errorf(hint, "plugin: %q is not of Sloth's common library, and other programs are not run", yamldoc.Clip(name))
		return
	}
	values, ok := p.readOptions(o)
	if !ok {
		return
	}
	if p.note != "" && (p.errors == "" || values["exclude_errors"] == "true") {
		id.Warnf("", "plugin: %s", p.note)
	}
	s.readPluginIndicator(id, p, values)
}

// readOptions gives the values of the options, and under "match" the matchers of all events.
func (p sliPlugin) readOptions(parent *yamldoc.Object) (map[string]string, bool) {
	out := map[string]string{}
	in := parent.Get("options")
	var o *yamldoc.Object
	if in != nil {
		if o = in.Object(slices.Sorted(maps.Keys(p.options))...); o == nil {
			return nil, false
		}
	}
	ok := true
	for _, name := range slices.Sorted(maps.Keys(p.options)) {
		kind, v := p.options[name], o.Get(name)
		text := ""
		if v != nil {
			t, fine := v.Text()
			if !fine {
				ok = false
				continue
			}
			text = strings.TrimSpace(t)
		}
		if text == "" {
			switch kind {
			case codesOption:
				out[name] = "SERVFAIL"
			case matchersOption, truthOption:
			default:
				parent.Errorf("add it under `options`", "plugin: the option %s is missing", name)
				ok = false
			}
			continue
		}
		fixed, why := kind.check(text)
		if why != "" {
			v.Errorf(why, "%s: invalid value %q", name, yamldoc.Clip(text))
			ok = false
			continue
		}
		out[name] = fixed
	}
	parts := []string{out["filter"], fill(p.match, out)}
	if out["exclude_errors"] == "true" {
		parts = append(parts, p.errors)
	}
	out["match"] = joined(parts...)
	return out, ok
}

// check gives the value of an option as it is used, or what it has to be.
func (k optionKind) check(text string) (value, hint string) {
	switch k {
	case matchersOption, neededMatchers:
		text = strings.Trim(text, "{}, ")
		if _, err := promql.ParseMetricSelector("x{" + text + "}"); err != nil {
			return "", `want label matchers such as job="web",code!="404"`
		}
	case regexpOption, codesOption:
		if _, err := regexp.Compile(text); err != nil {
			return "", "want a regular expression (RE2)"
		}
	case bucketOption:
		if _, err := strconv.ParseFloat(text, 64); err != nil {
			return "", `want the le of a bucket, such as "0.5"`
		}
	case truthOption:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return "", "want true or false"
		}
		return strconv.FormatBool(b), ""
	}
	return text, ""
}

// fill writes the values of options into matchers.
func fill(text string, values map[string]string) string {
	for name, value := range values {
		text = strings.ReplaceAll(text, `"{`+name+`}"`, strconv.Quote(value))
	}
	return text
}

// joined are matchers in one list, without those that are "".
func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ",")
}

func (s *sloDraft) readPluginIndicator(at *yamldoc.Value, p sliPlugin, values map[string]string) {
	s.kindKnown = true
	q := &promQuery{at: at}
	query := func(text string) (*promQuery, bool) {
		text = strings.ReplaceAll(text, "{{match},", "{"+joined(values["match"], " "))
		return q.rewritten(strings.ReplaceAll(text, "{{match}}", "{"+values["match"]+"}"))
	}
	switch {
	case p.ratio != "":
		if ratio, ok := query(p.ratio); ok {
			s.readRatioQuery(ratio, false)
		}
		return
	case p.all != "":
		bad, ok1 := query(p.bad)
		all, ok2 := query(p.all)
		if ok1 && ok2 {
			s.readEventQueries(bad, nil, all)
		}
		return
	}
	part, what := p.part, "bad"
	if part == "" {
		part = p.total
	}
	if strings.HasSuffix(part, "_bucket") {
		what = "good"
	}
	total, ok1 := q.selectorOf(p.total, values["match"])
	some, ok2 := q.selectorOf(part, joined(values["match"], fill(p.only, values)))
	if ok1 && ok2 {
		s.Indicator.Kind = slo.KindPrometheus
		s.counters(what, counter{selector: some}, counter{selector: total})
	}
}

// selectorOf is the selector of a metric, as the parser writes it.
func (q *promQuery) selectorOf(metric, matchers string) (string, bool) {
	expr, err := promql.ParseExpr(metric + "{" + matchers + "}")
	sel, ok := expr.(*parser.VectorSelector)
	if err != nil || !ok {
		q.at.Errorf("write the queries as `events`", "plugin: its options make no selector of %s", metric)
		return "", false
	}
	return sel.String(), true
}

// sloPlugins are the plugins for rules that come with Sloth: whether the rules here do the same without, and what
// takes their place.
var sloPlugins = map[string]struct {
	same bool
	why  string
}{
	"core/alert_rules/v1":    {true, "alerts are always generated"},
	"core/sli_rules/v1":      {true, "recording rules are always generated, and long windows are exact"},
	"core/metadata_rules/v1": {true, "`--names sloth` records Sloth's metadata"},
	"core/debug/v1":          {true, "it only writes to the log of Sloth"},
	"core/noop/v1":           {true, "it does nothing"},
	"core/validate/v1":       {true, "`sloengine check` does that"},
	"contrib/denominator_corrected_rules/v1": {true,
		"all windows are weighted by the number of events"},
	"contrib/validate_victoria_metrics/v1": {true, "`--promql lenient` takes the functions of VictoriaMetrics"},

	"contrib/error_budget_exhausted_alert/v1": {false,
		"remove it: every SLO has the alert ErrorBudgetExhausted, unless with `--names sloth`"},
	"contrib/info_labels/v1":    {false, "write its labels under `infoLabels`, or `labels`, of the SLO"},
	"contrib/remove_labels/v1":  {false, "remove it: labels are on the info series only"},
	"contrib/rule_intervals/v1": {false, "remove it: rules are evaluated every 30s, and those of days every 5m"},
}

// readSLOPlugins reads a chain of plugins, which are programs that Sloth runs over the rules.
func readSLOPlugins(o *yamldoc.Object, key string) {
	in := o.Get(key).Object("chain", "overridePrevious")
	in.Get("overridePrevious").Bool()
	items, _ := in.Get("chain").List()
	for _, i := range items {
		i.What = "plugin"
		id := i.Object("id", "config", "priority").Need("id", "name the plugin, such as `id: sloth.dev/core/debug/v1`")
		name, ok := id.Text()
		if !ok {
			continue
		}
		known, found := sloPlugins[strings.TrimPrefix(name, "sloth.dev/")]
		switch {
		case !found || !strings.HasPrefix(name, "sloth.dev/"):
			id.Errorf("remove it, and write its result into the spec", "plugin: %q is a program, which is not run",
				yamldoc.Clip(name))
		case known.same:
			id.Warnf("remove it", "plugin: %s is not run: %s", yamldoc.Printable(name), known.why)
		default:
			id.Errorf(known.why, "plugin: %s is not run", yamldoc.Printable(name))
		}
	}
}
