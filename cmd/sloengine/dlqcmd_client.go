package main

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
)

// dlqPage is how many dead letters one request asks for.
const dlqPage = 200

// deadLetters hands up to limit dead letters to f, a page at a time, and returns the cursor
// behind them; "" at the end.
func (c *apiClient) deadLetters(ctx context.Context, params url.Values, limit int, f func([]json.RawMessage) error) (next string, err error) {
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
