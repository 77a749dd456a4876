package deadletters

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// dlqFilters are the names of the filters on dead letters, in queries and bodies.
var dlqFilters = []string{"origin", "sink", "service", "type", "severity", "reason", "class", "from", "to"}

// maxFilterText is the most bytes of one filter's value.
const maxFilterText = 1024

// setDLQFilter sets one filter of a query by its name, which is one of dlqFilters.
func setDLQFilter(q *dlq.Query, name, value string) (err error) {
	if len(value) > maxFilterText {
		return fmt.Errorf("must not be longer than %d bytes", maxFilterText)
	}
	switch name {
	case "origin":
		q.Origin = dlq.Origin(value)
		if q.Origin != dlq.Admission && q.Origin != dlq.Fold && q.Origin != dlq.Sink {
			return fmt.Errorf("invalid origin %q (want admission, fold or sink)", format.Safe(value, format.MaxName))
		}
	case "sink":
		q.Sink = value
	case "service":
		q.Service = value
	case "type":
		q.Type = value
	case "severity":
		q.Severity = value
	case "reason":
		q.Reason = value
	case "class":
		q.Class = value
	case "from":
		q.From, err = site.ParseTime(value)
	case "to":
		q.To, err = site.ParseTime(value)
	}
	return err
}

func checkDLQRange(q *dlq.Query) error {
	if !q.From.IsZero() && !q.To.IsZero() && !q.From.Before(q.To) {
		return errors.New("from: must be before to")
	}
	return nil
}

// parseDLQQuery reads the parameters of a listing. A misspelt filter must not list,
// and lead a caller to think about, everything.
func parseDLQQuery(raw string) (dlq.Query, error) {
	q := dlq.Query{Newest: true}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return q, fmt.Errorf("invalid query string: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if len(values[name]) > 1 {
			return q, fmt.Errorf("parameter %s: given %d times (want it once)",
				format.Safe(name, format.MaxName), len(values[name]))
		}
		value := values[name][0]
		switch {
		case name == "order":
			if value != "newest" && value != "oldest" && value != "" {
				return q, fmt.Errorf("parameter order: invalid order %q (want newest or oldest)",
					format.Safe(value, format.MaxName))
			}
			q.Newest = value != "oldest"
		case name == "limit":
			if q.Limit, err = strconv.Atoi(value); value != "" && (err != nil || q.Limit < 1 || q.Limit > dlq.MaxLimit) {
				return q, fmt.Errorf("parameter limit: want a number from 1 to %d", dlq.MaxLimit)
			}
		case name == "cursor":
			q.Cursor = value
		case !slices.Contains(dlqFilters, name):
			return q, fmt.Errorf("parameter %s: unknown parameter (want %s, order, limit or cursor)",
				format.Safe(name, format.MaxName), strings.Join(dlqFilters, ", "))
		case value != "":
			if err := setDLQFilter(&q, name, value); err != nil {
				return q, fmt.Errorf("parameter %s: %w", name, err)
			}
		}
	}
	return q, checkDLQRange(&q)
}

// dlqRequest is the body of what changes dead letters. Exactly one of ids, query, all
// says which (for a purge, before).
type dlqRequest struct {
	ids    []string
	Query  dlq.Query
	All    bool
	ByIDs  bool
	before time.Time
	dryRun bool
}

const maxDLQIDs = 1000

// setBefore sets the time of a purge by the field before or older_than.
func (r *dlqRequest) setBefore(name, value string, now time.Time) (err error) {
	if !r.before.IsZero() {
		return errors.New("want either before or older_than")
	}
	if name == "before" {
		r.before, err = site.ParseTime(value)
		return err
	}
	age, err := slo.ParseDuration(value)
	if err != nil || age <= 0 {
		return fmt.Errorf("invalid duration %q (want a positive one, such as 7d or 12h)", format.Safe(value, format.MaxName))
	}
	r.before = now.Add(-age).UTC()
	return nil
}

// text reads a field of a body that holds a string.
func text(want string, set func(value string) error) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		var value string
		if err := site.Value(&value, want)(raw); err != nil {
			return err
		}
		return set(value)
	}
}

// count returns how many of the conditions hold.
func count(given ...bool) (n int) {
	for _, ok := range given {
		if ok {
			n++
		}
	}
	return n
}

// parseDLQRequest reads the body of a replay or discard.
func parseDLQRequest(body []byte) (r dlqRequest, err error) {
	var filtered, anything bool
	err = site.ReadObject(body, site.Fields{
		"ids": func(raw json.RawMessage) error {
			r.ByIDs = true
			if err := site.Value(&r.ids, "a list of ids")(raw); err != nil {
				return err
			}
			r.ids, err = checkIDs(r.ids)
			return err
		},
		"query": func(raw json.RawMessage) error {
			filtered = true
			anything = true
			fields := site.Fields{}
			for _, name := range dlqFilters {
				fields[name] = text("a string", func(value string) error {
					if value == "" {
						return errors.New("must not be empty (omit it to match all)")
					}
					anything = false
					return setDLQFilter(&r.Query, name, value)
				})
			}
			if err := site.ReadObject(raw, fields); err != nil {
				return err
			}
			return checkDLQRange(&r.Query)
		},
		"all":     site.Bool(&r.All),
		"dry_run": site.Bool(&r.dryRun),
	})
	if err != nil {
		return r, err
	}
	switch {
	case count(r.ByIDs, filtered, r.All) != 1:
		err = errors.New(`want exactly one of ids, query and "all": true`)
	case filtered && anything:
		err = errors.New(`query: needs at least one filter (for every dead letter, send "all": true)`)
	}
	return r, err
}

// parsePurge reads the body of a purge.
func parsePurge(body []byte, now time.Time) (r dlqRequest, err error) {
	err = site.ReadObject(body, site.Fields{
		"before":     text("a time", func(s string) error { return r.setBefore("before", s, now) }),
		"older_than": text("a duration such as 7d", func(s string) error { return r.setBefore("older_than", s, now) }),
		"dry_run":    site.Bool(&r.dryRun),
	})
	switch {
	case err != nil:
	case r.before.IsZero():
		err = errors.New("want before (a time) or older_than (a duration such as 7d)")
	case r.before.After(now):
		err = errors.New(`before: must not be in the future (to remove every dead letter, discard with "all": true)`)
	}
	return r, err
}

// checkIDs refuses what cannot be an ID and leaves out repeats.
func checkIDs(ids []string) ([]string, error) {
	if len(ids) == 0 || len(ids) > maxDLQIDs {
		return nil, fmt.Errorf("got %d ids (want 1 to %d)", len(ids), maxDLQIDs)
	}
	seen := make(map[string]bool, len(ids))
	out := make([]string, 0, len(ids))
	for i, id := range ids {
		if !plainID(id) {
			return nil, fmt.Errorf(`invalid id %q at position %d (want 1 to 200 letters, digits and "._:~-")`,
				format.Safe(id, format.MaxName), i+1)
		}
		if !seen[id] {
			seen[id], out = true, append(out, id)
		}
	}
	return out, nil
}

func plainID(id string) bool {
	return id != "" && len(id) <= 200 &&
		strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:~-") == ""
}
