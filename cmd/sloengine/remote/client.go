package remote

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/web/api/v1"
)

const (
	// dlqPage is how many dead letters one request asks for.
	dlqPage = 200
	// maxAnswer bounds a response: a page of the largest dead letters, 1 MiB each, and more.
	maxAnswer = (dlqPage + 56) << 20
	// readTimeout bounds a request that only reads. A request that acts has no bound: a replay runs at the
	// engine's own rate until it is done or the caller gives up.
	readTimeout = 2 * time.Minute
)

// httpClient follows no redirect: a POST would become a GET, whose 200 would look like success.
var httpClient = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
	return http.ErrUseLastResponse
}}

// Client asks the API of the engine that the flags or the environment name.
type Client struct{ cli.Engine }

// engineCommand is what the commands share that ask a running engine.
type engineCommand struct {
	cli.Printer
	engine Client
}

// Read asks for one answer in JSON.
func (c *Client) Read(ctx context.Context, path string, params url.Values, into any) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return c.call(ctx, http.MethodGet, path, params, nil, maxAnswer, decodeInto(into))
}

// download asks for one answer of any size.
func (c *Client) download(ctx context.Context, path string, params url.Values, take func(io.Reader) error) error {
	return c.call(ctx, http.MethodGet, path, params, nil, math.MaxInt64, take)
}

// actor is who acts: the value of a flag, or $USER. If a token will do, the engine takes its name without either.
func (c *Client) actor(value, flag string, token bool) (string, error) {
	if value = cmp.Or(value, os.Getenv("USER")); value != "" {
		return value, nil
	}
	if s, err := c.Secret(); token && (err != nil || s.From != "") {
		return "", err
	}
	return "", cli.Usagef("missing %s NAME: who acts, since $USER is empty", flag)
}

// act sends a body that changes something.
func (c *Client) act(ctx context.Context, path string, body, into any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	return c.call(ctx, http.MethodPost, path, nil, data, maxAnswer, decodeInto(into))
}

// actOnEach carries out an operation on one thing after the other, by their ids. It prints the results, but no table.
func actOnEach[T any](ctx context.Context, o *engineCommand, path string, ids []string, operation string) error {
	done := struct {
		Items []T `json:"items"`
	}{[]T{}}
	for _, id := range ids {
		var got T
		if err := o.engine.act(ctx, path+"/"+url.PathEscape(id)+"/"+operation, struct{}{}, &got); err != nil {
			return fmt.Errorf("%s: %w", cli.Printable(id), err)
		}
		done.Items = append(done.Items, got)
	}
	return o.Print(done, func() error { return nil })
}

// Stream asks for an answer of any size.
func (c *Client) Stream(ctx context.Context, path string, params url.Values, take func(io.Reader) error) error {
	return c.call(ctx, http.MethodPost, path, params, []byte("{}"), math.MaxInt64, take)
}

func decodeInto(v any) func(io.Reader) error {
	return func(r io.Reader) error { return json.NewDecoder(r).Decode(v) }
}

// call makes one request; a problem becomes an error with its detail.
func (c *Client) call(ctx context.Context, method, path string, params url.Values, body []byte, most int64,
	take func(io.Reader) error) error {
	base, err := c.URL()
	if err != nil {
		return err
	}
	token, err := c.Token()
	if err != nil {
		return err
	}
	u := base.JoinPath(path)
	u.RawQuery = params.Encode()
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := httpClient.Do(req)
	if err != nil {
		return fmt.Errorf("engine not reachable (%s): %w", c.AddressFrom(), err)
	}
	defer res.Body.Close()
	answer := http.MaxBytesReader(nil, res.Body, most)
	switch res.StatusCode {
	case http.StatusOK, http.StatusCreated, http.StatusAccepted:
	default:
		var problem struct{ Title, Detail string }
		_ = json.NewDecoder(answer).Decode(&problem) // what is not a problem document has no detail
		why := cli.Printable(cmp.Or(problem.Detail, problem.Title, "no details given"))
		if to := res.Header.Get("Location"); res.StatusCode/100 == 3 && to != "" {
			why = "redirected to " + strconv.QuoteToASCII(to) + " (set --url to the address behind it)"
		}
		if res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden {
			why += "; " + c.Denied()
		}
		return fmt.Errorf("engine at %s responded with %s: %s", base.Redacted(), cli.Printable(res.Status), why)
	}
	if err := take(answer); err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return fmt.Errorf("response of %s exceeds %d MiB (request a smaller part of it)", u.Path, maxAnswer>>20)
		}
		return fmt.Errorf("read response of %s: %w", u.Path, err)
	}
	return nil
}

// given are parameters of the API that have a value.
func given(params map[string]string) url.Values {
	q := url.Values{}
	for name, value := range params {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

// groupParams choose a group, some of whose values may be empty.
func groupParams(labels map[string]string) url.Values {
	q := url.Values{}
	for label, value := range labels {
		q.Set("group."+label, value)
	}
	return q
}

// addTimes adds the flags --from and --to that have a value.
func addTimes(q url.Values, from, to string) error {
	for name, value := range map[string]string{"from": from, "to": to} {
		if value == "" {
			continue
		}
		at, err := timeFlag(value, time.Now())
		if err != nil {
			return cli.Usagef("invalid --%s %w", name, err)
		}
		q.Set(name, at.UTC().Format(time.RFC3339))
	}
	return nil
}

// page is one page of a list of the API.
type page[T any] struct {
	Report  v1.Report
	Failing *v1.Failing `json:"failing"`
	Items   []T         `json:"items"`
	Next    string      `json:"next_cursor"`
}

// Groups hands all groups of SLOs to take, one page at a time. The engine must have evaluated them.
func (c *Client) Groups(ctx context.Context, params url.Values, take func(v1.SLOList) error) error {
	_, err := list(ctx, c, "/api/v1/slos", params, math.MaxInt, 500, func(p page[v1.SLO]) error {
		if p.Report.Version == 0 {
			return errors.New("the engine is still starting and has no report yet; try again in a few seconds")
		}
		return take(v1.SLOList{Report: p.Report, Failing: p.Failing, Items: p.Items})
	})
	return err
}

// list hands up to limit items of a list to take, perPage at a time, and returns the cursor behind them. It is
// empty at the end of the list.
func list[T any](ctx context.Context, c *Client, path string, params url.Values, limit, perPage int,
	take func(page[T]) error) (next string, err error) {
	for {
		params.Set("limit", strconv.Itoa(min(limit, perPage)))
		var p page[T]
		if err := c.Read(ctx, path, params, &p); err != nil {
			return "", err
		}
		if err := take(p); err != nil {
			return "", err
		}
		limit -= len(p.Items)
		if p.Next == "" || limit <= 0 {
			return p.Next, nil
		}
		params.Set("cursor", p.Next)
	}
}
