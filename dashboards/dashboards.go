package dashboards

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
)

// uidSLO is the dashboard of one SLO, to which alerts and values of others link.
const uidSLO = "sloengine-slo"

// tag is on every dashboard, for the list that each links to.
const tag = "sloengine"

// Options say how dashboards are made. The zero value works.
type Options struct {
	// Names, intervals and addresses are those of the rules. Without a PageURL
	// nothing links to the status page, without a RunbookURL links go to the project's own.
	rules.Options

	// Dimensions are the attributes that the engine's event counters are split by
	// besides type, outcome and severity, such as error_type: all that any
	// service of the spec has. At most MaxDimensions of them are shown.
	Dimensions []string

	// Engine adds the dashboards of engines and relays to a spec of which nothing reads events.
	Engine bool
}

// MaxDimensions and MaxLabels are how many dimensions have a panel of their own,
// and how many group labels a variable. Beyond, dashboards would be about nothing
// else; values of further labels are still told apart in legends.
const (
	MaxDimensions = 4
	MaxLabels     = 6
)

func (o Options) withDefaults() (Options, error) {
	if o.RunbookURL == "" {
		o.RunbookURL = "https://github.com/sloengine/sloengine/blob/main/docs/runbooks"
	}
	var errs []error
	for _, u := range []struct {
		name  string
		value *string
	}{{"page", &o.PageURL}, {"runbook", &o.RunbookURL}} {
		if *u.value == "" {
			continue
		}
		parsed, err := url.Parse(*u.value)
		if err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
			errs = append(
				errs, fmt.Errorf("invalid %s address %q (want an address such as https://slo.example.org)", u.name, *u.value))
		}
		*u.value = strings.TrimRight(*u.value, "/")
	}
	if o.Names != rules.Own && o.Names != rules.Sloth {
		errs = append(errs, fmt.Errorf("unknown names %q", o.Names))
	}
	o.Dimensions = series.GroupLabels(o.Dimensions)
	o.Dimensions = o.Dimensions[:min(len(o.Dimensions), MaxDimensions)]
	return o, errors.Join(errs...)
}

// Dashboard is one dashboard.
type Dashboard struct {
	UID, Title string
	FileName   string // the uid with .json
	JSON       []byte // indented, ends in a line break
}

// All makes the dashboards of a spec, in the order in which one reads them. A
// spec of series that Prometheus has gets an overview and the detail of an SLO,
// and with agreements those for who is on duty, for root causes and for the
// business. A spec that reads events gets all, with those of the engine. Nothing
// depends on the order of what is in the spec.
func All(in rules.Spec, o Options) ([]Dashboard, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("make dashboards: %w", err)
	}
	g := newGenerator(in.Expressible(), o)
	files, err := readBoards()
	if err != nil {
		return nil, err
	}
	var boards []*board
	if len(in.SLOs) > 0 {
		for i := range files.spec.Boards {
			f := &files.spec.Boards[i]
			x := g.newScope(f.UID, files.spec.Define)
			if !x.wants(f.If, nil) {
				continue
			}
			b, err := x.board(f, x.variables(f.UID), x.one)
			if err != nil {
				return nil, fmt.Errorf("dashboard %s: %w", f.UID, err)
			}
			boards = append(boards, b)
		}
	}
	if in.ReadsEvents() || o.Engine {
		for i := range files.engine {
			b, err := g.engineBoard(&files.engine[i])
			if err != nil {
				return nil, fmt.Errorf("dashboard %s: %w", files.engine[i].UID, err)
			}
			boards = append(boards, b)
		}
	}
	var out []Dashboard
	for _, b := range boards {
		b.breakLine()
		b.dropIdle()
		data, err := b.encode()
		if err != nil {
			return nil, err
		}
		out = append(out, Dashboard{UID: b.UID, Title: b.Title, FileName: b.UID + ".json", JSON: data})
	}
	return out, nil
}
