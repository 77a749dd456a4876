package operating

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

const (
	operatorToken = "operator-token-0123456789"
	limitedToken  = "limited-token-0123456789"
	oldKey        = "old-key-of-shop-0123456789"
	newKey        = "new-key-of-shop-0123456789"
)

// as asks the engine with a token.
func as(t *testing.T, token, address string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, address, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	return e2etest.Exchange(t, req)
}

// TestLimitedTokenOnARunningEngine: who may read one service sees that one only, over HTTP and with the commands, after
// a change of specs, when the token gets another service instead, and after a restart.
func TestLimitedTokenOnARunningEngine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	specs := filepath.Join(dir, "specs")
	require.NoError(t, os.Mkdir(specs, 0o755))
	spec := func(service, description string) {
		e2etest.WriteFile(t, specs, service+".yaml", fmt.Sprintf(`version: sloengine/v1
service: %s
slos:
  - name: orders
    description: %s
    objective: 99.99
    window: 30d
    indicator:
      events: {valid: '{type="order"}', bad: '{outcome="failure"}'}
`, service, description))
	}
	spec("shop", "first")
	spec("zebra", "first")
	tokens := func(service string) {
		e2etest.WriteFile(t, dir, "tokens.yaml",
			fmt.Sprintf(`- {name: ann, sha256: %x, services: ['*'], allow: [send, backfill, read, operate]}
- {name: limited, sha256: %x, services: [%s], allow: [read]}
`, sha256.Sum256([]byte(operatorToken)), sha256.Sum256([]byte(limitedToken)), service))
	}
	tokens("shop")
	operatorFile, limitedFile := e2etest.WriteFile(t, dir, "operator.token", operatorToken),
		e2etest.WriteFile(t, dir, "limited.token", limitedToken)
	const settings = "evaluator: {interval: 200ms}\nauth: {tokens_file: tokens.yaml}\n"
	p := e2etest.Serve(t, dir, specs, settings)

	for _, service := range []string{"shop", "zebra"} { // an outage of each: a budget, alerts and an incident
		var good, bad strings.Builder // alerts count what is received live
		for now, ago := time.Now(), 3600; ago > 0; ago -= 5 {
			body, outcome := &good, "success"
			if ago < 300 {
				body, outcome = &bad, "failure"
			}
			fmt.Fprintf(body, `{"id":"o%d","service":"%s","type":"order","outcome":"%s","time":%d}`+"\n", ago, service, outcome,
				now.Add(-time.Duration(ago)*time.Second).UnixMilli())
		}
		for path, body := range map[string]string{"/api/v1/events?backfill=true": good.String(),
			"/api/v1/events": bad.String()} {
			status, answer := e2etest.Post(t, p.Base+path, operatorToken, body)
			require.Equal(t, http.StatusAccepted, status, answer)
		}
	}
	// The holder of the limited token sees one service where the operator sees both.
	sees := func(own, other string) {
		t.Helper()
		for _, path := range []string{"/api/v1/slos", "/api/v1/alerts", "/api/v1/incidents",
			"/api/v1/report?period=this-week", "/api/v1/generations", "/metrics", "/", "/report", "/incidents", "/services"} {
			require.Eventually(t, func() bool {
				_, all := as(t, operatorToken, p.Base+path)
				status, some := as(t, limitedToken, p.Base+path)
				require.Equal(t, http.StatusOK, status, path)
				require.NotContains(t, some, other, path)
				return strings.Contains(all, own) && strings.Contains(all, other) && strings.Contains(some, own)
			}, testkit.Patience, 50*time.Millisecond, path)
		}
		for _, path := range []string{"/api/v1/slos/" + other + "/orders", "/api/v1/slos/" + other + "/orders/history",
			"/slo?id=" + other + "/orders"} {
			status, answer := as(t, limitedToken, p.Base+path)
			require.Equal(t, http.StatusNotFound, status, answer)
			status, answer = as(t, operatorToken, p.Base+path)
			require.Equal(t, http.StatusOK, status, answer)
		}
		for _, command := range []string{"status", "status -o json", "report", "report --days -o csv", "report -o html",
			"incident list", "incident list -o json", "incident export"} {
			args := append(strings.Fields(command), "--url", p.Base, "--token-file")
			all, errOut, code := e2etest.Command(t, append(args, operatorFile)...)
			require.Zero(t, code, errOut)
			require.Contains(t, all, own, command)
			require.Contains(t, all, other, command)
			some, errOut, code := e2etest.Command(t, append(args, limitedFile)...)
			require.Zero(t, code, errOut)
			require.Contains(t, some, own, command)
			require.NotContains(t, some+errOut, other, command)
		}
		out, errOut, code := e2etest.Command(t, "status", "--service", other, "--url", p.Base, "--token-file", limitedFile)
		require.Equal(t, 1, code, out)
		require.Contains(t, errOut, "has no SLO")
		for _, command := range []string{"status --rejects", "audit", "forget " + own} {
			_, errOut, code = e2etest.Command(
				t, append(strings.Fields(command), "--url", p.Base, "--token-file", limitedFile)...)
			require.Equal(t, 1, code, command)
			require.Contains(t, errOut, "403", command)
		}
	}
	reload := func() {
		t.Helper()
		status, answer := e2etest.Post(t, p.Base+"/-/reload", limitedToken, "")
		require.Equal(t, http.StatusForbidden, status, answer)
		status, answer = e2etest.Post(t, p.Base+"/-/reload", operatorToken, "")
		require.Equal(t, http.StatusOK, status, answer)
	}
	sees("shop", "zebra")
	spec("zebra", "second")
	reload()
	sees("shop", "zebra")
	tokens("zebra")
	reload()
	sees("zebra", "shop")
	p.Stop(t)
	p = e2etest.Serve(t, dir, specs, settings)
	sees("zebra", "shop")
	p.Stop(t)
}

// TestTokenOfAPipeline: it annotates its service, and does nothing else.
func TestTokenOfAPipeline(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spec := e2etest.WriteFile(t, dir, "spec.yaml", fmt.Sprintf(reloadSpec, "99.9", "order"))
	e2etest.WriteFile(t, dir, "tokens.yaml",
		fmt.Sprintf(`- {name: ann, sha256: %x, services: ['*'], allow: [read, operate, annotate]}
- {name: pipeline, sha256: %x, services: [shop], allow: [annotate]}
`, sha256.Sum256([]byte(operatorToken)), sha256.Sum256([]byte(limitedToken))))
	operator, pipeline := e2etest.WriteFile(t, dir, "operator.token", operatorToken),
		e2etest.WriteFile(t, dir, "pipeline.token", limitedToken)
	p := e2etest.Serve(t, dir, spec, "auth: {tokens_file: tokens.yaml}\n")
	annotate := func(token string, args ...string) (string, string, int) {
		return e2etest.Command(t, append([]string{"annotate", "--url", p.Base, "--token-file", token}, args...)...)
	}
	id, errOut, code := annotate(pipeline, "--service", "shop", "v2 deployed")
	require.Zero(t, code, errOut)
	for _, args := range [][]string{{"--service", "zebra", "v2 deployed"}, {"v2 deployed everywhere"}, {"list"},
		{"delete", strings.TrimSpace(id)}} {
		_, errOut, code = annotate(pipeline, args...)
		require.Equal(t, 1, code, args)
		require.Contains(t, errOut, "403", args)
	}
	_, errOut, code = annotate(operator, "everywhere")
	require.Zero(t, code, errOut)
	out, errOut, code := annotate(operator, "list")
	require.Zero(t, code, errOut)
	require.Contains(t, out, "v2 deployed")
	require.Contains(t, out, "everywhere")
	require.NotContains(t, out, "zebra")
	require.NotContains(t, out, "v2 deployed everywhere")
	for _, path := range []string{"/", "/metrics", "/api/v1/slos"} {
		status, answer := as(t, limitedToken, p.Base+path)
		require.Equal(t, http.StatusForbidden, status, answer)
	}
	for _, path := range []string{"/-/reload", "/api/v1/silences", "/api/v1/events"} {
		status, answer := e2etest.Post(t, p.Base+path, limitedToken, `{"id":"1","service":"shop","type":"order"}`)
		require.Equal(t, http.StatusForbidden, status, answer)
	}
	p.Stop(t)
}

// TestKeysRotateOnARunningEngine: a token gets a second key and loses its first one while a sender goes on. Nothing
// that he sends is refused, and a key that has expired stays so after a crash.
func TestKeysRotateOnARunningEngine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spec := e2etest.WriteFile(t, dir, "spec.yaml", fmt.Sprintf(reloadSpec, "99.9", "order"))
	tokens := func(keys string) {
		e2etest.WriteFile(t, dir, "tokens.yaml", fmt.Sprintf(`- {name: ann, sha256: %x, allow: [operate]}
- {name: shop, services: [shop], allow: [send], keys: [%s]}
`, sha256.Sum256([]byte(operatorToken)), keys))
	}
	sum := func(key string) string { return fmt.Sprintf("sha256: %x", sha256.Sum256([]byte(key))) }
	tokens("{" + sum(oldKey) + "}")
	const settings = "auth: {tokens_file: tokens.yaml}\n"
	p := e2etest.Serve(t, dir, spec, settings)
	put := func(token, id string) (int, string) {
		return e2etest.Post(t, p.Base+"/api/v1/events", token, `{"id":"`+id+`","service":"shop","type":"order"}`)
	}
	reload := func() {
		t.Helper()
		status, answer := e2etest.Post(t, p.Base+"/-/reload", operatorToken, "")
		require.Equal(t, http.StatusOK, status, answer)
	}

	var key atomic.Value
	key.Store(oldKey)
	sent := map[string]*atomic.Int64{oldKey: {}, newKey: {}} // and acknowledged
	stop, refused := make(chan struct{}), make(chan string, 1)
	go func() {
		defer close(refused)
		client := &http.Client{}
		defer client.CloseIdleConnections()
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			with := key.Load().(string)
			req, err := http.NewRequest(http.MethodPost, p.Base+"/api/v1/events",
				strings.NewReader(fmt.Sprintf(`{"id":"s%d","service":"shop","type":"order"}`, n)))
			if err == nil {
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("Authorization", "Bearer "+with)
				var res *http.Response
				if res, err = client.Do(req); err == nil {
					answer, _ := io.ReadAll(res.Body)
					res.Body.Close()
					if res.StatusCode != http.StatusAccepted {
						err = fmt.Errorf("status %d: %s", res.StatusCode, answer)
					}
				}
			}
			if err != nil {
				refused <- err.Error()
				return
			}
			sent[with].Add(1)
		}
	}()
	moreSent := func(with string) {
		t.Helper()
		before := sent[with].Load()
		require.Eventually(t, func() bool {
			return sent[with].Load() > before+5 || len(refused) > 0
		}, testkit.Patience, 5*time.Millisecond)
		require.Empty(t, refused)
	}

	moreSent(oldKey)
	status, answer := put(newKey, "too-early")
	require.Equal(t, http.StatusUnauthorized, status, answer)
	tokens("{" + sum(oldKey) + ", expires: 2100-01-01T00:00:00Z}, {" + sum(newKey) + "}")
	reload()
	moreSent(oldKey) // both are valid
	for _, k := range []string{oldKey, newKey} {
		status, answer = put(k, "with-"+k)
		require.Equal(t, http.StatusAccepted, status, answer)
	}
	key.Store(newKey)
	moreSent(newKey) // none with the old one is under way
	tokens("{" + sum(oldKey) + ", expires: " + time.Now().Add(2*time.Second).UTC().Format(time.RFC3339) +
		"}, {" + sum(newKey) + "}")
	reload()
	require.Eventually(t, func() bool {
		status, answer = put(oldKey, "again")
		return status == http.StatusUnauthorized
	}, testkit.Patience, 50*time.Millisecond)
	require.Contains(t, answer, "expired at")
	moreSent(newKey)

	close(stop)
	require.Empty(t, <-refused)
	p.Kill()
	p = e2etest.Serve(t, dir, spec, settings)
	status, answer = put(oldKey, "after")
	require.Equal(t, http.StatusUnauthorized, status, answer)
	require.Contains(t, answer, "expired at")
	status, answer = put(newKey, "after")
	require.Equal(t, http.StatusAccepted, status, answer)
	tokens("{" + sum(newKey) + "}")
	reload()
	status, answer = put(oldKey, "at-last")
	require.Equal(t, http.StatusUnauthorized, status, answer)
	require.Contains(t, answer, "not in the tokens file")
	for _, k := range []string{oldKey, newKey} {
		require.NotContains(t, p.Log.String(), k)
	}
	p.Stop(t)
}
