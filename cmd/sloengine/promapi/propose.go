package promapi

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sloengine/sloengine/ingest/otlp"
	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/slo/suggest"
)

const (
	// maxServices is for how many services SLOs are proposed, those with the most requests.
	maxServices = 50
	// maxListed is how many of the others are named, and of the families without an SLO.
	maxListed = 200
	// maxServiceName leaves room for a number.
	maxServiceName = 100
)

// Options of a proposal.
type Options struct {
	Service   string // the only one, by its name in the spec; "" for all
	TokenFile string // of the client, for the settings of the engine
}

// service is a document of the proposal.
type service struct {
	label, value string // that its series have
	name         string // in the spec
	requests     float64
	families     []found
}

// found is a family that a service has.
type found struct {
	*family
	requests
	threshold threshold // without a matcher if there is none
}

func (f *found) empty() bool { return f.code == "" && f.threshold.matcher == "" }

// Propose is a spec with SLOs on the usual counters that a Prometheus has, with objectives that the last days have met.
func Propose(ctx context.Context, c *Client, o Options) ([]byte, error) {
	services, err := c.services(ctx)
	if err != nil {
		return nil, err
	}
	if len(services) == 0 {
		var names []string
		for i := range families {
			names = append(names, families[i].total)
		}
		return nil, fmt.Errorf("no SLO to propose: Prometheus at %s has none of %s with two samples in %s (write selectors "+
			"of your own counters into a spec: sloengine init, docs/prometheus.md)", c.URL.Redacted(), strings.Join(names, ", "),
			periods[0])
	}
	var docs [][]byte
	var more, without []string
	for i := range services {
		s := &services[i]
		if o.Service != "" && o.Service != s.name {
			continue
		}
		for _, f := range s.families {
			if f.code == "" {
				without = append(without, fmt.Sprintf("%s: no series of it has a label %s", selector(f.total, f.only,
					equal(f.by, remote.Text(s.value))), suggest.OneOf(f.codes)))
			}
		}
		s.families = slices.DeleteFunc(s.families, func(f found) bool { return f.empty() })
		switch {
		case len(s.families) == 0:
		case len(docs) == maxServices:
			more = append(more, equal(s.label, remote.Text(s.value)))
		default:
			docs = append(docs, s.document())
		}
	}
	switch {
	case len(docs) > 0:
		return append(c.head(o, more, without), bytes.Join(docs, []byte("---\n"))...), nil
	case len(without) > 0:
		return nil, fmt.Errorf("no SLO to propose: %s", strings.Join(without[:min(len(without), 5)], "; "))
	}
	return nil, fmt.Errorf("no SLO to propose: no label of the usual counters names a service %s (leave out --service to "+
		"see all)", o.Service)
}

// services are all that have one of the families, those with the most requests first.
func (c *Client) services(ctx context.Context) ([]service, error) {
	var all []service
	at := map[[2]string]int{}
	for i := range families {
		f := &families[i]
		has, err := f.requests(ctx, c)
		if err != nil {
			return nil, err
		}
		if len(has) == 0 {
			continue
		}
		slow, err := f.thresholds(ctx, c)
		if err != nil {
			return nil, err
		}
		for _, r := range has {
			key := [2]string{f.by, r.service}
			if _, known := at[key]; !known {
				at[key] = len(all)
				all = append(all, service{label: f.by, value: r.service})
			}
			s := &all[at[key]]
			s.requests += r.count
			s.families = append(s.families, found{f, r, slow[r.service]})
		}
	}
	order.By(all, func(a, b *service) int {
		return cmp.Or(cmp.Compare(b.requests, a.requests), strings.Compare(a.value, b.value),
			strings.Compare(a.label, b.label))
	})
	names := map[string]bool{}
	for i := range all {
		s := &all[i]
		name := spec.ToName(s.value)
		name = cmp.Or(spec.ToName(name[:min(len(name), maxServiceName)]), "without-"+spec.ToName(s.label))
		s.name = name
		for n := 2; names[s.name]; n++ {
			s.name = name + "-" + strconv.Itoa(n)
		}
		names[s.name] = true
	}
	return all, nil
}

// head says what to do with the proposal.
func (c *Client) head(o Options, more, without []string) []byte {
	var b bytes.Buffer
	at := *c.URL
	at.User = nil
	fmt.Fprintf(&b, "# Proposed from the counters of the last %s, which would meet it. Set what users need instead.\n",
		periods[0])
	b.WriteString("# For budgets, history and reports of these SLOs, have the engine count them. In engine.yaml:\n")
	fmt.Fprintf(&b, "# sources:\n#   - name: metrics\n#     prometheus:\n#       url: %s\n#       history: 30d\n",
		strconv.Quote(at.String()))
	if name := c.URL.User.Username(); o.TokenFile != "" {
		fmt.Fprintf(&b, "#       bearer_token_file: %s\n", strconv.Quote(o.TokenFile))
	} else if name != "" {
		fmt.Fprintf(&b, "#       basic_auth: {username: %s, password_file: prometheus.password}\n", strconv.Quote(name))
	}
	list := func(title string, lines []string) {
		if len(lines) == 0 {
			return
		}
		fmt.Fprintf(&b, "# %s:\n", title)
		for _, line := range lines[:min(len(lines), maxListed)] {
			fmt.Fprintf(&b, "#   %s\n", line)
		}
		if n := len(lines) - maxListed; n > 0 {
			fmt.Fprintf(&b, "#   and %d more\n", n)
		}
	}
	list(fmt.Sprintf("Left out are services with fewer requests than these %d (name one with --service)", maxServices),
		more)
	list("Without an SLO of availability", without)
	return b.Bytes()
}

// document is the spec of one service.
func (s *service) document() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "version: sloengine/v1\nservice: %q # %s\nslos:\n", s.name, equal(s.label, remote.Text(s.value)))
	for i := range s.families {
		f, prefix := &s.families[i], ""
		if len(s.families) > 1 {
			prefix = f.name + "-"
		}
		its := equal(f.by, s.value)
		if f.code != "" {
			fmt.Fprintf(&b, "  - name: %savailability\n    objective: %s # %.3g%% of %.0f requests failed in %s\n", prefix,
				strconv.FormatFloat(otlp.ObjectiveFor(f.failed), 'f', -1, 64), f.failed*100, f.count, f.period)
			counters(&b, "bad", selector(f.total, f.only, its),
				selector(f.total, f.only, its, f.code+"=~"+strconv.Quote(f.bad)))
		}
		if t := &f.threshold; t.matcher != "" {
			fmt.Fprintf(&b, "  - name: %slatency\n    objective: %d # %.4g%% took at most %s %s in %s\n", prefix,
				latencyObjective,
				t.met*100, strconv.FormatFloat(t.bound, 'f', -1, 64), f.unit, t.period)
			counters(&b, "good", selector(f.histogram+"_count", f.only, f.timed, its),
				selector(f.histogram+"_bucket", f.only, f.timed, its, t.matcher))
		}
	}
	return b.Bytes()
}

// counters writes an indicator. In single quotes stands whatever strconv.Quote has left.
func counters(b *bytes.Buffer, part, total, of string) {
	quoted := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	fmt.Fprintf(b, "    window: 30d\n    indicator:\n      prometheus:\n        total: %s\n        %s: %s\n",
		quoted(total),
		part, quoted(of))
}
