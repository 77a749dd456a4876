package remote

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/retry"
)

func TestCheckPublic(t *testing.T) {
	for _, a := range strings.Fields("8.8.8.8 9.255.255.255 11.0.0.1 100.63.255.255 100.128.0.1 172.15.0.1 172.32.0.1 " +
		"192.167.0.1 223.255.255.255 ::ffff:8.8.8.8 2606:4700::1111 2a00:1450::1 2001:4860:4860::8888") {
		require.NoError(t, CheckPublic(netip.MustParseAddr(a)), a)
	}
	for _, a := range strings.Fields("0.0.0.0 0.1.2.3 10.1.2.3 100.64.0.1 127.0.0.1 127.255.0.1 169.254.169.254 " +
		"172.16.0.1 172.31.255.255 192.0.0.8 192.168.1.1 198.18.0.1 224.0.0.1 255.255.255.255 ::ffff:127.0.0.1 " +
		"::ffff:10.0.0.1 :: ::1 ::127.0.0.1 fe80::1 fe80::1%eth0 fc00::1 fd12::1 ff02::1 64:ff9b::7f00:1 64:ff9b:1::a00:1 " +
		"2002:7f00:1::1 2001:0:7f00:1::1 2001:db8::1 fec0::1") {
		var refused *AddressError
		require.ErrorAs(t, CheckPublic(netip.MustParseAddr(a)), &refused, a)
	}
	require.Error(t, CheckPublic(netip.Addr{}))
}

// A client for URLs of outsiders reaches no server of this machine, by whichever name and notation.
func TestPublicClient(t *testing.T) {
	var requests atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	defer srv.Close()
	port := srv.URL[strings.LastIndex(srv.URL, ":"):]
	t.Setenv("HTTP_PROXY", srv.URL)
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[::1]", "127.1", "0.0.0.0"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+host+port, http.NoBody)
		require.NoError(t, err)
		_, err = Post(PublicClient(false), req)
		require.Error(t, err, host)
		if host != "127.1" { // some resolvers do not know this notation
			var refused *AddressError
			require.ErrorAs(t, err, &refused, host)
			require.Equal(t, retry.ClassBlocked, retry.ClassOf(err))
		}
	}
	require.Zero(t, requests.Load())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, http.NoBody)
	require.NoError(t, err)
	_, err = Post(PublicClient(true), req)
	require.NoError(t, err)
}

func TestPost(t *testing.T) {
	var followed atomic.Bool
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ok":
			_, _ = w.Write([]byte("yes"))
		case "/moved":
			http.Redirect(w, r, "/target", http.StatusTemporaryRedirect)
		case "/target":
			followed.Store(true)
		default:
			http.Error(w, "no\x1b[31m", http.StatusTeapot)
		}
	}))
	defer srv.Close()
	for path, want := range map[string]string{"/ok": "", "/moved": "307 Temporary Redirect: redirects are not followed, " +
		"set url to the new address", "/else": "418 I'm a teapot: no [31m"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+path, http.NoBody)
		require.NoError(t, err)
		answer, err := Post(Client(), req)
		if want != "" {
			require.EqualError(t, err, want)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, "yes", string(answer))
	}
	require.False(t, followed.Load())
	srv.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/?secret", http.NoBody)
	require.NoError(t, err)
	_, err = Post(Client(), req)
	require.NotContains(t, err.Error(), "secret")
	require.Equal(t, retry.ClassTransient, retry.ClassOf(err))
}
