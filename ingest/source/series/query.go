package series

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/valyala/fastjson"

	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/reliability/remote"
)

// maxAnswer bounds an answer: some two million samples.
const maxAnswer = 128 << 20

// errTooLarge means that a query over a shorter time may do.
var errTooLarge = errors.New("the answer is larger than 128 MiB")

// queryError is an answer other than success.
type queryError struct {
	status int
	kind   string // errorType of Prometheus; "" if there is none
	text   string
}

// ofQuery reports whether another query may do.
func (e *queryError) ofQuery() bool {
	return e.status/100 == 4 || e.kind == "timeout" || e.kind == "execution"
}

func (e *queryError) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.text) }

// oneSeries is a series with its samples, oldest first.
type oneSeries struct {
	labels seriesLabels
	points []point
}

// point is a sample: Unix nanoseconds, what was counted, and since when; 0: it does not say that.
type point struct {
	at     int64
	n      float64
	began  int64
	native *histogram.FloatHistogram // of n events, in whole numbers; nil: it is no native histogram
}

// isCount reports whether it is one of a counter. A stale marker is NaN.
func (p point) isCount() bool { return p.n >= 0 && p.n < 1<<63 }

// client asks a Prometheus.
type client struct {
	url     string // without /api
	http    *http.Client
	timeout time.Duration // of a request; 0: requestTimeout
	parser  fastjson.Parser
	body    []byte
}

// requestTimeout is longer than what a Prometheus gives a query (--query.timeout).
const requestTimeout = 150 * time.Second

// limited bounds a request: a Prometheus that takes it and never answers must not stop a source without a word.
func (c *client) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, cmp.Or(c.timeout, requestTimeout))
}

// samples hands out the series of a selector with the samples after from, up to to. It is valid until the next call.
func (c *client) samples(ctx context.Context, selector string, from, to time.Time, each func(*oneSeries)) (bytes int,
	err error) {
	return c.ask(ctx, "query", url.Values{
		"query": {fmt.Sprintf("%s[%dms]", selector, to.Sub(from).Milliseconds())},
		"time":  {strconv.FormatFloat(float64(to.UnixMilli())/1e3, 'f', 3, 64)},
	}, func(one *oneSeries) {
		// Prometheus 2 has also those at the time itself.
		one.points = slices.DeleteFunc(one.points, func(p point) bool { return !p.isCount() || p.at <= from.UnixNano() })
		if len(one.points) > 0 {
			each(one)
		}
	})
}

// ask hands out the series of an answer.
func (c *client) ask(ctx context.Context, path string, form url.Values, each func(*oneSeries)) (bytes int, err error) {
	ctx, cancel := c.limited(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/api/v1/"+path, strings.NewReader(form.Encode()))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := c.http.Do(req)
	if u := (*url.Error)(nil); errors.As(err, &u) {
		return 0, u.Err // its URL may hold a secret
	}
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if c.body, err = readAll(c.body[:0], resp.Body); err != nil {
		return len(c.body), err
	}
	v, err := c.parser.ParseBytes(c.body)
	if resp.StatusCode/100 != 2 || err != nil || string(v.GetStringBytes("status")) != "success" {
		text := strings.TrimSpace(string(c.body[:min(len(c.body), 300)]))
		if err == nil && v.Exists("error") {
			text = string(v.GetStringBytes("error"))
		}
		return len(c.body), &queryError{resp.StatusCode, string(v.GetStringBytes("errorType")), remote.Text(text)}
	}
	if kind := string(v.GetStringBytes("data", "resultType")); kind != "matrix" {
		return len(c.body), &queryError{resp.StatusCode, "", remote.Text("the result is a " + kind + " instead of a matrix")}
	}
	var s oneSeries
	for _, item := range v.GetArray("data", "result") {
		if err := s.read(item); err != nil {
			return len(c.body), err
		}
		if len(s.points) > 0 {
			each(&s)
		}
	}
	return len(c.body), nil
}

func (s *oneSeries) read(v *fastjson.Value) error {
	s.labels, s.points = s.labels[:0], s.points[:0]
	v.GetObject("metric").Visit(func(name []byte, value *fastjson.Value) {
		s.labels = append(s.labels, label{string(name), string(value.GetStringBytes())})
	})
	order.By(s.labels, func(a, b *label) int { return strings.Compare(a.name, b.name) })
	for _, pair := range v.GetArray("values") {
		at, err := pair.Get("0").Float64()
		n, err2 := strconv.ParseFloat(string(pair.GetStringBytes("1")), 64)
		if err != nil || err2 != nil || at < 0 || at > 9e9 {
			return fmt.Errorf("a sample of %s is not a time and a number: %s", remote.Text(s.labels.get(nameLabel)),
				remote.Text(pair.String()))
		}
		s.points = append(s.points, point{at: int64(at*1e3+0.5) * int64(time.Millisecond), n: n})
	}
	return nil
}

func readAll(dst []byte, r io.Reader) ([]byte, error) {
	for {
		dst = slices.Grow(dst, 64<<10)
		n, err := r.Read(dst[len(dst):cap(dst)])
		if dst = dst[:len(dst)+n]; len(dst) > maxAnswer {
			return dst, errTooLarge
		}
		if errors.Is(err, io.EOF) {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
	}
}
