package main

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
	"strings"
	"time"

	"github.com/spf13/pflag"
)

const (
	// maxAnswer bounds an answer: a page of the largest dead letters, 1 MiB each, and more.
	maxAnswer = (dlqPage + 56) << 20
	// readTimeout bounds one reading request. What acts takes as long as it takes: a
	// replay goes at the engine's own rate, until it is through or the caller gives up.
	readTimeout = 2 * time.Minute
)

// apiFlags say which running engine a command asks.
type apiFlags struct{ address, tokenFile string }

func (a *apiFlags) add(f *pflag.FlagSet) {
	f.StringVar(&a.address, "url", "http://127.0.0.1:8080", "address of the engine")
	f.StringVar(&a.tokenFile, "token-file", "", "file with a bearer token (or SLOENGINE_TOKEN)")
}

// client makes the client that the flags ask for.
func (a *apiFlags) client() (*apiClient, error) {
	base, err := url.Parse(a.address)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, usageError{fmt.Errorf("--url %q: want an address such as http://127.0.0.1:8080", a.address)}
	}
	token, err := readToken(a.tokenFile)
	if err != nil {
		return nil, err
	}
	return &apiClient{base, token}, nil
}

// readToken takes the token from the file, else from the environment.
func readToken(file string) (string, error) {
	if file == "" {
		return os.Getenv("SLOENGINE_TOKEN"), nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// apiClient asks the API of a running engine.
type apiClient struct {
	base  *url.URL
	token string
}

// read asks for one answer in JSON.
func (c *apiClient) read(ctx context.Context, path string, params url.Values, into any) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return c.call(ctx, http.MethodGet, path, params, nil, maxAnswer, decodeInto(into))
}

// text asks for one answer as it is.
func (c *apiClient) text(ctx context.Context, path string, params url.Values) (text []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	err = c.call(ctx, http.MethodGet, path, params, nil, maxAnswer, func(r io.Reader) (err error) {
		text, err = io.ReadAll(r)
		return err
	})
	return text, err
}

// act sends a body that changes something.
func (c *apiClient) act(ctx context.Context, path string, body, into any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	return c.call(ctx, http.MethodPost, path, nil, data, maxAnswer, decodeInto(into))
}

// stream asks for an answer of any size.
func (c *apiClient) stream(ctx context.Context, path string, take func(io.Reader) error) error {
	return c.call(ctx, http.MethodPost, path, nil, []byte("{}"), math.MaxInt64, take)
}

func decodeInto(v any) func(io.Reader) error {
	return func(r io.Reader) error { return json.NewDecoder(r).Decode(v) }
}

// call makes one request; a problem becomes an error with its detail.
func (c *apiClient) call(ctx context.Context, method, path string, params url.Values, body []byte, most int64, take func(io.Reader) error) error {
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
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("ask the engine: %w", err)
	}
	defer res.Body.Close()
	answer := http.MaxBytesReader(nil, res.Body, most)
	if res.StatusCode != http.StatusOK {
		var problem struct{ Title, Detail string }
		_ = json.NewDecoder(answer).Decode(&problem) // what is not a problem document has no detail
		return fmt.Errorf("the engine at %s answers %s: %s", c.base.Redacted(), printable(res.Status), printable(cmp.Or(problem.Detail, problem.Title, "no details given")))
	}
	if err := take(answer); err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return fmt.Errorf("the answer of %s is larger than %d MiB: ask for a part of it", u.Path, maxAnswer>>20)
		}
		return fmt.Errorf("read the answer of %s: %w", u.Path, err)
	}
	return nil
}
