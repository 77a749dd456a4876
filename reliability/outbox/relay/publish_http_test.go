package relay

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/nettest"
	"github.com/sloengine/sloengine/reliability/outbox"
	"github.com/sloengine/sloengine/reliability/retry"
)

// cloudEvents reads a batch as a receiver does.
func cloudEvents(raw []byte) (list []taken) {
	var batch []struct {
		ID, PartitionKey, TraceParent string
		Data                          json.RawMessage
	}
	if err := json.Unmarshal(raw, &batch); err != nil {
		return []taken{{payload: err.Error()}}
	}
	for _, e := range batch {
		list = append(list, taken{e.ID, e.PartitionKey, e.TraceParent, string(e.Data)})
	}
	return list
}

func TestAnswersOfAReceiver(t *testing.T) {
	t.Parallel()
	v := newReceiver(t, (*httptest.Server).Start)
	h := newHTTP(t, HTTPOptions{URL: v.URL, TokenFile: nettest.PasswordFile(t, token)})
	for _, c := range []struct {
		status int
		after  string
		class  retry.Class
		away   bool
	}{
		{400, "", retry.ClassPermanent, false}, {413, "", retry.ClassPermanent, false},
		{422, "9", retry.ClassPermanent, false},
		{409, "", retry.ClassTransient, false}, {500, "", retry.ClassTransient, false}, {408, "", retry.ClassTimeout, false},
		{401, "", retry.ClassBlocked, true}, {403, "", retry.ClassBlocked, true}, {404, "", retry.ClassBlocked, true},
		{307, "", retry.ClassBlocked, true},
		{429, "7", retry.ClassOverload, true}, {503, "7", retry.ClassTransient, true}, {502, "", retry.ClassTransient, true},
		{504, "", retry.ClassTransient, true},
	} {
		v.set(func(w http.ResponseWriter, _ *http.Request, _ string) bool {
			if c.after != "" {
				w.Header().Set("Retry-After", c.after)
			}
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(`{"detail":"because\u001b[31m"}`))
			return true
		})
		o := h.Publish(t.Context(), []*Message{row("a", "{}")})[0]
		require.ErrorContains(t, o.Err, fmt.Sprint(c.status))
		require.NotContains(t, o.Err.Error(), "\x1b")
		require.Equal(t, c.class, retry.ClassOf(o.Err), c.status)
		require.Equal(t, c.away, o.Away, c.status)
		after, asked := retry.AfterOf(o.Err)
		require.Equal(t, c.after == "7", asked, c.status)
		if asked {
			require.Equal(t, 7*time.Second, after)
		}
		require.Equal(t, c.class == retry.ClassBlocked, h.Check(t.Context()) != nil,
			"%d: readiness stays false until a request is accepted", c.status)
	}
	v.set(nil)
	require.NoError(t, h.Publish(t.Context(), []*Message{row("a", "{}")})[0].Err)
	require.NoError(t, h.Check(t.Context()))
}

// A row whose handling hangs must not stop all rows as a receiver does that is down.
func TestARowThatHangsIsAnAttempt(t *testing.T) {
	t.Parallel()
	v := newReceiver(t, (*httptest.Server).Start)
	v.set(func(_ http.ResponseWriter, r *http.Request, body string) bool {
		if strings.Contains(body, "hang") {
			<-r.Context().Done()
			return true
		}
		return false
	})
	h := newHTTP(t, HTTPOptions{URL: v.URL, TokenFile: nettest.PasswordFile(t, token), RequestTimeout: 2 * time.Second})
	alone := h.Publish(t.Context(), []*Message{row("a", "hang")})[0]
	require.True(t, alone.Away, "nobody knows whether it is the row: %v", alone.Err)
	require.Equal(t, retry.ClassTimeout, retry.ClassOf(alone.Err))
	require.Eventually(t, func() bool {
		out := h.Publish(t.Context(), []*Message{row("a", "hang"), row("b", "{}")})
		return out[0].Err != nil && !out[0].Away && out[1].Err == nil
	}, soon, time.Millisecond, "others were answered meanwhile")
}

// Rows beyond the rate limit keep their attempts, their order, and the breaker closed.
func TestRequestsStayWithinTheRateLimit(t *testing.T) {
	t.Parallel()
	for body, most := range map[string]int{BodyPayload: 10, BodyCloudEvents: 2} {
		v := newReceiver(t, (*httptest.Server).Start)
		var requests, dead atomic.Int64
		v.set(func(_ http.ResponseWriter, r *http.Request, _ string) bool {
			if r.URL.Path == "/dead" {
				dead.Add(1)
			} else {
				requests.Add(1)
			}
			return true
		})
		limit, err := dispatch.NewLocalLimit(25, most/2, time.Minute) // in any 200 or 40 ms
		require.NoError(t, err)
		h := newHTTP(t, HTTPOptions{URL: v.URL, DeadLetterURL: v.URL + "/dead", Body: body, Limit: limit})
		var batch []*Message
		for i := range 20 {
			m := row(fmt.Sprint(i%15), "{}")
			if m.DeadLetter = i == 3; m.DeadLetter {
				m.Key = ""
			}
			batch = append(batch, m)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(most)*28*time.Millisecond)
		out := h.Publish(ctx, batch)
		cancel()
		sent, cut, skipped := 0, false, map[string]bool{}
		for i, o := range out {
			if o.Err != nil { // on a busy machine the deadline finds a request under way
				require.ErrorIs(t, o.Err, context.DeadlineExceeded)
				cut = true
				continue
			}
			require.False(t, o.Away)
			require.False(t, !o.Skipped && skipped[batch[i].Key] && batch[i].Key != "", "a key waits for its row")
			skipped[batch[i].Key] = o.Skipped
			if !o.Skipped {
				sent++
			}
		}
		require.True(t, sent > 0 || cut)
		require.LessOrEqual(t, requests.Load(), int64(most), body)
		if body == BodyPayload && !cut {
			require.Equal(t, int64(1), dead.Load(), "dead letters go elsewhere")
			require.Equal(t, int64(sent), requests.Load()+1)
			require.Less(t, sent, 20)
		}
	}
}

func TestAReceiverNamesTheRowsAtFault(t *testing.T) {
	t.Parallel()
	v := newReceiver(t, (*httptest.Server).Start)
	h := newHTTP(t, HTTPOptions{URL: v.URL, Body: BodyCloudEvents, TokenFile: nettest.PasswordFile(t, token)})
	for _, status := range []int{202, 422} {
		v.set(func(w http.ResponseWriter, _ *http.Request, _ string) bool {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write(
				[]byte(
					`{"errors":[{"index":0,"code":"bad","detail":"no"},{"index":2,"code":"full","retryable":true},{"index":99,` +
						`"code":"x"}]}`))
			return true
		})
		out := h.Publish(t.Context(), []*Message{row("a", "{}"), row("b", "{}"), row("c", "{}"), row("a", "{}")})
		require.Equal(t, retry.ClassPermanent, retry.ClassOf(out[0].Err))
		require.Equal(t, status == 202, out[1].Err == nil)
		require.Equal(t, retry.ClassOverload, retry.ClassOf(out[2].Err))
		require.True(t, out[3].Skipped, "a key waits for its row")
	}
}

// The engine accepts the requests of the relay.
func TestTheEngineReadsTheCloudEvents(t *testing.T) {
	m := row("k", `{"outcome":"failure"}`)
	m.Headers = append(m.Headers, Header{Name: "type", Value: "x"},
		Header{Name: "X-Request-Id", Value: "a\"b"})
	raw := appendCloudEvent(nil, m, "shop")
	var fields map[string]any
	require.NoError(t, json.Unmarshal(raw, &fields), string(raw))
	require.Equal(t, "x", fields["headertype"])
	require.Equal(t, `a"b`, fields["xrequestid"])
	require.Equal(t, "00-abc-def-01", fields["traceparent"])
	var b event.Batch
	require.NoError(t, new(event.Decoder).Decode(event.CloudEventBatch, []byte("["+string(raw)+"]"),
		event.DecodeOptions{Now: m.CreatedAt}, &b))
	require.Len(t, b.Events, 1)
	require.Empty(t, b.Errors)

	m.Payload = []byte{0xff, 1}
	require.NoError(t, json.Unmarshal(appendCloudEvent(nil, m, "shop"), &fields))
	require.Equal(t, "/wE=", fields["data_base64"])
}

func TestTLSTokenAndDeadLetters(t *testing.T) {
	t.Parallel()
	v := newReceiver(t, (*httptest.Server).StartTLS)
	pool := x509.NewCertPool()
	require.True(
		t, pool.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: v.Certificate().Raw})))
	out := newHTTP(t, HTTPOptions{URL: v.URL}).Publish(t.Context(), []*Message{row("a", "{}")})[0]
	require.ErrorContains(t, out.Err, "certificate of the receiver")
	require.True(t, out.Away)
	require.Equal(t, retry.ClassBlocked, retry.ClassOf(out.Err))

	file := nettest.PasswordFile(t, "old")
	set := metrics.NewSet()
	h := newHTTP(t, HTTPOptions{URL: v.URL, DeadLetterURL: v.URL + "/dead", HealthURL: v.URL,
		TLS: &tls.Config{RootCAs: pool}, TokenFile: file,
		Headers: map[string]string{"X-Tenant": "shop"}, Body: BodyCloudEvents, Metrics: set})
	require.ErrorContains(t, h.Check(t.Context()), "401")
	require.NoError(t, os.WriteFile(file, []byte(token+"\n"), 0o600))
	require.Eventually(t, func() bool {
		return h.Publish(t.Context(), []*Message{row("a", "{}")})[0].Err == nil
	}, soon, 10*time.Millisecond, "the token is read again")
	require.NoError(t, h.Check(t.Context()))
	paths := make(chan string, 1)
	v.set(func(_ http.ResponseWriter, r *http.Request, _ string) bool {
		paths <- r.URL.Path + " " + r.Header.Get("X-Tenant") + " " + r.Header.Get("Content-Type")
		return true
	})
	m := row("a", `{"row":{}}`)
	m.DeadLetter = true
	require.NoError(t, h.Publish(t.Context(), []*Message{m})[0].Err)
	require.Equal(t, "/dead shop application/json", <-paths)
	var b strings.Builder
	set.WritePrometheus(&b)
	require.Contains(t, b.String(), `sloengine_outbox_http_requests_total{code="4xx"}`)
	require.NotContains(t, b.String(), `sloengine_outbox_http_requests_total{code="2xx"} 0`)
}

func TestHeadersThatHTTPCannotCarry(t *testing.T) {
	t.Parallel()
	v := newReceiver(t, (*httptest.Server).Start)
	got := make(chan http.Header, 1)
	v.set(func(_ http.ResponseWriter, r *http.Request, _ string) bool { got <- r.Header; return true })
	h := newHTTP(t, HTTPOptions{URL: v.URL, TokenFile: nettest.PasswordFile(t, token)})
	m := row("a", "{}")
	m.Headers = append(m.Headers, Header{Name: "Authorization", Value: "stolen"},
		Header{Name: "Host", Value: "elsewhere"}, Header{Name: "x-request-id", Value: "7"})
	require.NoError(t, h.Publish(t.Context(), []*Message{m})[0].Err)
	headers := <-got
	require.Equal(t, "Bearer "+token, headers.Get("Authorization"))
	require.Equal(t, "7", headers.Get("X-Request-Id"))
	require.Equal(t, "orders", headers.Get("Outbox-Topic"))
	require.Equal(t, "created", headers.Get("Event-Type"))
	for _, bad := range []Header{{Name: "a b", Value: "1"}, {Name: "a", Value: "1\r\nb: 2"}} {
		m := row("a", "{}")
		m.Headers = append(m.Headers, bad)
		o := h.Publish(t.Context(), []*Message{m})[0]
		require.Equal(t, retry.ClassPermanent, retry.ClassOf(o.Err), "%v", o.Err)
		require.False(t, o.Away)
	}
}

func TestWrongOptions(t *testing.T) {
	for text, o := range map[string]HTTPOptions{
		"url: must begin with http": {URL: "ftp://h"}, "must not contain credentials": {URL: "http://u:p@h"},
		"fragment":        {URL: "http://h/#x"},
		"headers:":        {URL: "http://h", Headers: map[string]string{"Authorization": "x"}},
		"token_file":      {URL: "http://h", TokenFile: "missing"},
		"dead letter url": {URL: "http://h", DeadLetterURL: "h"}, "health_url": {URL: "http://h", HealthURL: "h"},
	} {
		_, err := NewHTTP(o)
		require.ErrorContains(t, err, text)
	}
	_, err := NewRabbitMQ(RabbitMQOptions{TopicIs: TopicIsExchange, Exchange: "x"})
	require.ErrorContains(t, err, "must not be set with topic_is: exchange")
	require.ErrorContains(t, err, "url: missing")
}

func TestTurns(t *testing.T) {
	var rounds [][]string
	batch := []*Message{}
	for _, key := range []string{"a", "a", "b", "", "", "a", "b"} {
		batch = append(batch, &Message{Row: &outbox.Row{Key: key}})
	}
	out := inTurn(batch, func(part []*Message) []Outcome {
		var keys []string
		o := make([]Outcome, len(part))
		for i, m := range part {
			keys = append(keys, m.Key)
			if m.Key == "b" || m.Key == "" {
				o[i].Err = errors.New("refused")
			}
		}
		rounds = append(rounds, keys)
		return o
	})
	require.Equal(t, [][]string{{"a", "b", "", ""}, {"a"}, {"a"}}, rounds)
	require.True(t, out[6].Skipped)
	require.Error(t, out[4].Err, "rows without a key do not wait")
}
