package send

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
)

func parser(t testing.TB, format Format, opt ParserOptions) *Parser {
	t.Helper()
	if opt.Service == "" {
		opt.Service = "shop"
	}
	p, err := NewParser(format, opt)
	require.NoError(t, err)
	return p
}

// read reads a whole stream.
func read(t testing.TB, r io.Reader, p *Parser) (events []event.Event, bad []*LineError) {
	t.Helper()
	in := NewReader(r, p)
	next := in.Next
	for {
		var e event.Event
		err := next(&e)
		var lineErr *LineError
		switch {
		case errors.Is(err, io.EOF):
			if err := in.Flush(&e); err == nil {
				events = append(events, e)
			} else if errors.As(err, &lineErr) {
				bad = append(bad, lineErr)
			} else {
				require.ErrorIs(t, err, io.EOF)
			}
			return events, bad
		case errors.As(err, &lineErr):
			bad = append(bad, lineErr)
		default:
			require.NoError(t, err)
			events = append(events, e)
		}
	}
}

func sampleLog(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile("../../../testdata/logs/sample-combined.log")
	require.NoError(t, err)
	return data
}

func TestSampleLog(t *testing.T) {
	events, bad := read(t, bytes.NewReader(sampleLog(t)), parser(t, Combined, ParserOptions{}))

	classes, hours, methods := map[string]int{}, map[string]int{}, map[string]int{}
	failures := 0
	ids := map[string]bool{}
	for _, e := range events {
		classes[e.Attr("status_class")]++
		hours[e.Time.Format("02T15")]++
		methods[e.Attr("method")]++
		ids[e.ID] = true
		if e.Outcome == event.Failure {
			failures++
		}
		require.Equal(t, "shop", e.Service)
		require.Equal(t, "request", e.Type)
		require.Empty(t, e.Severity)
		require.Empty(t, e.Attr("path"))
		require.Empty(t, e.Attr("client"))
	}
	require.Len(t, events, 35)
	require.Len(t, ids, 35)
	require.Equal(t, map[string]int{"2xx": 22, "3xx": 2, "4xx": 8, "5xx": 3}, classes)
	require.Equal(t, map[string]int{"20T09": 15, "20T10": 20}, hours)
	require.Equal(
		t, map[string]int{"GET": 24, "POST": 3, "PUT": 1, "HEAD": 1, "DELETE": 1, "OPTIONS": 1, "other": 4}, methods)
	require.Equal(t, 3, failures)

	var reasons []string
	for _, e := range bad {
		reasons = append(reasons, e.Error())
	}
	require.Equal(t, []string{
		`line 36: no time such as [20/Nov/2026:09:00:00 +0000]`,
		`line 37: no time such as [20/Nov/2026:09:00:00 +0000]`,
		`line 38: the status "abc" is not a number from 100 to 999`,
		`line 39: the line ends after the status, without a size`,
		`line 40: no referer in double quotes after the size (is this the common format?)`,
		`line 41: no request in double quotes after the time`,
		`line 42: the size "-5" is neither a number nor a dash`,
	}, reasons)
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		format Format
		opt    ParserOptions
		want   string
	}{
		{"squid", ParserOptions{Service: "s"},
			`unknown log format "squid": use one of ndjson, json, common, combined, nginx-json, `},
		{Common, ParserOptions{}, "requires a service name"},
		{Common, ParserOptions{Service: "a b"}, `invalid service "a b"`},
		{Common, ParserOptions{Service: "s", Type: "a b"}, `invalid type "a b"`},
		{Common, ParserOptions{Service: "s", FailFrom: 1}, "want 100 to 1000"},
		{NDJSON, ParserOptions{MaxLineBytes: -1}, "must not be negative"},
	} {
		_, err := NewParser(c.format, c.opt)
		require.ErrorContains(t, err, c.want)
	}
	_, err := NewParser(NDJSON, ParserOptions{})
	require.NoError(t, err)
}

const tail = ` "GET /a/b?c=d HTTP/1.1" 200 12`

func TestAccessLine(t *testing.T) {
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	all := ParserOptions{Paths: true, Extra: true}
	for _, c := range []struct {
		name, line string
		format     Format
		opt        ParserOptions
		time       time.Time
		outcome    event.Outcome
		attributes string
	}{
		{"common", `192.0.2.1 - - [20/Nov/2026:09:00:00 +0000]` + tail, Common, ParserOptions{}, at, event.Success,
			"method=GET status=200 status_class=2xx bytes=12"},
		{"line break", `192.0.2.1 - - [20/Nov/2026:09:00:00 +0000]` + tail + "\r\n", Common, ParserOptions{}, at,
			event.Success,
			"method=GET status=200 status_class=2xx bytes=12"},
		{"all", `192.0.2.1 - - [20/Nov/2026:09:00:00 +0000]` + tail + ` "http://r/" "ua"`, Combined, all, at, event.Success,
			"method=GET status=200 status_class=2xx bytes=12 path=/a/b client=192.0.2.1 referer=http://r/ user_agent=ua"},
		{"syslog", `<190>Nov 20 09:00:00 web1 nginx: 192.0.2.1 - - [20/Nov/2026:09:00:00 +0000]` + tail, Common,
			ParserOptions{Extra: true}, at, event.Success, "method=GET status=200 status_class=2xx bytes=12 client=192.0.2.1"},
		{"virtual host", `shop.example.org:443 192.0.2.1 - bob [20/Nov/2026:09:00:00 +0000]` + tail, Common,
			ParserOptions{Extra: true}, at, event.Success, "method=GET status=200 status_class=2xx bytes=12 client=192.0.2.1"},
		{"virtual host of a named client", `shop.example.org:443 pc7.example.org - - [20/Nov/2026:09:00:00 +0000]` + tail,
			Common, ParserOptions{Extra: true}, at, event.Success, "method=GET status=200 status_class=2xx bytes=12"},
		{"named client", `pc7.example.org - 192.0.2.9 [20/Nov/2026:09:00:00 +0000]` + tail, Common,
			ParserOptions{Extra: true}, at,
			event.Success, "method=GET status=200 status_class=2xx bytes=12 client=pc7.example.org"},
		{"user like an address", `pc7.example.org - a 192.0.2.9 [20/Nov/2026:09:00:00 +0000]` + tail, Common,
			ParserOptions{Extra: true}, at, event.Success,
			"method=GET status=200 status_class=2xx bytes=12 client=pc7.example.org"},
		{"byte order mark", "\ufeff" + `192.0.2.1 - - [20/Nov/2026:09:00:00 +0000]` + tail, Common,
			ParserOptions{Extra: true}, at,
			event.Success, "method=GET status=200 status_class=2xx bytes=12 client=192.0.2.1"},
		{"leap second", `192.0.2.1 - - [31/Dec/2016:15:59:60 -0800]` + tail, Common, ParserOptions{},
			time.Date(2016, 12, 31, 23, 59, 59, 0, time.UTC), event.Success, "method=GET status=200 status_class=2xx bytes=12"},
		{"combined as common", `192.0.2.1 - - [20/Nov/2026:09:00:00 +0000]` + tail + ` "http://r/" "ua"`, Common, all, at,
			event.Success, "method=GET status=200 status_class=2xx bytes=12 path=/a/b client=192.0.2.1"},
		{"dashes", `- - - [20/Nov/2026:09:00:00 +0000] "-" 408 - "-" "-"`, Combined, all, at, event.Success,
			"method=other status=408 status_class=4xx"},
		{"IPv6", `2001:db8::1 - - [20/Nov/2026:09:00:00 +0000]` + tail, Common, ParserOptions{Extra: true}, at, event.Success,
			"method=GET status=200 status_class=2xx bytes=12 client=2001:db8::1"},
		{"east", `h - - [20/Nov/2026:12:00:00 +0300]` + tail, Common, ParserOptions{}, at, event.Success,
			"method=GET status=200 status_class=2xx bytes=12"},
		{"west, over midnight", `h - - [19/Nov/2026:23:30:00 -0930]` + tail, Common, ParserOptions{}, at, event.Success,
			"method=GET status=200 status_class=2xx bytes=12"},
		{"server error", `h - - [20/Nov/2026:09:00:00 +0000] "GET / HTTP/1.1" 500 -`, Common, ParserOptions{}, at,
			event.Failure,
			"method=GET status=500 status_class=5xx"},
		{"client error fails too", `h - - [20/Nov/2026:09:00:00 +0000] "GET / HTTP/1.1" 404 -`, Common,
			ParserOptions{FailFrom: 400}, at, event.Failure, "method=GET status=404 status_class=4xx"},
		{"escapes", `h - - [20/Nov/2026:09:00:00 +0000] "GET /\"\x41\\\xff\t\q HTTP/1.1" 200 - "\"" "a\\"`, Combined, all, at,
			event.Success, "method=GET status=200 status_class=2xx path=/\"A\\\uFFFD\t\\q client=h referer=\" user_agent=a\\"},
		{"user with spaces and brackets", `h - [a] b [20/Nov/2026:09:00:00 +0000]` + tail, Common, ParserOptions{}, at,
			event.Success, "method=GET status=200 status_class=2xx bytes=12"},
		{"absolute target", `h - - [20/Nov/2026:09:00:00 +0000] "GET http://x.y HTTP/1.1" 200 -`, Common,
			ParserOptions{Paths: true}, at, event.Success, "method=GET status=200 status_class=2xx path=/"},
		{"request without protocol", `h - - [20/Nov/2026:09:00:00 +0000] "GET /old path" 200 -`, Common,
			ParserOptions{Paths: true},
			at, event.Success, "method=GET status=200 status_class=2xx path=/old path"},
		{"long path", `h - - [20/Nov/2026:09:00:00 +0000] "GET /` + strings.Repeat("é", 300) + ` HTTP/1.1" 200 -`, Common,
			ParserOptions{Paths: true}, at, event.Success,
			"method=GET status=200 status_class=2xx path=/" + strings.Repeat("é", 127)},
	} {
		t.Run(c.name, func(t *testing.T) {
			var e event.Event
			require.NoError(t, parser(t, c.format, c.opt).Parse([]byte(c.line), 0, &e))
			require.Equal(t, c.time, e.Time)
			require.Equal(t, c.outcome, e.Outcome)
			var attrs []string
			for _, a := range e.Attributes {
				attrs = append(attrs, a.Name+"="+a.Value)
			}
			require.Equal(t, c.attributes, strings.Join(attrs, " "))
			requireValid(t, &e)
		})
	}
}

// requireValid holds the event against the rules of the server.
func requireValid(t testing.TB, e *event.Event) {
	t.Helper()
	var back event.Event
	require.NoError(t, back.UnmarshalJSON(e.AppendJSON(nil)))
	require.True(t, e.Time.Equal(back.Time))
}

func TestBrokenLines(t *testing.T) {
	for line, want := range map[string]string{
		"":                                   "the line is empty",
		"  \t":                               "the line is empty",
		"x":                                  "no host at the start of the line",
		" - - -":                             "no host at the start of the line",
		`h - - [20/Nov/2026:09:00:00 +0000]`: "no request",
		`h - - [20/Nov/2026:09:00:00 +0000] "GET / HTTP/1.1"`:             "ends after the request",
		`h - - [20/Nov/2026:09:00:00 +0000] "GET / HTTP/1.1" 200`:         "ends after the status",
		`h - - [20/Nov/2026:09:00:00 +0000] "GET / HTTP/1.1" 000 -`:       `status "000"`,
		`h - - [20/Nov/2026:09:00:00 +0000] "GET / HTTP/1.1" 1e2 -`:       `status "1e2"`,
		`h - - [20/Nov/2026:09:00:00 +0000] "GET / HTTP/1.1" 200 x`:       `size "x"`,
		`h - - [20/Nov/2026:09:00:00 +0000] "GET / HTTP/1.1" 200 - "-"`:   "no user agent",
		`h - - [20/Nov/2026:09:00:00 +0000] "GET / HTTP/1.1" 200 - "-" x`: "no user agent",
		`h - - [20/Nov/2026:09:00:60 +0000]` + tail:                       "no time",
		`h - - [20/Nov/2026:24:00:00 +0000]` + tail:                       "no time",
		`h - - [00/Nov/2026:09:00:00 +0000]` + tail:                       "no time",
		`h - - [31/Nov/2026:09:00:00 +0000]` + tail:                       "no time",
		`h - - [20/nov/2026:09:00:00 +0000]` + tail:                       "no time",
		`h - - [20/Nov/2026:09:00:00 00000]` + tail:                       "no time",
		`h - - [20/Nov/2026:09:00:00 +0060]` + tail:                       "no time",
		`h - - [20/Nov/2026:09:00:00]` + tail:                             "no time",
		`h - - [2/Nov/2026:09:00:00 +0000]` + tail:                        "no time",
		`h - - [20/Nov/0026:09:00:00 +0000]` + tail:                       "no time",
		`h "[20/Nov/2026:09:00:00 +0000` + strings.Repeat("x", 70_000):    "maximum is 65536",
		`h - - [20/Nov/2026:09:00:00 +0000] "` + strings.Repeat("[", 100): "no request",
	} {
		p := parser(t, Combined, ParserOptions{})
		var e event.Event
		err := p.Parse([]byte(line), 7, &e)
		var lineErr *LineError
		require.ErrorAs(t, err, &lineErr, line)
		require.Contains(t, lineErr.Reason, want, line)
		require.Equal(t, 1, lineErr.Line)
		require.Equal(t, int64(7), lineErr.Offset)
		require.ErrorAs(t, p.Parse(nil, 9, &e), &lineErr)
		require.Equal(t, 2, lineErr.Line)
	}
}

func TestNginxJSON(t *testing.T) {
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	for _, c := range []struct{ name, line, want string }{
		{"iso",
			`{"time_iso8601":"2026-11-20t12:00:00+03:00","request_method":"GET","request_uri":"/a?b","status":200,` +
				`"request_time":0.123,"body_bytes_sent":17}`, "0s 123ms success GET 200 17 /a"},
		{"all strings",
			`{"time_local":"20/Nov/2026:09:00:00 +0000","request":"POST /a HTTP/1.1","status":"503","request_time":"1.5",` +
				`"body_bytes_sent":"0","request_id":"abc"}`, "0s 1.5s failure POST 503 0 /a"},
		{"msec first", `{"time_local":"junk","msec":1795165200.125,"uri":"/u","status":404}`,
			"125ms - success other 404  /u"},
		{"msec as string", `{"msec":"1795165200.125","status":"404","body_bytes_sent":"-","request_time":"-","request":"-"}`,
			"125ms - success other 404  "},
		{"the log_format of the docs",
			`{"msec":"1795165200.125","request_method":"GET","request_uri":"/a?b","status":"200","request_time":"0.123",` +
				`"body_bytes_sent":"17","remote_addr":"::1","request_id":"abc"}`, "125ms 123ms success GET 200 17 /a"},
		{"the LogFormat of the docs for Apache",
			`{"msec":"1795165200.125","request_method":"GET","request_uri":"/a","status":"200","request_time":"12345e-6",` +
				`"body_bytes_sent":"17","remote_addr":"::1"}`, "125ms 12.345ms success GET 200 17 /a"},
		{"the json_format of the docs for Envoy",
			`{"msec":"1795165200.125","request_method":"GET","request_uri":"/a?b","status":200,"request_time":"12e-3",` +
				`"body_bytes_sent":17,"request_id":"abc"}`, "125ms 12ms success GET 200 17 /a"},
		{"escapes of nginx", `{"msec":1795165200,"request":"GET /\x22a HTTP/1.1","status":200}`,
			"0s - success GET 200  /\"a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var e event.Event
			require.NoError(t, parser(t, NginxJSON, ParserOptions{Paths: true}).Parse([]byte(c.line), 0, &e))
			took := "-"
			if e.HasDuration {
				took = e.Duration.String()
			}
			require.Equal(t, c.want, fmt.Sprintf("%v %v %v %s %s %s %s", e.Time.Sub(at), took, e.Outcome, e.Attr("method"),
				e.Attr("status"), e.Attr("bytes"), e.Attr("path")))
			require.Len(t, e.ID, 32)
			requireValid(t, &e)
		})
	}
	var e event.Event
	for line, want := range map[string]string{
		`x`:                        "not a JSON object",
		`[]`:                       "not a JSON object",
		`{}`:                       `no time in "msec", "time_iso8601" or "time_local"`,
		`{"msec":nan}`:             "not Unix seconds, ISO 8601 or like 20/Nov",
		`{"msec":1e300}`:           "not Unix seconds",
		`{"time_iso8601":"n:w"}`:   "not ISO 8601",
		`{"time_local":"n/w"}`:     "not like 20/Nov/2026",
		`{"msec":1}`:               `no status in "status"`,
		`{"msec":1,"status":"ok"}`: `status "ok"`,
		`{"msec":1,"status":{}}`:   `no status`,
		`{"msec":1,"status":200,"body_bytes_sent":-1}`: `size "-1"`,
		`{"msec":1,"status":200,"request_time":-1}`:    `duration "-1"`,
		`{"msec":1,"status":200,"request_time":NaN}`:   `duration "NaN"`,
		`{"msec":1,"status":200,"request_time":1e9}`:   `duration "1e9"`,
	} {
		require.ErrorContains(t, p2(t).Parse([]byte(line), 0, &e), want, line)
	}
}

// TestServerLogs reads lines as the servers write them: from their own documentation, with other times.
func TestServerLogs(t *testing.T) {
	const fields = "#Software: Microsoft Internet Information Services 10.0\n#Version: 1.0\n#Fields: date time s-ip " +
		"cs-method cs-uri-stem cs-uri-query c-ip cs(User-Agent) cs(Referer) sc-status sc-substatus sc-bytes time-taken\n"
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	for _, c := range []struct {
		format Format
		text   string
		want   string // time, duration, outcome, attributes
	}{
		{Caddy, `{"level":"info","ts":1795165200.5241024,"logger":"http.log.access","msg":"handled request","request":` +
			`{"remote_ip":"::1","client_ip":"192.0.2.1","method":"GET","host":"localhost","uri":"/a?b","headers":` +
			`{"User-Agent":["curl/7.82.0"]}},"bytes_read":0,"duration":0.000929675,"size":10900,"status":200}`,
			"09:00:00.524 929.675µs success GET 200 2xx 10900 /a 192.0.2.1 curl/7.82.0"},
		{Caddy, `{"ts":"2026-11-20T09:00:00Z","request":{"method":"GET","uri":"/"},"duration":"1.5ms","status":503}`,
			"09:00:00 1.5ms failure GET 503 5xx /"},
		{Traefik, `{"ClientHost":"10.0.0.1","DownstreamContentSize":123,"DownstreamStatus":502,"Duration":3812000,` +
			`"OriginStatus":502,"RequestMethod":"GET","RequestPath":"/x","ServiceName":"whoami@docker",` +
			`"StartUTC":"2026-11-20T08:59:59.998Z","level":"info","msg":"","time":"2026-11-20T10:00:01+01:00"}`,
			"09:00:01 3.812ms failure GET 502 5xx 123 /x 10.0.0.1"},
		{Combined, `10.0.0.1 - - [20/Nov/2026:09:00:01 +0000] "GET /x HTTP/1.1" 502 11 "-" "curl/8" 7 "whoami@docker" ` +
			`"http://10.0.0.2:80" 12ms`, "09:00:01 12ms failure GET 502 5xx 11 /x 10.0.0.1 curl/8"},
		{HAProxy, `Nov 20 10:00:00 localhost haproxy[14389]: 10.0.1.2:33317 [20/Nov/2026:10:00:00.655] http-in static/srv1 ` +
			`10/0/30/69/1109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /index.html?x HTTP/1.1"`,
			"09:00:01.764 1.109s success GET 200 2xx 2750 /index.html 10.0.1.2"},
		{HAProxy, `[::1]:33318 [20/Nov/2026:10:00:00.655] http-in http-in/<NOSRV> -1/-1/-1/-1/2 -1 0 - - CR-- 1/1/1/1/0 ` +
			`0/0 "<BADREQ>"`, "09:00:00.657 2ms success other 499 4xx 0 [::1]"},
		{HAProxy, `10.0.1.2:1 [20/Nov/2026:10:00:00.655] a b/c 10/0/30/69/+109 504 +2750 - - ---- 1/1/1/1/0 0/0 ` +
			`"GET / HTTP/1.1"`,
			"09:00:00.655 - failure GET 504 5xx 2750 / 10.0.1.2"},
		{ALB, `https 2026-11-20T09:00:00.186641Z app/my-lb/50dc 192.0.2.39:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 ` +
			`"GET https://www.example.com:443/a?b HTTP/1.1" "curl/7.46.0" ECDHE-RSA TLSv1.2 arn:aws:tg/73e2 ` +
			`"Root=1-58337281" "www.example.com" "arn:aws:acm" 1 2026-11-20T09:00:00.083Z "forward" "-" "-" "10.0.0.1:80" "200"`,
			"09:00:00.186641 171ms success GET 200 2xx 57 /a 192.0.2.39 curl/7.46.0 Root=1-58337281"},
		{ALB, `http 2026-11-20T09:00:00.186641Z app/my-lb/50dc 192.0.2.39:2817 - -1 -1 -1 503 - 0 57 ` +
			`"GET http://www.example.com:80/ HTTP/1.1" "-" - - arn:aws:tg/73e2 "-"`,
			"09:00:00.186641 - failure GET 503 5xx 57 / 192.0.2.39"},
		{IIS, fields + "2026-11-20 09:00:00 10.0.0.5 GET /default.aspx a=b 10.0.0.9 Mozilla/5.0+(X) - 500 0 17 156",
			"09:00:00 156ms failure GET 500 5xx 17 /default.aspx 10.0.0.9 Mozilla/5.0 (X)"},
		{IIS, "#Fields: date time sc-status\r\n2026-11-20 09:00:00 404\r\n", "09:00:00 - success other 404 4xx"},
	} {
		p := parser(t, c.format, ParserOptions{Paths: true, Extra: true, Zone: berlin})
		events, bad := read(t, strings.NewReader(c.text), p)
		require.Empty(t, bad, c.text)
		require.Len(t, events, 1, c.text)
		e := events[0]
		requireValid(t, &e)
		took := "-"
		if e.HasDuration {
			took = e.Duration.String()
		}
		got := []string{e.Time.Format("15:04:05.999999"), took, fmt.Sprint(e.Outcome)}
		for _, a := range e.Attributes {
			got = append(got, a.Value)
		}
		require.Equal(t, c.want, strings.Join(got, " "), c.text)
		found, _, err := detect("x", strings.NewReader(c.text), false)
		require.NoError(t, err)
		require.Equal(t, c.format, found, c.text)
	}

	const alb = `h 2026-11-20T09:00:00Z lb c:1 t:1 `
	for _, c := range []struct {
		format     Format
		text, want string
	}{
		{Caddy, `{"status":200}`, `no time in "ts"`},
		{Caddy, `{"ts":1,"status":200,"duration":"long"}`, `the duration "long" in "duration" is not a number of seconds`},
		{Caddy, `{"ts":1,"status":200,"duration":"-1s"}`, `the duration "-1s"`},
		{Traefik, `{"time":1,"DownstreamStatus":200,"Duration":1e300}`, "not a number of nanoseconds"},
		{HAProxy, `x`, "no time such as"},
		{HAProxy, `a:1 [20/Foo/2026:10:00:00.655] f b/s 1/1/1/1/1 200 1`, `the time "20/Foo/2026:10:00:00.655"`},
		{HAProxy, `a:1 [20/Nov/2026:10:00:00.655] f b/s 1/1`, "ends before the size"},
		{HAProxy, `a:1 [20/Nov/2026:10:00:00.655] f b/s 1/1 200 1`, "are not five"},
		{HAProxy, `a:1 [20/Nov/2026:10:00:00.655] f b/s 1/1/1/1/ 200 1`, `the total time ""`},
		{HAProxy, `a:1 [20/Nov/2026:10:00:00.655] f b/s 1/1/1/1/-1 200 1`, `the total time "-1"`},
		{HAProxy, `a:1 [20/Nov/2026:10:00:00.655] f b/s 1/1/1/1/1 -2 1`, `the status "-2"`},
		{HAProxy, `a:1 [20/Nov/2026:10:00:00.655] f b/s 1/1/1/1/1 200 x`, `the size "x"`},
		{ALB, `h 2026 x`, "not 12 fields"},
		{ALB, alb + `0.1 0.1 0.1 200 200 1 1`, "not 12 fields"},
		{ALB, alb + `0.1 0.1 0.1 200 200 1 1 "GET`, "no closing quote"},
		{ALB, alb + `0.1 -2 0.1 200 200 1 1 "GET / HTTP/1.1"`, `the processing time "-2"`},
		{ALB, alb + `0.1 0.1 0.1 - 200 1 1 "GET / HTTP/1.1"`, `the status "-"`},
		{IIS, `2026-11-20 09:00:00 404`, "no line with #Fields"},
		{IIS, "#Fields: date time sc-status\n2026-11-20 09:00:00", "2 fields, but #Fields has 3 names"},
		{IIS, "#Fields: date time\n2026-11-20 09:00:00", "no sc-status (add it"},
		{IIS, "#Fields: date time sc-status\n2026-11-20 25:00:00 200", `the time "2026-11-20 25:00:00"`},
		{IIS, "#Fields: date time sc-status time-taken\n2026-11-20 09:00:00 200 x", `the time-taken "x"`},
	} {
		events, bad := read(t, strings.NewReader(c.text), parser(t, c.format, ParserOptions{}))
		require.Empty(t, events, c.text)
		require.Len(t, bad, 1, c.text)
		require.Contains(t, bad[0].Reason, c.want, c.text)
	}
}

func p2(t testing.TB) *Parser { return parser(t, NginxJSON, ParserOptions{}) }

func TestEvents(t *testing.T) {
	const one = `{"service":"s","type":"t","id":"mine"}`
	const two = `{"service":"s","type":"t","attributes":{"a":"}]\"{"}}`
	for format, text := range map[Format]string{
		NDJSON: one + "\n\n" + two + "\r\n{\"service\":1}\n" + two,
		JSON:   "[\n" + one + ",\n" + two + ",\n{\"service\":1},\n" + two + "]",
	} {
		for _, r := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
			events, bad := read(t, r, parser(t, format, ParserOptions{}))
			require.Len(t, events, 3, format)
			require.Equal(t, "mine", events[0].ID)
			require.Len(t, events[1].ID, 32)
			require.NotEqual(t, events[1].ID, events[2].ID)
			require.Len(t, bad, 1)
			require.Equal(t, 4, bad[0].Line)
			require.Contains(t, bad[0].Reason, "wrong_type")
		}
	}
	const bom = "\xef\xbb\xbf"
	for format, text := range map[Format]string{
		NDJSON: bom + one + "\n" + bom + two + "\n",
		JSON:   bom + "[" + one + "]\n" + bom + "[" + two + "]",
	} {
		events, bad := read(t, iotest.OneByteReader(strings.NewReader(text)), parser(t, format, ParserOptions{}))
		require.Empty(t, bad, "byte order marks of joined files")
		require.Len(t, events, 2)
		plain, _ := read(t, strings.NewReader(two), parser(t, format, ParserOptions{}))
		require.Equal(t, plain[0].ID, events[1].ID, "the mark is no part of the id")
	}
	events, bad := read(t, strings.NewReader(one+two+` 7 "x" ]} `+"[["+one+"]] {\"a"), parser(t, JSON, ParserOptions{}))
	require.Len(t, events, 3)
	require.Len(t, bad, 4)
}

func TestIDs(t *testing.T) {
	log := sampleLog(t)
	ids := func(data []byte, opt ParserOptions) (ids []string) {
		events, _ := read(t, bytes.NewReader(data), parser(t, Combined, opt))
		for _, e := range events {
			ids = append(ids, e.ID)
		}
		return ids
	}
	first := ids(log, ParserOptions{})
	require.Equal(t, first, ids(log, ParserOptions{Paths: true, Service: "other"}), "the id is the record's alone")
	require.Equal(t, first, ids(bytes.ReplaceAll(log, []byte("\n"), []byte("\r\n")), ParserOptions{}))
	half := bytes.Index(log, []byte("192.0.2.17"))
	require.Equal(t, first[:12], ids(log[:half], ParserOptions{}), "the file grew")
	require.Equal(t, first[12:], ids(log[half:], ParserOptions{}), "the head was cut off")
	require.NotEqual(t, first[0], ids(log, ParserOptions{Source: "web-2"})[0])

	same := ids(bytes.Repeat(log[:bytes.IndexByte(log, '\n')+1], 100), ParserOptions{})
	distinct := map[string]bool{}
	for _, id := range same {
		distinct[id] = true
	}
	require.Len(t, distinct, 100)
	require.Equal(t, first[0], same[0])
}

func TestIDsAreBounded(t *testing.T) {
	s := newIDs("", 10)
	seen := map[string]bool{}
	for i := range 1000 {
		seen[s.next([]byte("always"))] = true
		seen[s.next(fmt.Append(nil, i))] = true
		require.LessOrEqual(t, len(s.recent)+len(s.older), 20)
	}
	require.Len(t, seen, 2000, "what keeps coming is not forgotten")
}

func TestReaderLongLines(t *testing.T) {
	good := "h - - [20/Nov/2026:09:00:00 +0000]" + tail + "\n"
	long := strings.Repeat("x", 1_000_000) + "\n"
	in := NewReader(strings.NewReader(good+long+good), parser(t, Common, ParserOptions{}))
	var e event.Event
	require.NoError(t, in.Next(&e))
	require.Equal(t, int64(len(good)), in.Offset())
	var lineErr *LineError
	require.ErrorAs(t, in.Next(&e), &lineErr)
	require.Equal(t, LineError{
		Line: 2, Offset: int64(len(good)), Reason: "the line has at least 1000001 bytes, but the maximum is 65536"}, *lineErr)
	require.Less(t, cap(in.buf), 200_000)
	require.NoError(t, in.Next(&e))
	require.Equal(t, int64(2*len(good)+len(long)), in.Offset())
	require.ErrorIs(t, in.Next(&e), io.EOF)
	require.ErrorIs(t, in.Flush(&e), io.EOF)
}

// growing is a file that is being written.
type growing struct{ bytes.Buffer }

func TestReaderFollows(t *testing.T) {
	good := "h - - [20/Nov/2026:09:00:00 +0000]" + tail
	var file growing
	in := NewReader(&file, parser(t, Common, ParserOptions{}))
	var e event.Event
	require.ErrorIs(t, in.Next(&e), io.EOF)
	file.WriteString(good[:20])
	require.ErrorIs(t, in.Next(&e), io.EOF)
	require.Zero(t, in.Offset())
	file.WriteString(good[20:])
	require.ErrorIs(t, in.Next(&e), io.EOF)
	file.WriteString("\n" + good)
	require.NoError(t, in.Next(&e))
	require.ErrorIs(t, in.Next(&e), io.EOF)
	require.NoError(t, in.Flush(&e))
	require.ErrorIs(t, in.Flush(&e), io.EOF)

	in = NewReader(iotest.ErrReader(errors.New("disk gone")), parser(t, Common, ParserOptions{}))
	require.ErrorContains(t, in.Next(&e), "read log: disk gone")
}

func FuzzParse(f *testing.F) {
	for line := range bytes.SplitSeq(sampleLog(f), []byte("\n")) {
		f.Add(line)
	}
	f.Add([]byte(
		`{"msec":1795165200.125,"request":"GET /\x22a HTTP/1.1","status":200,"request_time":"0.1","remote_addr":"::1"}`))
	f.Add([]byte(`[{"service":"s","type":"t"},{"a":"\"]"}] 7`))
	f.Add([]byte(" "))
	f.Add([]byte("#Fields: date time sc-status time-taken\n2026-11-20 09:00:00 200 1"))
	f.Add([]byte(`a:1 [20/Nov/2026:10:00:00.655] f b/s 1/1/1/1/1 200 1 - - ---- 1/1/1/1/0 0/0 "GET / HTTP/1.1"`))
	f.Add([]byte(`h 2026-11-20T09:00:00Z lb c:1 t:1 0.1 -1 0.1 200 200 1 1 "GET / HTTP/1.1" "curl" a b c "d"`))
	f.Fuzz(func(t *testing.T, line []byte) {
		for _, format := range Formats {
			p := parser(t, format, ParserOptions{Paths: true, Extra: true})
			var e event.Event
			err := p.Parse(line, 0, &e)
			if err == nil {
				requireValid(t, &e)
			} else if !errors.Is(err, errNoEvent) {
				var lineErr *LineError
				require.ErrorAs(t, err, &lineErr)
			}
			in := NewReader(iotest.HalfReader(bytes.NewReader(line)), parser(t, format, ParserOptions{}))
			for {
				if err := in.Next(&e); errors.Is(err, io.EOF) {
					break
				}
			}
			_ = in.Flush(&e)
			require.Equal(t, int64(len(line)), in.Offset())
		}
	})
}

func BenchmarkCombined(b *testing.B) {
	line := []byte(
		`192.0.2.10 - - [20/Nov/2026:09:00:01 +0000] "GET /presentations/2026/images/dashboard.png HTTP/1.1" 200 171717 ` +
			`"https://shop.example/presentations/" "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"`)
	p := parser(b, Combined, ParserOptions{})
	var e event.Event
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Parse(line, 0, &e); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNginxJSON(b *testing.B) {
	line := []byte(
		`{"time_iso8601":"2026-11-20T12:00:00+03:00","remote_addr":"192.0.2.10","request_method":"GET",` +
			`"request_uri":"/products?page=2","status":"200","request_time":"0.123","body_bytes_sent":"5120",` +
			`"http_referer":"","http_user_agent":"Mozilla/5.0"}`)
	p := parser(b, NginxJSON, ParserOptions{})
	var e event.Event
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Parse(line, 0, &e); err != nil {
			b.Fatal(err)
		}
	}
}

// Events that name no service or type take those of the options; the others keep
// their own.
func TestEventDefaults(t *testing.T) {
	p, err := NewParser(NDJSON, ParserOptions{Service: "shop", Type: "sale"})
	require.NoError(t, err)
	for line, want := range map[string]string{
		`{}`:                                  "shop sale",
		` { "id":"a" }`:                       "shop sale",
		`{"service":"own"}`:                   "own sale",
		`{"type":"own"}`:                      "shop own",
		`{"service":"own","type":"t","x":[]}`: `unknown_field`,
		`[]`:                                  `not_an_object`,
		`{"service":null}`:                    `missing_field`,
		`{"id":"a",}`:                         `invalid_json`,
		`{"id":NaN}`:                          `invalid_json`,
		`{"attributes":{"service":"x"}}`:      `reserved_label`,
		`{"\u0073ervice":"own","type":"own"}`: "own own",
	} {
		var e event.Event
		if err := p.Parse([]byte(line), 0, &e); err != nil {
			require.ErrorContains(t, err, want, line)
			continue
		}
		require.Equal(t, want, e.Service+" "+e.Type, line)
	}
}
