package ingest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo/yamldoc"
)

const (
	sendSecret    = "send-secret-0123456789"
	readSecret    = "read-secret-0123456789"
	operateSecret = "operate-secret-0123456789"
)

func sum(secret string) string {
	s := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(s[:])
}

func testTokens(t *testing.T) *Tokens {
	t.Helper()
	tokens, err := ParseTokens("tokens.yaml", []byte(`
- name: shop
  sha256: `+sum(sendSecret)+`
  services: [shop, "1234"]
  allow: [send]
- name: reader
  token_file: reader.token
  allow: [read]
- {name: admin, sha256: `+sum(operateSecret)+`, services: ["*"], allow: [send, backfill, read, operate]}
`), func(name string) ([]byte, error) {
		require.Equal(t, "reader.token", name)
		return []byte(readSecret + "\n"), nil
	})
	require.NoError(t, err)
	return tokens
}

func TestTokensAreFoundByTheirSecretOnly(t *testing.T) {
	tokens := testTokens(t)
	require.Equal(t, 3, tokens.Len())
	require.Equal(t, "shop", tokens.find(sendSecret).Name)
	require.Equal(t, "reader", tokens.find(readSecret).Name)
	for _, wrong := range []string{"", "shop", sum(sendSecret), sendSecret + " ", strings.ToUpper(sendSecret)} {
		require.Nil(t, tokens.find(wrong), wrong)
	}
	// A short token is not accepted, though its hash does not show how short it is.
	short, err := ParseTokens("tokens.yaml",
		[]byte("- {name: a, sha256: "+sum("0123456789abcde")+", allow: [read]}\n- {name: b, sha256: "+sum("0123456789abcdef")+
			", allow: [read]}"), nil)
	require.NoError(t, err)
	require.Nil(t, short.find("0123456789abcde"))
	require.Equal(t, "b", short.find("0123456789abcdef").Name)

	shop := tokens.find(sendSecret)
	require.True(t, shop.May(PermitSend))
	require.False(t, shop.May(PermitBackfill))
	require.True(t, shop.serviceCheck()([]byte("1234")))
	require.False(t, shop.serviceCheck()([]byte("payments")))
	require.Nil(t, tokens.find(operateSecret).serviceCheck())
}

func TestTokensFileMistakes(t *testing.T) {
	good := sum("0123456789abcdef0123")
	tests := []struct {
		name string
		yaml string
		want []string
	}{
		{"empty", "", []string{"tokens.yaml:1:1: the tokens file is empty"}},
		{"empty list", "[]", []string{"tokens.yaml:1:1: the list has no tokens"}},
		{"not a list", "tokens: []", []string{"tokens.yaml:1:1: tokens file: want a list"}},
		{"not yaml", "- {", []string{"tokens.yaml:1:1: not valid YAML"}},
		{"two documents", "- {name: a, sha256: " + good + ", allow: [read]}\n---\n[]",
			[]string{"tokens.yaml:3:1: the file has a second YAML document"}},
		{"item", "- shop", []string{"tokens.yaml:1:3: token: want a mapping"}},
		{"all at once",
			"- nam: x\n  sha256: 12\n  services: [a*, '']\n  allow: [sent]\n- {name: a, allow: [send], token: hunter2}",
			[]string{
				`1:3: token: unknown key "nam" (did you mean "name"?)`, `2:11: sha256 must be`, `3:14: patterns`,
				`3:18: a service must not be empty`, `4:11: unknown permission`,
				`5:28: token: unknown key "token" (do not store the token in plain text`, `5:3: sha256 or token_file is missing`,
				`5:3: services is missing`}},
		{"both", "- {name: a, sha256: " + good + ", token_file: ok, allow: [read]}", []string{"not both"}},
		{"twice", "- {name: a, name: b, sha256: " + good + ", allow: [read, read]}",
			[]string{`duplicate key "name"`, `duplicate permission "read"`}},
		{"same name", "- {name: a, sha256: " + good + ", allow: [read]}\n- {name: a, token_file: ok, allow: [read]}",
			[]string{`2:10: duplicate name "a", first used on line 1`}},
		{"same token", "- {name: a, sha256: " + good + ", allow: [read]}\n- {name: b, sha256: " + good + ", allow: [read]}",
			[]string{`2:3: duplicate token, first defined on line 1`}},
		{"empty token", "- {name: a, sha256: " + sum("") + ", allow: [read]}", []string{"of an empty token"}},
		{"token of one character", "- {name: a, sha256: " + sum("x") + ", allow: [read]}",
			[]string{"1:21: sha256 is the hash of a token of only 1 characters"}},
		{"token of two", "- {name: a, sha256: " + sum("~!") + ", allow: [read]}",
			[]string{"of only 2 characters (use a random token of at least 16 bytes)"}},
		{"short token", "- {name: a, token_file: short, allow: [read]}", []string{"shorter than 16 bytes"}},
		{"token with spaces", "- {name: a, token_file: spaced, allow: [read]}", []string{"invalid in an HTTP header"}},
		{"no such file", "- {name: a, token_file: missing, allow: [read]}", []string{"1:25: read token file"}},
		{"star and names", "- {name: a, sha256: " + good + ", allow: [send], services: ['*', b]}",
			[]string{"already means every service"}},
		{"number as name", "- {name: 1, sha256: " + good + ", allow: [read]}", []string{"name: want text"}},
		{"control", "- {name: \"a\\nb\", sha256: " + good + ", allow: [read]}",
			[]string{"name must have 1 to 128 bytes and no control characters"}},
		{"operate on some services", "- {name: a, sha256: " + good + ", services: [shop], allow: [read, operate]}",
			[]string{"1:97: a token with operate cannot be limited to services"}},
		{"annotate without services", "- {name: a, sha256: " + good + ", allow: [annotate]}",
			[]string{"1:3: services is missing (list the services that the token may send events for or annotate"}},
		{"empty lists", "- {name: a, sha256: " + good + ", allow: [], services: []}",
			[]string{"allow must be a list", "services must be a list"}},
	}
	files := map[string]string{"ok": "0123456789abcdef", "short": "abc", "spaced": "0123456789 abcdef"}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseTokens("tokens.yaml", []byte(tt.yaml), func(name string) ([]byte, error) {
				if data, ok := files[name]; ok {
					return []byte(data), nil
				}
				return nil, os.ErrNotExist
			})
			require.Error(t, err)
			var located *yamldoc.Error
			require.ErrorAs(t, err, &located)
			for _, want := range tt.want {
				require.ErrorContains(t, err, want)
			}
			require.NotContains(t, err.Error(), "hunter2", "a secret must not get into a log")
		})
	}
}

func TestLoadTokensReadsFilesBesideIt(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "tokens.yaml")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "t"), []byte("0123456789abcdef\r\n"), 0o600))
	require.NoError(t, os.WriteFile(path, []byte("- {name: a, token_file: t, allow: [read]}"), 0o600))
	tokens, err := LoadTokens(path)
	require.NoError(t, err)
	require.NotNil(t, tokens.find("0123456789abcdef"))

	_, err = LoadTokens(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)

	set := metrics.NewSet()
	auth := NewAuth(AuthOptions{Tokens: tokens, Metrics: NewHTTPMetrics(set)})
	require.NoError(t, os.WriteFile(path, []byte("- {name: a}"), 0o600))
	require.Error(t, auth.ReloadTokens(path))
	require.Same(t, tokens, auth.tokens.Load(), "a bad file changes nothing")
	require.NoError(t, os.WriteFile(path, []byte("- {name: b, token_file: t, allow: [read]}"), 0o600))
	require.NoError(t, auth.ReloadTokens(path))
	require.Equal(t, "b", auth.tokens.Load().find("0123456789abcdef").Name)
	var out bytes.Buffer
	set.WritePrometheus(&out)
	require.Contains(t, out.String(), `sloengine_ingest_token_reloads_total{result="failed"} 1`)
	require.Contains(t, out.String(), `sloengine_ingest_token_reloads_total{result="ok"} 1`)
}

func TestRequire(t *testing.T) {
	gin.SetMode(gin.ReleaseMode)
	var logged bytes.Buffer
	auth := NewAuth(AuthOptions{Tokens: testTokens(t), Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	engine := gin.New()
	engine.GET("/read", auth.Require(PermitRead), func(c *gin.Context) { c.String(200, "page") })
	engine.GET("/operate", auth.Require(PermitOperate), func(c *gin.Context) { c.String(200, "done") })

	get := func(path string, set func(*http.Request)) *httptest.ResponseRecorder {
		req := httptest.NewRequest("GET", path, nil)
		set(req)
		w := httptest.NewRecorder()
		engine.ServeHTTP(w, req)
		return w
	}
	bearerOf := func(secret string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+secret) }
	}
	tests := []struct {
		name, path string
		set        func(*http.Request)
		status     int
		challenge  string
	}{
		{"none", "/read", func(*http.Request) {}, 401, `Bearer realm="sloengine"`},
		{"unknown", "/read", bearerOf("nobody-knows-this-one"), 401, `error="invalid_token"`},
		{"other scheme", "/read", func(r *http.Request) { r.Header.Set("Authorization", "Digest x") }, 401, "Bearer"},
		{"empty bearer", "/read", func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") }, 401, "Bearer"},
		{"wrong permission", "/operate", bearerOf(readSecret), 403, `error="insufficient_scope", scope="operate"`},
		{"reader", "/read", bearerOf(readSecret), 200, ""},
		{"lower case", "/read", func(r *http.Request) { r.Header.Set("Authorization", "bearer "+readSecret) }, 200, ""},
		{"basic", "/read", func(r *http.Request) { r.SetBasicAuth("anyone", readSecret) }, 200, ""},
		{"basic wrong", "/read", func(r *http.Request) { r.SetBasicAuth(readSecret, "x") }, 401, "Bearer"},
		{"operator", "/operate", bearerOf(operateSecret), 200, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := get(tt.path, tt.set)
			require.Equal(t, tt.status, w.Code, w.Body)
			require.Contains(t, w.Header().Get("WWW-Authenticate"), tt.challenge)
			if tt.status == 200 {
				return
			}
			var p Problem
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &p))
			require.Equal(t, tt.status, p.Status)
			require.Equal(t, w.Header().Get("X-Request-Id"), p.Instance)
			require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
		})
	}
	require.Equal(t, []string{`Bearer realm="sloengine"`, `Basic realm="sloengine"`},
		get("/read", func(*http.Request) {}).Header().Values("WWW-Authenticate"))
	require.NotContains(t, logged.String(), readSecret)
	require.NotContains(t, logged.String(), "nobody-knows-this-one")
	require.Contains(t, logged.String(), "request denied")
	require.Equal(t, 1, strings.Count(logged.String(), "\n"), "one line per second at most")

	auth.SetTokens(nil)
	require.False(t, auth.Enabled())
	require.Equal(t, 200, get("/operate", func(*http.Request) {}).Code)
}

func TestThrottledLogSaysWhatItLeftOut(t *testing.T) {
	var out bytes.Buffer
	log := newThrottledLog(slog.New(slog.NewTextHandler(&out, nil)))
	now := time.Unix(1000, 0)
	log.now = func() time.Time { return now }
	for range 5 {
		log.warn("x")
	}
	now = now.Add(time.Second)
	log.warn("y")
	require.Equal(t, 2, strings.Count(out.String(), "\n"))
	require.Contains(t, out.String(), "skipped=4")
}

// Connections that end in the middle of a handshake do not flood the log, and each panic is in it.
func TestServerErrorsAreThrottled(t *testing.T) {
	var out bytes.Buffer
	log := ErrorLog(slog.New(slog.NewTextHandler(&out, nil)))
	for range 1000 {
		log.Println("http: TLS handshake error from 127.0.0.1:4711: EOF")
	}
	log.Println("http: panic serving 127.0.0.1:4711: nil")
	log.Println("http2: panic serving 127.0.0.1:4711: nil")
	require.Equal(
		t, 1, strings.Count(out.String(), "level=WARN msg=\"http: TLS handshake error from 127.0.0.1:4711: EOF\""))
	require.Equal(t, 2, strings.Count(out.String(), "level=ERROR"))
	require.Equal(t, 3, strings.Count(out.String(), "\n"), out.String())
}

func TestTokenErrorsAreJoined(t *testing.T) {
	_, err := ParseTokens("f", []byte("- {}\n- {}"), nil)
	var joined interface{ Unwrap() []error }
	require.True(t, errors.As(err, &joined))
	require.Len(t, joined.Unwrap(), 6)
}

func TestATokenOfSomeServicesReadsNoOthers(t *testing.T) {
	tokens, err := ParseTokens("tokens.yaml", []byte(`
- {name: team, sha256: `+sum(readSecret)+`, services: [shop, "1234"], allow: [send, read]}
- {name: all, sha256: `+sum(operateSecret)+`, services: ["*"], allow: [read]}
- {name: old, sha256: `+sum(sendSecret)+`, allow: [read]}
`), nil)
	require.NoError(t, err)
	gin.SetMode(gin.ReleaseMode)
	auth := NewAuth(AuthOptions{Tokens: tokens})
	engine := gin.New()
	engine.GET("/all", auth.Require(PermitRead), func(c *gin.Context) { c.String(200, "all") })
	engine.GET("/some", auth.RequireLimited([]string{"1234", "shop"}), func(c *gin.Context) { c.String(200, "some") })
	get := func(path, secret string) *httptest.ResponseRecorder {
		req, w := httptest.NewRequest("GET", path, nil), httptest.NewRecorder()
		req.Header.Set("Authorization", "Bearer "+secret)
		engine.ServeHTTP(w, req)
		return w
	}
	for _, tt := range []struct {
		path, secret string
		status       int
	}{
		{"/all", readSecret, 403}, {"/some", readSecret, 200},
		{"/all", operateSecret, 200}, {"/some", operateSecret, 403},
		{"/all", sendSecret, 200}, {"/some", sendSecret, 403},
	} {
		w := get(tt.path, tt.secret)
		require.Equal(t, tt.status, w.Code, "%s with %s", tt.path, tt.secret)
	}
	require.Contains(t, get("/all", readSecret).Body.String(), `may read the services 1234, shop only`)
	req := httptest.NewRequest("GET", "/all", nil)
	req.Header.Set("Authorization", "Bearer "+readSecret)
	require.False(t, auth.Allows(req, PermitRead), "pages of all services show it nothing")
	require.True(t, auth.Allows(req, PermitSend))
	require.Equal(t, []string{"1234", "shop"}, auth.Token(req).Services())
	require.True(t, auth.Serves(req, "shop"))
	require.False(t, auth.Serves(req, "bank"))
	require.False(t, auth.Serves(req, ""), "that is all services")
	req.Header.Set("Authorization", "Bearer "+operateSecret)
	require.True(t, auth.Serves(req, "bank") && auth.Serves(req, ""))
	req.Header.Del("Authorization")
	require.False(t, auth.Serves(req, "shop"))
}
