package site

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/respond"
)

// OwnForm reports whether a form was sent from a page of this engine, and else refuses it and says what to do instead.
// Any site can make a browser send a form, so the request must prove it: by Sec-Fetch-Site or, over plain HTTP where
// browsers omit it, by Origin. The page needs the header of [FormPage] for that.
func (site *Site) OwnForm(c *gin.Context, instead string) bool {
	err := http.NewCrossOriginProtection().Check(c.Request)
	from := c.GetHeader("Sec-Fetch-Site")
	if err == nil && (from == "same-origin" || from == "" && c.GetHeader("Origin") != "") {
		return true
	}
	site.Undone(c, http.StatusForbidden, "This form was not sent from a page of this engine. "+instead)
	return false
}

// FormPage lets the browser name the origin of a page when it sends the page's forms. Without this header browsers hide
// it, and over plain HTTP there is nothing else that OwnForm could check.
func FormPage(c *gin.Context) { c.Header("Referrer-Policy", "same-origin") }

// ReadForm reads a URL-encoded form of at most that many bytes, in which nothing is given twice but the repeated
// fields. Its error completes the sentence that the form could not be read.
func ReadForm(c *gin.Context, most int64, repeated ...string) (url.Values, error) {
	if typ, _, err := mime.ParseMediaType(c.GetHeader("Content-Type")); err != nil ||
		typ != "application/x-www-form-urlencoded" {
		return nil, errors.New("it is not a URL-encoded form")
	}
	c.Request.Body = http.MaxBytesReader(c.Writer, c.Request.Body, most)
	if err := c.Request.ParseForm(); err != nil {
		return nil, errors.New("it is too large or damaged")
	}
	for name, values := range c.Request.PostForm {
		if len(values) > 1 && !slices.Contains(repeated, name) {
			return nil, errors.New(format.Safe(name, format.MaxName) + " is given twice")
		}
	}
	return c.Request.PostForm, nil
}

// MaxBody is the most bytes of a body that changes something.
const MaxBody = 64 << 10

// JSONBody reads a body that changes something, or sends a problem. A page of
// another site must not be able to make a browser send it: only application/json is
// taken, which a foreign page cannot send unasked, and a browser that says where the
// request comes from must name this origin.
func (site *Site) JSONBody(c *gin.Context) (body []byte, ok bool) { return site.JSONBodyOf(c, MaxBody) }

// JSONBodyOf is JSONBody with another bound.
func (site *Site) JSONBodyOf(c *gin.Context, most int64) (body []byte, ok bool) {
	if err := http.NewCrossOriginProtection().Check(c.Request); err != nil {
		respond.Problem(c, http.StatusForbidden, "Requests from pages of another site are refused.", nil)
		return nil, false
	}
	if typ, _, err := mime.ParseMediaType(c.GetHeader("Content-Type")); err != nil || typ != "application/json" {
		respond.Problem(c, http.StatusUnsupportedMediaType, "The content type must be application/json.", nil)
		return nil, false
	}
	if enc := c.GetHeader("Content-Encoding"); enc != "" && enc != "identity" {
		respond.Problem(c, http.StatusUnsupportedMediaType,
			"Content-Encoding is not supported here. Send the body uncompressed.", nil)
		return nil, false
	}
	body, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, most))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		respond.Problem(c, http.StatusRequestEntityTooLarge,
			fmt.Sprintf("The body is larger than %d bytes. Send less at a time.", most), nil)
		return nil, false
	case err != nil:
		respond.Problem(c, http.StatusBadRequest, "The body could not be read completely.", nil)
		return nil, false
	}
	return body, true
}

// Fields are the fields of a JSON object, by name, with what reads them.
type Fields map[string]func(json.RawMessage) error

// ReadFields reads the object of a body, or sends a problem.
func ReadFields(c *gin.Context, body []byte, fields Fields) bool {
	err := ReadObject(body, fields)
	if err != nil {
		respond.Problem(c, http.StatusBadRequest, "body: "+err.Error(), nil)
	}
	return err == nil
}

// ReadObject reads a JSON object whose fields must all be known and there once:
// a misspelt dry_run must not act, nor may the second of two win unseen.
// Errors begin with the place.
func ReadObject(raw []byte, fields Fields) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	wrong := func(err error) error {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("byte %d: %w", dec.InputOffset()+1, err)
	}
	start, err := dec.Token()
	if err != nil {
		return wrong(err)
	}
	if start != json.Delim('{') {
		return errors.New("want a JSON object")
	}
	seen := map[string]bool{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return wrong(err)
		}
		name, _ := key.(string) // the decoder refuses all but texts here
		read, at := fields[name], format.Safe(name, format.MaxName)
		if read == nil {
			return fmt.Errorf("%s: unknown field (want %s)", at, strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		}
		if seen[name] {
			return fmt.Errorf("%s: duplicate field", at)
		}
		seen[name] = true
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return wrong(err)
		}
		if err := read(value); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
	}
	if _, err := dec.Token(); err != nil {
		return wrong(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("byte %d: unexpected data after the object", dec.InputOffset()+1)
	}
	return nil
}

// Value reads a field. want says what it must be.
func Value(into any, want string) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		if err := json.Unmarshal(raw, into); err != nil || bytes.Equal(raw, []byte("null")) {
			return fmt.Errorf("want %s", want)
		}
		return nil
	}
}

// String reads a field that is text.
func String[S ~string](into *S) func(json.RawMessage) error { return Value(into, "a string") }

// Bool reads a field that is true or false.
func Bool(into *bool) func(json.RawMessage) error { return Value(into, "true or false") }

// ReadTime reads a time in RFC 3339.
func ReadTime(into *time.Time) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		var text string
		err := json.Unmarshal(raw, &text)
		if err == nil {
			*into, err = slo.ParseTime(text)
		}
		if err != nil {
			return errors.New("want a time such as 2026-11-22T10:00:00Z")
		}
		return nil
	}
}
