package remote

import (
	"encoding/json"
	"mime"
	"strings"
)

// Verdict is an answer in the form of the engine's own, as far as it is about single parts of a request.
type Verdict struct {
	Errors    []Problem `json:"errors"`
	Truncated bool      `json:"errors_truncated"` // Errors does not name all that were refused
	Detail    string    `json:"detail"`
}

// Problem is why one part was refused.
type Problem struct {
	Index     *int   `json:"index"` // without it, it is about something else
	Code      string `json:"code"`
	Detail    string `json:"detail"`
	Retryable bool   `json:"retryable"`
}

// ParseVerdict reads an answer. It is nil for an answer of another form, which says nothing.
func ParseVerdict(contentType string, raw []byte) *Verdict {
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil || kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return nil
	}
	var v Verdict
	if json.Unmarshal(raw, &v) != nil {
		return nil
	}
	return &v
}
