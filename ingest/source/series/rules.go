package series

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"github.com/valyala/fastjson"
	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/internal/every"
	"github.com/sloengine/sloengine/reliability/remote"
)

// Rules are the alerting rules of a Prometheus.
type Rules struct {
	Alerts []Rule
	Note   string // why none is known although the Prometheus answers; "": all are
	sent   func(map[string]string) map[string]string
	err    error // why sent is unknown
}

// Rule is one alerting rule.
type Rule struct {
	Group  string
	Labels map[string]string // alertname among them
}

// Sent are the labels of a rule's alert as an Alertmanager gets them: with external labels, and relabelled.
func (r *Rules) Sent(of map[string]string) (map[string]string, error) {
	if r.err != nil {
		return nil, r.err
	}
	return r.sent(of), nil
}

// maxRules bounds the rules of one Prometheus that are known.
const maxRules = 100_000

// WatchRules hands out the alerting rules of the Prometheus again and again, until ctx ends; nil: it does not answer.
// Those that cannot be
// theirs are left out, by want.
func (s *Source) WatchRules(ctx context.Context, want func(*Rule) bool, seen func(*Rules)) {
	c := client{url: s.client.url, http: s.client.http}
	for range every.Tick(ctx, s.o.Interval) {
		r, err := c.rules(ctx, want)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.o.Intake.Fails(source.TroubleTopic, s.named("alerting rules"), "the rules of the Prometheus are unknown",
				err.Error())
			seen(nil)
		default:
			s.o.Intake.Works(source.TroubleTopic, s.named("alerting rules"))
			seen(r)
		}
	}
}

// rules asks for the rules, and for what is added to their alerts. Who has no rules, such as a store without a ruler,
// answers with a status of 4xx.
func (c *client) rules(ctx context.Context, want func(*Rule) bool) (*Rules, error) {
	out := &Rules{}
	v, err := c.get(ctx, "/api/v1/rules?type=alert&exclude_alerts=true")
	if refused := (*queryError)(nil); errors.As(err, &refused) && refused.status/100 == 4 &&
		refused.status != http.StatusTooManyRequests {
		out.Note = "it lists no rules: " + err.Error()
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	for _, group := range v.GetArray("data", "groups") {
		for _, rule := range group.GetArray("rules") {
			if string(rule.GetStringBytes("type")) != "alerting" {
				continue
			}
			r := Rule{Group: string(group.GetStringBytes("name")), Labels: map[string]string{}}
			rule.GetObject("labels").Visit(func(name []byte, value *fastjson.Value) {
				r.Labels[string(name)] = string(value.GetStringBytes())
			})
			r.Labels[labels.AlertName] = string(rule.GetStringBytes("name"))
			if !want(&r) {
				continue
			}
			if len(out.Alerts) == maxRules {
				return nil, fmt.Errorf("the Prometheus has more than %d rules for SLOs", maxRules)
			}
			out.Alerts = append(out.Alerts, r)
		}
	}
	if out.sent, out.err = c.sent(ctx); out.err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return out, nil
}

// serverConfig is what matters of the configuration of a Prometheus.
type serverConfig struct {
	Global struct {
		External map[string]string `yaml:"external_labels"`
	}
	Alerting struct {
		Relabel []*relabel.Config `yaml:"alert_relabel_configs"`
	}
}

func (c *client) config(ctx context.Context, into *serverConfig) error {
	v, err := c.get(ctx, "/api/v1/status/config")
	if err == nil {
		err = yaml.Unmarshal(v.GetStringBytes("data", "yaml"), into)
	}
	return err
}

// external asks for the external labels of the server.
func (c *client) external(ctx context.Context) (map[string]string, error) {
	var config serverConfig
	if err := c.config(ctx, &config); err != nil {
		return nil, err
	}
	out := config.Global.External
	if out == nil {
		out = map[string]string{}
	}
	return out, nil
}

// sent reads what the Prometheus does with the labels of alerts that it sends.
func (c *client) sent(ctx context.Context) (func(map[string]string) map[string]string, error) {
	var config serverConfig
	err := c.config(ctx, &config)
	for _, r := range config.Alerting.Relabel {
		if err == nil {
			err = r.Validate(model.UTF8Validation)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("its external labels are unknown: %w", err)
	}
	return func(of map[string]string) map[string]string {
		all := maps.Clone(config.Global.External)
		if all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, of)
		b := labels.NewBuilder(labels.FromMap(all))
		if !relabel.ProcessBuilder(b, config.Alerting.Relabel...) {
			return nil // it is dropped
		}
		return b.Labels().Map()
	}, nil
}

// get asks for a document. It is valid until the next call.
func (c *client) get(ctx context.Context, path string) (*fastjson.Value, error) {
	ctx, cancel := c.limited(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if u := (*url.Error)(nil); errors.As(err, &u) {
		return nil, u.Err // its URL may hold a secret
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if c.body, err = readAll(c.body[:0], resp.Body); err != nil {
		return nil, err
	}
	v, err := c.parser.ParseBytes(c.body)
	if resp.StatusCode/100 != 2 || err != nil || string(v.GetStringBytes("status")) != "success" {
		return nil, &queryError{resp.StatusCode, "", remote.Text(strings.TrimSpace(string(c.body[:min(len(c.body), 300)])))}
	}
	return v, nil
}
