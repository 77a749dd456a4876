// Package promapi asks a running Prometheus, or what has its API, for the commands: how its counters are scraped, and
// which of the usual ones it has, for which it proposes SLOs, and why it says another number than an engine.
package promapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/reliability/remote"
)

const (
	// maxAnswer bounds an answer, in bytes: some hundred thousand series.
	maxAnswer = 16 << 20
	timeout   = 2 * time.Minute // of a query
)

// Client asks one Prometheus. It follows no redirect, which would carry the credentials elsewhere.
type Client struct {
	URL   *url.URL // without /api; it may have a user and a password
	Token string   // a bearer token; "" without one
}

// Sample is a series with its value now.
type Sample struct {
	Labels map[string]string
	Value  float64
}

// StatusError is an answer other than success.
type StatusError struct {
	Status  int
	at, why string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("query Prometheus at %s: %d %s: %s", e.at, e.Status, http.StatusText(e.Status), e.why)
}

var errTooLarge = fmt.Errorf("the answer is larger than %d MiB", maxAnswer>>20)

// Query evaluates an expression whose result is a vector.
func (c *Client) Query(ctx context.Context, expr string) ([]Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	u := c.URL.JoinPath("api", "v1", "query")
	u.RawQuery = url.Values{"query": {expr}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	res, err := remote.Client().Do(req)
	if of, ok := errors.AsType[*url.Error](err); ok {
		err = of.Err // without the query
	}
	if err != nil {
		return nil, fmt.Errorf("query Prometheus at %s: %w", c.URL.Redacted(), err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = errTooLarge
	}
	if err != nil {
		return nil, fmt.Errorf("query Prometheus at %s: %w", c.URL.Redacted(), err)
	}
	return c.read(res, body)
}

func (c *Client) read(res *http.Response, body []byte) ([]Sample, error) {
	failed := &StatusError{Status: res.StatusCode, at: c.URL.Redacted()}
	if to := res.Header.Get("Location"); res.StatusCode/100 == 3 {
		failed.why = "redirected to " + strconv.QuoteToASCII(remote.Text(to)) + " (name the address behind it)"
		return nil, failed
	}
	var answer struct {
		Status, Error string
		Data          struct {
			ResultType string
			Result     json.RawMessage
		}
	}
	err := json.Unmarshal(body, &answer)
	if err != nil || res.StatusCode != http.StatusOK || answer.Status != "success" {
		if failed.why = remote.Text(answer.Error); failed.why == "" {
			failed.why = remote.Text(strings.TrimSpace(string(body[:min(len(body), 300)])))
		}
		return nil, failed
	}
	var vector []struct {
		Metric map[string]string
		Value  [2]any
	}
	if answer.Data.ResultType != "vector" || json.Unmarshal(answer.Data.Result, &vector) != nil {
		failed.why = "unexpected result of type " + strconv.QuoteToASCII(remote.Text(answer.Data.ResultType))
		return nil, failed
	}
	out := make([]Sample, len(vector))
	for i, s := range vector {
		text, _ := s.Value[1].(string)
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			failed.why = "unexpected value " + strconv.QuoteToASCII(remote.Text(text))
			return nil, failed
		}
		out[i] = Sample{s.Metric, x}
	}
	return out, nil
}
