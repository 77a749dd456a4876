package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/receivers"
	"github.com/sloengine/sloengine/reliability/mail/mailtest"
	"github.com/sloengine/sloengine/rules"
)

// TestMailServerOfReceivers: mails of receivers go through the server of smtp, unless they or global name another.
func TestMailServerOfReceivers(t *testing.T) {
	server, other := mailtest.Start(t, mailtest.Options{}), mailtest.Start(t, mailtest.Options{NoTLS: true})
	t.Setenv("SLOENGINE_TEST_MAIL", mailtest.Password)
	smtp := fmt.Sprintf(
		"smtp: {smarthost: %q, from: slo@example.org, username: %s, password_env: SLOENGINE_TEST_MAIL, tls_config: "+
			"{ca_file: %q}}\n", server.Address, mailtest.User, server.CAFile)
	send := func(settings string) error {
		t.Helper()
		c, err := load(t, t.TempDir(), settings)
		require.NoError(t, err)
		now := time.Now()
		s, err := c.ReceiverSettings(rules.Spec{}, now, now.Add(time.Hour))
		require.NoError(t, err)
		require.NotContains(t, fmt.Sprintf("%+v", c.SMTP), mailtest.Password)
		got, err := receivers.SendTest(t.Context(), receivers.Options{Settings: s}, "team",
			map[string]string{"alertname": "Test"}, map[string]string{"summary": "s"}, now)
		require.NoError(t, err)
		require.Len(t, got, 1)
		return got[0].Err
	}
	const to = "notifications: {default: team, receivers: [{name: team, email_configs: [{to: team@example.org%s}]}]%s}\n"
	require.NoError(t, send(smtp+fmt.Sprintf(to, "", "")))
	require.Len(t, server.Received(), 1)
	require.Equal(t, "slo@example.org", server.Received()[0].From)
	require.NoError(t, send(smtp+fmt.Sprintf(to, ", from: alerts@example.org, headers: {X-Team: a}", "")))
	require.Equal(t, "alerts@example.org", server.Received()[1].From, "what the receiver says stands")
	require.NoError(t, send(smtp+fmt.Sprintf(to, "", ", global: {smtp_from: global@example.org}")))
	require.Equal(t, "global@example.org", server.Received()[2].From)

	// Another server never gets the credentials of this one.
	require.ErrorContains(t,
		send(smtp+fmt.Sprintf(to, fmt.Sprintf(", smarthost: %q, from: a@b.c, require_tls: false", other.Address), "")),
		"authentication required")
	require.ErrorContains(t,
		send(smtp+fmt.Sprintf(to, "", fmt.Sprintf(", global: {smtp_smarthost: %q, smtp_from: a@b.c, smtp_require_tls: false}",
			other.Address))), "authentication required")
	c, err := load(t, t.TempDir(), smtp+fmt.Sprintf(to, fmt.Sprintf(", smarthost: %q, from: a@b.c", other.Address), ""))
	require.NoError(t, err)
	require.NotContains(t, string(c.Notifications.Receivers), mailtest.Password)
	c, err = load(t, t.TempDir(), smtp+
		fmt.Sprintf(to, ", auth_username: somebody, auth_password_env: SLOENGINE_TEST_MAIL, require_tls: true", ""))
	require.NoError(t, err)
	text := string(c.Notifications.Receivers)
	require.Equal(t, 1, strings.Count(text, "auth_username"), "credentials are taken together or not at all")
	require.NotContains(t, text, "ca_file", "and so is TLS")

	_, err = load(t, t.TempDir(), fmt.Sprintf(to, "", ""))
	require.ErrorContains(t, err, "no global SMTP smarthost set")
}
