package promapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/spec"
)

// timeSeries are what a fake server says that counters added, by metric.
type timeSeries map[string][]Sample

func s(value float64, labels ...string) Sample {
	x := Sample{Labels: map[string]string{}, Value: value}
	for i := 0; i < len(labels); i += 2 {
		x.Labels[labels[i]] = labels[i+1]
	}
	return x
}

var increased = regexp.MustCompile(`increase\(([a-z_]+)\{(.*)\}\[(\w+)\]`)

// serve answers queries of a client, unless refuse does.
func serve(t *testing.T, has timeSeries, refuse func(w http.ResponseWriter, r *http.Request,
	period string) bool) *Client {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := increased.FindStringSubmatch(r.URL.Query().Get("query"))
		if refuse != nil && refuse(w, r, query[3]) {
			return
		}
		vector := []any{}
		for _, x := range has[query[1]] {
			vector = append(vector, map[string]any{"metric": x.Labels,
				"value": []any{1, strconv.FormatFloat(x.Value, 'g', -1, 64)}})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"status": "success",
			"data": map[string]any{"resultType": "vector", "result": vector}})
	}))
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL + "/prometheus")
	require.NoError(t, err)
	return &Client{URL: u}
}

// propose returns a proposal, which a spec must be without any finding, and its SLOs.
func propose(t *testing.T, c *Client, o Options) (text string, slos map[slo.ID]*slo.SLO) {
	t.Helper()
	out, err := Propose(t.Context(), c, o)
	require.NoError(t, err)
	got, problems := spec.Load([]spec.File{{Name: "specs.yaml", Data: out}})
	require.Empty(t, problems, "%s", out)
	slos = map[slo.ID]*slo.SLO{}
	for _, x := range got.SLOs {
		require.Equal(t, slo.PromCounters, x.Indicator.PromForm(), "the engine can count it")
		slos[x.ID] = x
	}
	return string(out), slos
}

func TestEveryFamilyIsProposed(t *testing.T) {
	for i := range families {
		f := &families[i]
		t.Run(f.name, func(t *testing.T) {
			bad := map[string]string{"5..": "503", "5": "5"}[f.bad]
			if bad == "" {
				bad = "Unavailable"
			}
			code := f.codes[len(f.codes)-1]
			c := serve(t, timeSeries{
				f.total: {s(99_950, f.by, "Web", code, "2"), s(40, f.by, "Web", code, bad), s(10, f.by, "Web", code, "50")},
				f.histogram + "_bucket": {s(9400, f.by, "Web", "le", "0.1"), s(9600, f.by, "Web", "le", "0.25"),
					s(9900, f.by, "Web", "le", "1"), s(10_000, f.by, "Web", "le", "+Inf")},
			}, nil)
			text, slos := propose(t, c, Options{})
			require.Len(t, slos, 2)
			a, l := slos["web/availability"], slos["web/latency"]
			require.Equal(t, "99.9%", a.Objective.String(), "0.04%% of the requests failed")
			require.Contains(t, text, "99.9 # 0.04% of 100000 requests failed in 7d\n")
			require.Equal(t, selector(f.total, f.only, equal(f.by, "Web")), a.Indicator.PromTotal)
			require.Equal(t, selector(f.total, f.only, equal(f.by, "Web"), code+`=~"`+f.bad+`"`), a.Indicator.PromBad)
			require.Equal(t, "95%", l.Objective.String())
			require.Equal(t, selector(f.histogram+"_bucket", f.only, f.timed, equal(f.by, "Web"), `le="0.25"`),
				l.Indicator.PromGood)
			require.Equal(t, selector(f.histogram+"_count", f.only, f.timed, equal(f.by, "Web")), l.Indicator.PromTotal)
			require.Contains(t, text, "95 # 96% took at most 0.25 "+f.unit+" in 7d\n")
		})
	}
}

func TestServices(t *testing.T) {
	const hostile = "it's \"\n# {x}: $a\x1b[2J\u202e\\"
	has := timeSeries{
		"http_requests_total": {
			s(10, "job", "shop", "code", "200"),
			s(5, "job", "shop", "status", "500"), // code comes first
			s(7, "job", "batch"),
			s(90, "job", hostile, "status", "200"), s(10, "job", hostile, "status", "5xx"),
			s(3, "job", "SHOP", "code", "200"),
			s(0, "job", "idle", "code", "200"),
			s(2, "code", "200"),
		},
		"grpc_server_handled_total": {s(100, "job", "shop", "grpc_code", "OK"), s(1, "job", "shop", "grpc_code", "NotFound")},
		"grpc_server_handling_seconds_bucket": {
			s(50, "job", "shop", "le", "1"), s(50, "job", "shop", "le", "1.0"), s(100, "job", "shop", "le", "5"),
			s(101, "job", "shop", "le", "+Inf")},
		"http_request_duration_seconds_bucket": {s(50, "job", "idle", "le", "1"), s(100, "job", "idle", "le", "+Inf")},
	}
	text, slos := propose(t, serve(t, has, nil), Options{})
	ids := map[slo.ID]string{}
	for id, x := range slos {
		ids[id] = strings.TrimSuffix(x.Objective.String(), "%")
	}
	require.Equal(t, map[slo.ID]string{
		"shop/http-availability": "99.99", "shop/grpc-availability": "99.99", "shop/grpc-latency": "95",
		"it-s-x-a-2j/availability": "90", "shop-2/availability": "99.99", "idle/availability": "99.99",
		"without-job/availability": "99.99"}, ids)
	require.Equal(t, `http_requests_total{job=`+strconv.Quote(hostile)+`}`,
		slos["it-s-x-a-2j/availability"].Indicator.PromTotal)
	require.Equal(t, `grpc_server_handling_seconds_bucket{job="shop",le=~"1|1\\.0"}`,
		slos["shop/grpc-latency"].Indicator.PromGood)
	require.Contains(t, text,
		`#   http_requests_total{job="batch"}: no series of it has a label code, status or status_code`+"\n")
	require.NotContains(t, text, "\x1b")

	text, slos = propose(t, serve(t, has, nil), Options{Service: "idle"})
	require.Len(t, slos, 1)
	require.NotContains(t, text, "batch")
	_, err := Propose(t.Context(), serve(t, has, nil), Options{Service: "batch"})
	require.ErrorContains(t, err, `http_requests_total{job="batch"}: no series of it has a label code`)
	_, err = Propose(t.Context(), serve(t, has, nil), Options{Service: "other"})
	require.ErrorContains(t, err, "names a service other")
}

func TestServicesAreBounded(t *testing.T) {
	var has []Sample
	for i := range 300 {
		has = append(has, s(float64(1000-i), "job", fmt.Sprint("job", i), "code", "200"))
	}
	has = append(has, s(5000, "job", strings.Repeat("x", 1000), "code", "200"))
	text, slos := propose(t, serve(t, timeSeries{"http_requests_total": has}, nil), Options{})
	require.Len(t, slos, maxServices)
	require.Contains(t, slos, slo.ID("job48/availability"))
	require.Contains(t, text, "#   job=\"job49\"\n")
	require.Contains(t, text, "#   job=\"job248\"\n#   and 51 more\nversion")
}

func TestSettings(t *testing.T) {
	has := timeSeries{"http_requests_total": {s(1, "job", "a", "code", "200")}}
	c := serve(t, has, func(w http.ResponseWriter, r *http.Request, _ string) bool {
		_, _, basic := r.BasicAuth()
		if ok := basic || r.Header.Get("Authorization") == "Bearer t0ken"; !ok {
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		return false
	})
	at := c.URL.String()
	_, err := Propose(t.Context(), c, Options{})
	require.ErrorContains(t, err, "401 Unauthorized")
	c.Token = "t0ken"
	text, _ := propose(t, c, Options{TokenFile: "prometheus.token"})
	require.Contains(t, text, `# sources:
#   - name: metrics
#     prometheus:
#       url: "`+at+`"
#       history: 30d
#       bearer_token_file: "prometheus.token"
version`)
	require.NotContains(t, text, "t0ken")
	c.URL.User, c.Token = url.UserPassword("me", "s3cret"), ""
	text, _ = propose(t, c, Options{})
	require.Contains(t, text, `#       url: "`+at+`"`)
	require.Contains(t, text, `basic_auth: {username: "me", password_file: prometheus.password}`)
	require.NotContains(t, text, "s3cret")
}

// A server that refuses to read a week is asked for less.
func TestShorterPeriods(t *testing.T) {
	has := timeSeries{"http_requests_total": {s(1, "job", "a", "code", "200")}}
	text, _ := propose(t, serve(t, has, func(w http.ResponseWriter, _ *http.Request, period string) bool {
		if period == "1h" {
			return false
		}
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"status":"error","error":"query processing would load too many samples into memory"}`)
		return true
	}), Options{})
	require.Contains(t, text, "requests failed in 1h\n")
}

func TestFailures(t *testing.T) {
	_, err := Propose(t.Context(), serve(t, nil, nil), Options{})
	require.ErrorContains(t, err, "has none of http_requests_total, http_server_requests_seconds_count,")
	require.ErrorContains(t, err, "apiserver_request_total with two samples in 7d")

	elsewhere := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	defer other.Close()
	for want, answer := range map[string]func(w http.ResponseWriter, r *http.Request){
		"302 Found: redirected to": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusFound)
		},
		"422 Unprocessable Entity: no": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, `{"status":"error","error":"no"}`)
		},
		`unexpected result of type "matrix"`: func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"status":"success","data":{"resultType":"matrix","result":[]}}`)
		},
		`unexpected value "x"`: func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"x"]}]}}`)
		},
		"larger than 16 MiB": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, strings.Repeat(" ", maxAnswer+1))
		},
	} {
		c := serve(t, nil, func(w http.ResponseWriter, r *http.Request, _ string) bool { answer(w, r); return true })
		c.URL.User = url.UserPassword("me", "s3cret")
		_, err := Propose(t.Context(), c, Options{})
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "s3cret")
	}
	require.Zero(t, elsewhere, "redirects are not followed")
}

// Whatever a label holds, the proposal is a spec that selects it.
func FuzzLabels(f *testing.F) {
	for _, text := range []string{"web", "it's", "a\nb: c", "\"}", "\u2028", "--- ", "-", "\xff", "\ufeff", "日本"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "?")
		_, slos := propose(t, serve(t, timeSeries{"http_requests_total": {s(1, "job", text, "code", "200")}}, nil), Options{})
		require.Len(t, slos, 1)
		for _, x := range slos {
			require.Equal(t, selector("http_requests_total", equal("job", text)), x.Indicator.PromTotal)
		}
	})
}
