package config

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/mail"
	"github.com/sloengine/sloengine/reliability/mail/mailtest"
	"github.com/sloengine/sloengine/reliability/nettest"
	"github.com/sloengine/sloengine/sla/delivery"
	"github.com/sloengine/sloengine/slo"
)

// TestReportSettings sends a mail by settings, with a certificate of the client and a password from the environment.
func TestReportSettings(t *testing.T) {
	server := mailtest.Start(t, mailtest.Options{})
	dir := t.TempDir()
	cert, key := nettest.SelfSigned(t)
	for name, data := range map[string][]byte{"token": []byte("hush\n"), "cert.pem": cert, "key.pem": key} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	t.Setenv("SLOENGINE_TEST_MAIL", mailtest.Password)
	c, err := load(t, dir, fmt.Sprintf(`
smtp: {smarthost: %q, from: slo@example.org, username: %s, password_env: SLOENGINE_TEST_MAIL, tls_config: {ca_file: %q,
    cert_file: cert.pem, key_file: key.pem, server_name: localhost}}
reports:
  - {name: m, every: month, to: {folder: out, email: [a@b.c], webhooks: [{url: 'https://x/y', token_file: token}]}}
  - {name: w, every: week, day: sunday, at: '23:59', timezone: Asia/Tokyo, agreement: shop/gold, formats: [json],
      to: {folder: /srv/out}}
`, server.Address, mailtest.User, server.CAFile))
	require.NoError(t, err)
	s, err := c.ReportSettings()
	require.NoError(t, err)
	require.NoError(t, s.Server.Send(t.Context(), mail.Message{To: "a@b.c", ID: "x@y", Subject: "s", Text: "t"}))
	require.Len(t, server.Received(), 1)
	require.Len(t, s.Server.TLSConfig.Certificates, 1)
	require.Equal(t, "localhost", s.Server.TLSConfig.ServerName)
	require.NotContains(t, fmt.Sprintf("%+v", c), mailtest.Password)

	m, w := s.Reports[0], s.Reports[1]
	require.Equal(t, []any{slo.Month, 1, delivery.Clock{Hour: 8}, filepath.Join(dir, "out"), []string{"a@b.c"}},
		[]any{m.Every, m.Day, m.At, m.Folder, m.Mail})
	require.Nil(t, m.Zone)
	token, err := m.Webhooks[0].Token()
	require.NoError(t, err)
	require.Equal(t, "hush", token)
	require.Equal(t, []any{slo.Week, time.Sunday, delivery.Clock{Hour: 23, Minute: 59}, slo.ID("shop/gold"),
		[]delivery.Format{delivery.JSON}, "Asia/Tokyo"},
		[]any{w.Every, w.Weekday, w.At, w.Agreement, w.Formats, w.Zone.String()})

	c, err = load(t, dir, "smtp: {smarthost: 'm:25', from: a@b.c, tls: none, tls_config: {insecure_skip_verify: true}}")
	require.NoError(t, err)
	host, err := c.MailServer()
	require.NoError(t, err)
	require.Equal(t, mail.NoTLS, host.TLS)
	require.True(t, host.TLSConfig.InsecureSkipVerify)
	c, err = load(t, dir, "")
	require.NoError(t, err)
	host, err = c.MailServer()
	require.NoError(t, err)
	require.Nil(t, host)
}
