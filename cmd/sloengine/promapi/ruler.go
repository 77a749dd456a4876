package promapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/reliability/retry"
)

const (
	// maxRuleGroups bounds the rule groups of a tenant, in bytes.
	maxRuleGroups = 64 << 20
	rulerTimeout  = 30 * time.Second // of a request
)

// Ruler is the rule API of Mimir, or of what has the same: rule groups by namespace, as YAML. It retries a request that
// may yet succeed.
type Ruler struct {
	URL    *url.URL     // of the API, such as http://mimir:8080/prometheus/config/v1/rules
	Tenant string       // "" without one
	HTTP   *http.Client // which follows no redirect
}

// RuleGroup is a rule group as the API and rule files have it.
type RuleGroup map[string]any

// maxGroupRules is how many rules a Mimir with default limits accepts in a group.
const maxGroupRules = 20

// Parts splits groups that a Mimir with default limits refuses, in the order of their rules.
func Parts(groups []RuleGroup) (out []RuleGroup) {
	for _, g := range groups {
		all, _ := g["rules"].([]any)
		if len(all) <= maxGroupRules {
			out = append(out, g)
			continue
		}
		n := 0
		for rules := range slices.Chunk(all, maxGroupRules) {
			part := maps.Clone(g)
			part["rules"] = rules
			if n++; n > 1 { // no name of an SLO or agreement has a slash
				part["name"] = fmt.Sprintf("%s/%d", groupName(g), n)
			}
			out = append(out, part)
		}
	}
	return out
}

// Groups returns the rule groups of the tenant by namespace.
func (r *Ruler) Groups(ctx context.Context) (groups map[string][]RuleGroup, err error) {
	err = r.retried(ctx, func(ctx context.Context) error {
		req, err := r.request(ctx, http.MethodGet, nil)
		if err != nil {
			return err
		}
		body, err := get(r.HTTP, req)
		if status, ok := errors.AsType[*remote.StatusError](err); ok && status.Status == http.StatusNotFound &&
			bytes.Contains(bytes.ToLower(body), []byte("no rule groups")) {
			return nil // what Mimir answers for a tenant without any
		}
		if err != nil {
			return err
		}
		groups = nil
		if err := yaml.Unmarshal(body, &groups); err != nil {
			return retry.Permanent(fmt.Errorf("the answer is no rule groups: %w", err))
		}
		return nil
	})
	return groups, err
}

// Set creates a group, or replaces the one of that name.
func (r *Ruler) Set(ctx context.Context, namespace string, g RuleGroup) error {
	body, err := yaml.Marshal(g)
	if err != nil {
		return err
	}
	return r.change(ctx, http.MethodPost, body, namespace)
}

// Delete removes a group. It refuses a name that would make it a request about more than that.
func (r *Ruler) Delete(ctx context.Context, namespace, group string) error {
	for _, name := range []string{namespace, group} {
		if name == "" || name == "." || name == ".." {
			return fmt.Errorf("the name %q cannot be part of an address (delete it with the tool that made it)", name)
		}
	}
	return r.change(ctx, http.MethodDelete, nil, namespace, group)
}

func (r *Ruler) change(ctx context.Context, method string, body []byte, path ...string) error {
	return r.retried(ctx, func(ctx context.Context) error {
		req, err := r.request(ctx, method, body, path...)
		if err != nil {
			return err
		}
		_, err = remote.Post(r.HTTP, req)
		return err
	})
}

func (r *Ruler) retried(ctx context.Context, f func(context.Context) error) error {
	p, err := retry.New(retry.Options{Base: 500 * time.Millisecond, Classify: func(err error) retry.Decision {
		switch retry.ClassOf(err) {
		case retry.ClassTransient, retry.ClassOverload, retry.ClassTimeout:
			return retry.ByClass(err)
		}
		return retry.Stop
	}})
	if err != nil {
		return err
	}
	return p.Do(ctx, func(ctx context.Context, _ int) error {
		ctx, cancel := context.WithTimeout(ctx, rulerTimeout)
		defer cancel()
		return f(ctx)
	})
}

// request escapes each part of the path, as names of groups contain slashes.
func (r *Ruler) request(ctx context.Context, method string, body []byte, path ...string) (*http.Request, error) {
	u := *r.URL
	for _, part := range path {
		u = *u.JoinPath(url.PathEscape(part))
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/yaml")
	}
	if r.Tenant != "" {
		req.Header.Set("X-Scope-OrgID", r.Tenant)
	}
	return req, nil
}

// get is remote.Post for a longer answer. There is a body with a *remote.StatusError, too.
func get(client *http.Client, req *http.Request) ([]byte, error) {
	res, err := client.Do(req)
	if of, ok := errors.AsType[*url.Error](err); ok {
		err = retry.WithClass(of.Err, retry.ClassOf(err)) // without the URL, which may hold a password
	}
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxRuleGroups+1))
	if err == nil && len(body) > maxRuleGroups {
		err = retry.Permanent(fmt.Errorf("the answer is larger than %d MiB", maxRuleGroups>>20))
	}
	if err != nil || res.StatusCode == http.StatusOK {
		return body, err
	}
	failed := &remote.StatusError{Status: res.StatusCode, Class: remote.ClassOf(res.StatusCode),
		Detail: remote.Text(string(body))}
	if res.StatusCode/100 == 3 {
		failed.Detail = "redirects are not followed, name the address behind it"
	}
	return body, failed
}
