package config

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	httpconfig "github.com/prometheus/common/config"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/notify"
	"github.com/sloengine/sloengine/reliability/nettest"
)

// TestNotifySettings sends one alert with every kind of credentials, over TLS.
func TestNotifySettings(t *testing.T) {
	var got *http.Request
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r.Clone(r.Context())
	}))
	defer server.Close()
	dir := t.TempDir()
	cert, key := nettest.SelfSigned(t)
	for name, data := range map[string][]byte{"secret": []byte("hush\n"), "cert.pem": cert, "key.pem": key} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	t.Setenv("SLOENGINE_TEST_SECRET", "whisper")
	for settings, want := range map[string]string{
		"basic_auth: {username: u, password_file: secret}":                        "Basic dTpodXNo",
		"basic_auth: {username: u, password_env: SLOENGINE_TEST_SECRET}":          "Basic dTp3aGlzcGVy",
		"bearer_token_file: secret":                                               "Bearer hush",
		"bearer_token_env: SLOENGINE_TEST_SECRET, name: x, tls: {server_name: s}": "Bearer whisper",
	} {
		c, err := load(t, dir, fmt.Sprintf(
			"notifications: {external_labels: {a: b}, resend: 30s, alertmanagers: [{url: '%s/am', %s}]}", server.URL, settings))
		require.NoError(t, err, settings)
		s := c.NotifySettings()
		require.Equal(t, 30*time.Second, s.Resend)
		require.Equal(t, 10*time.Second, s.Timeout)
		require.Equal(t, "Watchdog", s.Watchdog.Alert)
		require.NotContains(t, fmt.Sprintf("%+v", c.Notifications), "hush")
		s.Peers[0].HTTP.TLSConfig.InsecureSkipVerify = true
		results, err := notify.SendOnce(t.Context(), notify.Options{Settings: s}, map[string]string{"alertname": "X"},
			nil, time.Now(), time.Now())
		require.NoError(t, err)
		require.NoError(t, results[0].Err)
		require.Equal(t, want, got.Header.Get("Authorization"), settings)
		require.Equal(t, "/am/api/v2/alerts", got.URL.Path)
	}
	c, err := load(t, dir,
		"notifications: {alertmanagers: [{url: 'https://a', tls: {ca_file: cert.pem, cert_file: cert.pem, key_file: "+
			"key.pem, server_name: s}}, {url: 'https://b', tls: {insecure_skip_verify: true}}]}")
	require.NoError(t, err)
	s := c.NotifySettings()
	require.Equal(t, httpconfig.TLSConfig{
		CAFile: filepath.Join(dir, "cert.pem"), CertFile: filepath.Join(dir, "cert.pem"),
		KeyFile: filepath.Join(dir, "key.pem"), ServerName: "s",
	}, s.Peers[0].HTTP.TLSConfig)
	require.True(t, s.Peers[1].HTTP.TLSConfig.InsecureSkipVerify)
	require.Equal(t, "a", s.Peers[0].Name)
}
