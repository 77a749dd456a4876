package ingest

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo/yamldoc"
)

const newSecret = "new-secret-01234567890"

// rotation runs requests against tokens, at a time that the test sets.
type rotation struct {
	auth *Auth
	set  *metrics.Set
	log  bytes.Buffer
	web  *gin.Engine
	now  time.Time
}

func newRotation(t *testing.T, yaml string) *rotation {
	t.Helper()
	gin.SetMode(gin.ReleaseMode)
	r := &rotation{set: metrics.NewSet(), web: gin.New(), now: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)}
	r.auth = NewAuth(AuthOptions{Metrics: NewHTTPMetrics(r.set), Logger: slog.New(slog.NewTextHandler(&r.log, nil))})
	r.auth.now = func() time.Time { return r.now }
	r.use(t, yaml)
	r.web.GET("/read", r.auth.Require(PermitRead), func(c *gin.Context) { c.String(200, r.auth.Caller(c.Request)) })
	return r
}

func (r *rotation) use(t *testing.T, yaml string) {
	t.Helper()
	tokens, err := ParseTokens("tokens.yaml", []byte(yaml), nil)
	require.NoError(t, err)
	r.auth.SetTokens(tokens)
}

func (r *rotation) get(secret string) *httptest.ResponseRecorder {
	req, w := httptest.NewRequest(http.MethodGet, "/read", nil), httptest.NewRecorder()
	req.Header.Set("Authorization", "Bearer "+secret)
	r.web.ServeHTTP(w, req)
	return w
}

func (r *rotation) metrics() string {
	var b bytes.Buffer
	r.set.WritePrometheus(&b)
	return b.String()
}

func TestTokensRotateWithoutAGap(t *testing.T) {
	oldID, newID := sum(readSecret)[:8], sum(newSecret)[:8]
	r := newRotation(t, "- {name: team, sha256: "+sum(readSecret)+", allow: [read]}")
	require.Equal(t, 200, r.get(readSecret).Code)
	require.Equal(t, 401, r.get(newSecret).Code)

	// Both are valid at once, and one sees which of them is used.
	r.use(t, `
- name: team
  allow: [read]
  keys:
    - {sha256: `+sum(readSecret)+`, expires: 2027-01-31T00:00:00Z}
    - {sha256: `+sum(newSecret)+`}`)
	for _, secret := range []string{readSecret, newSecret, newSecret} {
		w := r.get(secret)
		require.Equal(t, 200, w.Code)
		require.Equal(t, "team", w.Body.String())
	}
	text := r.metrics()
	require.Contains(t, text, `sloengine_token_requests_total{token="team",key="`+newID+`"} 2`)
	require.Contains(t, text, `sloengine_token_expiry_seconds{token="team",key="`+oldID+`"} 1801353600`)
	require.NotContains(t, text, `sloengine_token_expiry_seconds{token="team",key="`+newID)
	require.Contains(t, text, `sloengine_token_last_used_seconds{token="team",key="`+newID+`"} 1798761600`)
	require.Len(t, r.auth.Keys(), 2)

	// A reload that only removes the old one continues to count the new one.
	r.use(t, "- {name: team, sha256: "+sum(newSecret)+", allow: [read]}")
	require.Equal(t, 401, r.get(readSecret).Code)
	require.Equal(t, 200, r.get(newSecret).Code)
	text = r.metrics()
	require.Contains(t, text, `sloengine_token_requests_total{token="team",key="`+newID+`"} 3`)
	require.NotContains(t, text, oldID)
}

func TestExpiredKeys(t *testing.T) {
	id := sum(readSecret)[:8]
	r := newRotation(t, "- {name: team, sha256: "+sum(readSecret)+", expires: 2027-01-31T00:00:00+00:00, allow: [read]}")
	said := map[string]time.Time{}
	r.auth.logExpiry(r.now, said)
	require.Empty(t, r.log.String(), "nothing expires soon")

	r.now = time.Date(2027, 1, 30, 23, 59, 59, 0, time.UTC)
	r.auth.logExpiry(r.now, said)
	require.Empty(t, r.log.String(), "it is unused")
	require.Equal(t, 200, r.get(readSecret).Code)
	k := r.auth.Keys()[0]
	require.True(t, k.Soon(r.now) && k.Used(r.now) && !k.Expired(r.now))
	r.auth.logExpiry(r.now, said)
	r.auth.logExpiry(r.now.Add(time.Hour-time.Minute), said) // it has expired
	r.auth.logExpiry(r.now.Add(time.Hour), said)
	require.Equal(
		t, 1, strings.Count(r.log.String(), `msg="a key that is in use expires soon" token=team key=`+id), r.log.String())
	require.Equal(t, 1, strings.Count(r.log.String(), `msg="a key that is in use has expired"`), r.log.String())

	r.now = r.now.Add(time.Second)
	w := r.get(readSecret)
	require.Equal(t, 401, w.Code)
	require.Contains(t, w.Header().Get("WWW-Authenticate"), `error="invalid_token"`)
	var p Problem
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &p))
	require.Equal(t, `the key `+id+` of the token "team" expired at 2027-01-31T00:00:00Z (send the new one)`, p.Detail)
	require.NotContains(t, w.Body.String(), readSecret)
	req := httptest.NewRequest(http.MethodGet, "/read", nil)
	req.Header.Set("Authorization", "Bearer "+readSecret)
	require.False(t, r.auth.Allows(req, PermitRead))
	require.Empty(t, r.auth.Caller(req))
	text := r.metrics()
	require.Contains(t, text, `sloengine_ingest_auth_failures_total{reason="expired"} 1`)
	require.Contains(t, text, `sloengine_token_requests_total{token="team",key="`+id+`"} 2`,
		"a refused request shows who has to be told")

	// Later is allowed again, and its gauge follows.
	r.use(t, "- {name: team, sha256: "+sum(readSecret)+", expires: 2027-02-28T00:00:00Z, allow: [read]}")
	require.Equal(t, 200, r.get(readSecret).Code)
	require.Contains(t, r.metrics(), `sloengine_token_expiry_seconds{token="team",key="`+id+`"} 1803772800`)
}

func TestKeysMistakes(t *testing.T) {
	good, other := sum("0123456789abcdef0123"), sum("0123456789abcdef4567")
	for _, tt := range []struct{ name, yaml, want string }{
		{"both", "- {name: a, sha256: " + good + ", keys: [{sha256: " + other + "}], allow: [read]}",
			"give either keys or sha256, not both (move it into keys)"},
		{"expires outside", "- {name: a, expires: 2027-01-31T00:00:00Z, keys: [{sha256: " + other + "}], allow: [read]}",
			"give either keys or expires, not both"},
		{"none", "- {name: a, keys: [], allow: [read]}", "1:19: keys must list 1 to 4 keys"},
		{"empty", "- {name: a, keys: [{}], allow: [read]}", "1:20: sha256 or token_file is missing"},
		{"same", "- {name: a, keys: [{sha256: " + good + "}, {sha256: " + good + "}], allow: [read]}",
			"duplicate token, first defined on line 1"},
		{"no zone", "- {name: a, sha256: " + good + ", expires: 2027-01-31, allow: [read]}",
			"expires: invalid RFC 3339 time"},
		{"unknown", "- {name: a, keys: [{sha: x}], allow: [read]}", `key: unknown key "sha"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseTokens("tokens.yaml", []byte(tt.yaml), nil)
			var located *yamldoc.Error
			require.ErrorAs(t, err, &located)
			require.ErrorContains(t, err, tt.want)
		})
	}
}
