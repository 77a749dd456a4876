package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/slo/fold"
)

// Paths of the API of an engine.
const (
	SumsPath   = "/api/v1/sums"
	CountsPath = "/api/v1/counts"
)

// maxErrorBody is how much is read of an answer that is an error.
const maxErrorBody = 64 << 10

// client asks one engine.
type client struct {
	http  *http.Client
	base  *url.URL
	token func() (string, error)
	most  int64 // bytes of an answer, decompressed
}

// SpecError is the answer of an engine that runs another spec.
type SpecError struct{ Theirs, Ours string }

func (e *SpecError) Error() string {
	return fmt.Sprintf("it runs spec %s, and this is spec %s", e.Theirs, e.Ours)
}

// sumsQuery is a request for the sums of an engine.
type sumsQuery struct {
	spec string
	now  time.Time
	run  string // of the answer before
	raw  fold.RawRequest
	conf uint64 // RawSlices.Config of the answer before
	more bool   // slices only

	noted bool   // notes is set
	notes uint64 // Notes.Changes of the answer before

	minutes bool // fold.Request.Minutes
}

func (q *sumsQuery) values() url.Values {
	v := url.Values{"spec": {q.spec}, "now": {strconv.FormatInt(q.now.UnixNano(), 10)}}
	if q.run != "" {
		v.Set("run", q.run)
		v.Set("config", strconv.FormatUint(q.conf, 10))
		v.Set("since", strconv.FormatUint(q.raw.Since, 10))
	}
	if q.noted {
		v.Set("annotations", strconv.FormatUint(q.notes, 10))
	}
	if q.raw.From != (fold.RawCursor{}) {
		v.Set("from", fmt.Sprintf("%d,%d", q.raw.From.Store, q.raw.From.Slice))
	}
	if q.minutes {
		v.Set("minutes", "true")
	}
	if q.more {
		v.Set("only", "slices")
	}
	return v
}

// counts asks for counts of the past.
func (c *client) counts(ctx context.Context, q *CountsQuery) ([]byte, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	return c.call(ctx, http.MethodPost, CountsPath, nil, q.Spec, body)
}

func (c *client) call(ctx context.Context, method, path string, params url.Values, spec string,
	body []byte) ([]byte, error) {
	u := c.base.JoinPath(path)
	u.RawQuery = params.Encode()
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	token, err := c.token()
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, brief(ctx, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, refused(res, spec)
	}
	if typ, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); typ != ContentType {
		return nil, fmt.Errorf("it answered with %s: %w", remote.Text(res.Header.Get("Content-Type")), ErrFormat)
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, c.most+1))
	if err != nil {
		return nil, brief(ctx, err)
	}
	if int64(len(data)) > c.most {
		return nil, fmt.Errorf("its answer is larger than %d MiB", c.most>>20)
	}
	return data, nil
}

// brief leaves out the address, which is shown beside the error, and says plainly that it took too long.
func brief(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errors.New("it did not answer in time")
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return fmt.Errorf("not reachable: %s", remote.Text(err.Error()))
}

// refused is the error of an answer other than 200.
func refused(res *http.Response, spec string) error {
	if theirs := res.Header.Get(SpecHeader); res.StatusCode == http.StatusConflict && theirs != "" {
		return &SpecError{remote.Text(theirs), spec}
	}
	var problem struct{ Title, Detail string }
	// what is no problem document has no detail
	_ = json.NewDecoder(io.LimitReader(res.Body, maxErrorBody)).Decode(&problem)
	hint := ""
	switch res.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		hint = " (give a token with the permission read)"
	case http.StatusNotFound:
		hint = " (want the address of an engine of this version)"
	}
	text := remote.Status(res.StatusCode) + hint
	if problem.Detail != "" {
		text += ": " + remote.Text(problem.Detail)
	}
	return errors.New("it answered " + text)
}
