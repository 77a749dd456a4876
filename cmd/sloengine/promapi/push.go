package promapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/sloengine/sloengine/reliability/remote"
)

// Push is what makes the rule groups of a server those that are wanted.
type Push struct {
	Changes []GroupChange
	Equal   int           // groups that are not sent
	Stale   []GroupChange // groups that are no longer wanted and stay
}

// GroupChange is a change of one group.
type GroupChange struct {
	Namespace, Name string
	Mark            byte      // + for a new group, ~ for another content, - for a removal
	Group           RuleGroup // nil: it is removed
	Rules           []string  // that differ
}

// Want adds the groups of a namespace, of which the server has some.
func (p *Push) Want(namespace string, want, have []RuleGroup) {
	for _, next := range want {
		name := groupName(next)
		i := slices.IndexFunc(have, func(g RuleGroup) bool { return groupName(g) == name })
		switch {
		case i < 0:
			p.Changes = append(p.Changes, GroupChange{namespace, name, '+', next, nil})
		case reflect.DeepEqual(canonical("", next), canonical("", have[i])):
			p.Equal++
		default:
			p.Changes = append(p.Changes, GroupChange{namespace, name, '~', next, ruleDiff(have[i], next)})
		}
	}
}

// Unwanted adds the groups of a namespace that are not among those that are wanted: as removals, or as stale.
func (p *Push) Unwanted(namespace string, want, have []RuleGroup, remove bool) {
	for _, g := range have {
		name := groupName(g)
		c := GroupChange{Namespace: namespace, Name: name, Mark: '-'}
		switch {
		case slices.ContainsFunc(want, func(w RuleGroup) bool { return groupName(w) == name }):
		case remove:
			p.Changes = append(p.Changes, c)
		default:
			p.Stale = append(p.Stale, c)
		}
	}
}

// Print lists the changes.
func (p *Push) Print(w io.Writer) {
	for _, c := range p.Changes {
		rules := ""
		if c.Mark == '+' {
			rules = fmt.Sprintf(" (%d rules)", len(rulesOf(c.Group)))
		}
		fmt.Fprintf(w, "%c %s: %s%s\n", c.Mark, remote.OneLine(c.Namespace), remote.OneLine(c.Name), rules)
		for _, r := range c.Rules {
			fmt.Fprintln(w, "    "+remote.OneLine(r))
		}
	}
}

// Count is how many changes have a mark.
func (p *Push) Count(mark byte) (n int) {
	for _, c := range p.Changes {
		if c.Mark == mark {
			n++
		}
	}
	return n
}

// Send makes the changes, and returns those that were made. A group that the server refuses does not keep the others
// from it, but nothing is removed then. Any other failure ends the run.
func (p *Push) Send(ctx context.Context, r *Ruler) (done Push, err error) {
	done.Equal = p.Equal
	var failed []error
	ended := false
	for _, c := range p.Changes {
		switch {
		case c.Group != nil:
			err = r.Set(ctx, c.Namespace, c.Group)
		case len(failed) > 0:
			continue
		default:
			err = r.Delete(ctx, c.Namespace, c.Name)
		}
		if err == nil {
			done.Changes = append(done.Changes, c)
			continue
		}
		failed = append(failed,
			fmt.Errorf("namespace %s, group %s: %w", remote.OneLine(c.Namespace), remote.OneLine(c.Name), err))
		if status, ok := errors.AsType[*remote.StatusError](err); !ok || !refusesGroup(status.Status) {
			ended = true
			break
		}
	}
	if len(failed) == 0 {
		return done, nil
	}
	why := "the other groups were sent"
	if left := len(p.Changes) - len(done.Changes) - len(failed); ended {
		why = "the groups after it were not sent"
	} else if left > 0 {
		why += fmt.Sprintf(", and %d to be removed are still there", left)
	}
	return done, fmt.Errorf("push rule groups: %w\n%d of %d changes were made and stay; %s "+
		"(run it again: it sends what differs)", errors.Join(failed...), len(done.Changes), len(p.Changes), why)
}

// refusesGroup reports whether a status is about the group that was sent: invalid, too large, beyond a limit.
func refusesGroup(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusUnprocessableEntity ||
		status == http.StatusRequestEntityTooLarge
}

func groupName(g RuleGroup) string { return text(g["name"]) }

func text(v any) string {
	s, _ := v.(string)
	return s
}

// rulesOf are the rules of a group, without those that are none.
func rulesOf(g RuleGroup) (out []map[string]any) {
	list, _ := g["rules"].([]any)
	for _, v := range list {
		switch r := v.(type) {
		case map[string]any:
			out = append(out, r)
		case RuleGroup: // as which yaml decodes maps inside of one
			out = append(out, r)
		}
	}
	return out
}

// canonical is a group without what servers write in different ways: durations, and settings that are not set.
func canonical(key string, v any) any {
	switch v := v.(type) {
	case RuleGroup:
		return canonical(key, map[string]any(v))
	case map[string]any:
		out := map[string]any{}
		for k, x := range v {
			if x = canonical(k, x); x != nil {
				out[k] = x
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = canonical("", v[i])
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case string:
		switch key {
		case "interval", "for", "keep_firing_for", "query_offset", "evaluation_delay":
			if d, err := model.ParseDuration(v); err == nil {
				return canonical("", time.Duration(d).Seconds())
			}
		case "expr":
			v = strings.TrimSpace(v)
		}
		if v == "" {
			return nil
		}
		return v
	case int:
		return canonical("", float64(v))
	case float64:
		if v == 0 {
			return nil
		}
	case bool:
		if !v {
			return nil
		}
	}
	return v
}

// ruleDiff names the rules that differ, each with what of it does.
func ruleDiff(was, next RuleGroup) (out []string) {
	name := func(r map[string]any) string {
		if alert := text(r["alert"]); alert != "" {
			return "alert " + alert
		}
		return "record " + text(r["record"])
	}
	old := map[string][]map[string]any{}
	for _, r := range rulesOf(was) {
		old[name(r)] = append(old[name(r)], r)
	}
	for _, r := range rulesOf(next) {
		n := name(r)
		if len(old[n]) == 0 {
			out = append(out, "+ "+n)
			continue
		}
		if fields := fieldDiff(old[n][0], r); len(fields) > 0 {
			out = append(out, "~ "+n+": "+strings.Join(fields, ", "))
		}
		old[n] = old[n][1:]
	}
	for _, n := range slices.Sorted(maps.Keys(old)) {
		for range old[n] {
			out = append(out, "- "+n)
		}
	}
	settings := func(g RuleGroup) map[string]any {
		g = maps.Clone(g)
		delete(g, "rules")
		return g
	}
	for _, field := range fieldDiff(settings(was), settings(next)) {
		out = append(out, "~ "+field)
	}
	if out == nil {
		out = []string{"~ order of the rules"}
	}
	return out
}

// fieldDiff lists the keys whose values differ.
func fieldDiff(was, next map[string]any) (keys []string) {
	all := maps.Clone(was)
	maps.Copy(all, next)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if !reflect.DeepEqual(canonical(key, was[key]), canonical(key, next[key])) {
			keys = append(keys, key)
		}
	}
	return keys
}
