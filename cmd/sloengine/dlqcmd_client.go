package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// dlqClient talks to the dead-letter API of a running engine.
type dlqClient struct {
	base  *url.URL
	token string
	http  *http.Client
}

const (
	// dlqPage is how many dead letters one request asks for.
	dlqPage = 200
	// maxDLQAnswer bounds an answer: a page of the largest dead letters, 1 MiB each.
	maxDLQAnswer = (dlqPage + 50) << 20
	// dlqReadTimeout bounds one reading request. What acts takes as long as it takes: a
	// replay goes at the engine's own rate, until it is through or the caller gives up.
	dlqReadTimeout = time.Minute
)

func newDLQClient(base *url.URL, token string) *dlqClient {
	return &dlqClient{base, token, &http.Client{}}
}

// read asks for one answer.
func (c *dlqClient) read(ctx context.Context, path string, params url.Values, into any) error {
	ctx, cancel := context.WithTimeout(ctx, dlqReadTimeout)
	defer cancel()
	return c.call(ctx, http.MethodGet, path, params, nil, into)
}

// act sends a body that changes something.
func (c *dlqClient) act(ctx context.Context, path string, body, into any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	return c.call(ctx, http.MethodPost, path, nil, data, into)
}

// call makes one request; a problem becomes an error with its detail.
func (c *dlqClient) call(ctx context.Context, method, path string, params url.Values, body []byte, into any) error {
	u := c.base.JoinPath(path)
	u.RawQuery = params.Encode()
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("ask the engine: %w", err)
	}
	defer res.Body.Close()
	answer := io.LimitReader(res.Body, maxDLQAnswer)
	if res.StatusCode != http.StatusOK {
		var problem struct{ Title, Detail string }
		_ = json.NewDecoder(answer).Decode(&problem) // what is not a problem document has no detail
		return fmt.Errorf("the engine at %s answers %s: %s", c.base.Redacted(), printable(res.Status), printable(cmp.Or(problem.Detail, problem.Title, "no details given")))
	}
	if err := json.NewDecoder(answer).Decode(into); err != nil {
		return fmt.Errorf("read the answer of %s: %w", u.Path, err)
	}
	return nil
}

// pages hands up to limit dead letters to f, a page at a time, and returns the cursor
// behind them; "" at the end.
func (c *dlqClient) pages(ctx context.Context, params url.Values, limit int, f func([]json.RawMessage) error) (next string, err error) {
	for {
		params.Set("limit", strconv.Itoa(min(limit, dlqPage)))
		var page struct {
			Items []json.RawMessage `json:"items"`
			Next  string            `json:"next_cursor"`
		}
		if err := c.read(ctx, "/api/v1/dlq", params, &page); err != nil {
			return "", err
		}
		if err := f(page.Items); err != nil {
			return "", err
		}
		limit -= len(page.Items)
		if page.Next == "" || limit <= 0 {
			return page.Next, nil
		}
		params.Set("cursor", page.Next)
	}
}
