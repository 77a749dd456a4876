package receivers

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/breaker"
)

// mailbox is a mail server.
type mailbox struct {
	addr string

	mu      sync.Mutex
	mail    []string
	refused int                   // messages yet to be refused
	judge   func(mail string) int // the code of a refusal; 0: the message is taken. nil: all are
	calls   int
}

func newMailbox(t *testing.T) *mailbox {
	t.Helper()
	m := &mailbox{}
	s := smtp.NewServer(m)
	s.Domain = "mail.example"
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	m.addr = l.Addr().String()
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
	return m
}

// NewSession implements smtp.Backend.
func (m *mailbox) NewSession(*smtp.Conn) (smtp.Session, error) { return &session{m}, nil }

type session struct{ *mailbox }

func (s *session) Mail(string, *smtp.MailOptions) error { return nil }
func (s *session) Rcpt(string, *smtp.RcptOptions) error { return nil }
func (s *session) Reset()                               {}
func (s *session) Logout() error                        { return nil }

func (s *session) Data(r io.Reader) error {
	data, err := io.ReadAll(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused > 0 {
		s.refused--
		return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "try again"}
	}
	s.calls++
	if s.judge != nil {
		if code := s.judge(string(data)); code > 0 {
			return &smtp.SMTPError{Code: code, EnhancedCode: smtp.EnhancedCode{code / 100, 6, 0}, Message: "line too long"}
		}
	}
	s.mail = append(s.mail, string(data))
	return err
}

func (m *mailbox) all() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.mail...)
}

// TestMail sends the default message to a mail server, which refuses it at first.
func TestMail(t *testing.T) {
	m := newMailbox(t)
	m.refused = 1
	d, _ := run(t, Options{
		Settings: Settings{
			Text: mustText(t, fmt.Sprintf(`
global: {smtp_smarthost: %q, smtp_from: slo@example.org, smtp_require_tls: false}
receivers: [{name: r0, email_configs: [{to: "team@example.org", send_resolved: true}]}]
`, m.addr)), Routing: routing(quick), ExternalURL: "https://slo.example.org",
		},
		Incident: func(string) (Incident, bool) {
			return Incident{
				ID: "1", URL: "https://slo.example.org/incidents/1", AckURL: "https://slo.example.org/ack?sig=x",
				Headline: func(_ time.Time, show func(string) string) string {
					return show("<script>mdm</script>\nBcc: x@example.org") + " failing since 10:00 UTC"
				}}, true
		},
	})
	var a alarms
	d.Update(a.fire("<b>Burn</b>", "service=shop", "severity=page", "slo_impact=high").now())
	testkit.Eventually(t, "it is delivered", func() bool { return len(m.all()) == 1 })
	got, err := mail.ReadMessage(strings.NewReader(m.all()[0]))
	require.NoError(t, err)
	require.Equal(t, "team@example.org", got.Header.Get("To"))
	subject, err := new(mime.WordDecoder).DecodeHeader(got.Header.Get("Subject"))
	require.NoError(t, err)
	require.Equal(t, "CRITICAL: ‹script›mdm‹/script› Bcc: x@ example.org failing since 10:00 UTC", subject)
	require.Empty(t, got.Header.Get("Bcc"))
	body := strings.ReplaceAll(m.all()[0], "=\r\n", "")
	require.Contains(t, body, "&lt;b&gt;Burn&lt;/b&gt;")
	require.Contains(t, body, "Impact: high")
	require.Contains(t, body, "https://slo.example.org/ack?sig=3Dx")
	require.Contains(t, body, "https://slo.example.org/incidents/1")
	d.Update(a.end("<b>Burn</b>").now())
	testkit.Eventually(t, "it is over", func() bool { return len(m.all()) == 2 })
	require.NotContains(t, strings.ReplaceAll(m.all()[1], "=\r\n", ""), "ack?sig")
	got, err = mail.ReadMessage(strings.NewReader(m.all()[1]))
	require.NoError(t, err)
	subject, err = new(mime.WordDecoder).DecodeHeader(got.Header.Get("Subject"))
	require.NoError(t, err)
	require.Equal(t, "Resolved: <b>Burn</b>", subject)
}

// TestMuteMailServer does not wait for a mail server that says nothing.
func TestMuteMailServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var conns []net.Conn
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			conns = append(conns, c)
		}
	}()
	good := newHook(t, nil)
	d, stop := run(t, Options{Settings: Settings{
		Text: mustText(t, fmt.Sprintf(`
global: {smtp_smarthost: %q, smtp_from: slo@example.org, smtp_require_tls: false}
receivers: [{name: r0, email_configs: [{to: "team@example.org"}], webhook_configs: [{url: %q}]}]
`, l.Addr(), good.URL)), Routing: routing(quick), Timeout: 50 * time.Millisecond,
	}})
	var a alarms
	d.Update(a.fire("Burn", "service=shop").now())
	testkit.Eventually(t, "it fails", func() bool { return status(t, d, "r0/email[0]").Brief == "no answer in time" })
	testkit.Eventually(t, "the other one is notified", func() bool { return len(good.all()) == 1 })
	stop()
	require.NoError(t, l.Close())
	<-done
	for _, c := range conns {
		require.NoError(t, c.Close())
	}
	lane := d.lanes["r0/email[0]"]
	testkit.Eventually(t, "the calls end with their connections", func() bool { return len(lane.hung) == 0 })
}

// TestMailHeaders sends a summary that a sender made as long as an attribute may be.
func TestMailHeaders(t *testing.T) {
	t.Parallel()
	m := newMailbox(t)
	m.judge = func(mail string) int { // RFC 5321, 4.5.3.1.6
		for line := range strings.SplitSeq(mail, "\r\n") {
			if len(line) > 998 {
				return 550
			}
		}
		return 0
	}
	d, _ := run(t,
		Options{Settings: Settings{Text: mailTo(t, m,
			`, headers: {X-Team: "{{ .CommonLabels.alertname }}", Cc: "Zoë <z@example.org>, b@example.org"}`),
			Routing: routing(quick)}})
	for name, long := range map[string]string{"ascii": strings.Repeat("a", 1024), "words": strings.Repeat("ab ", 340),
		"utf-8": strings.Repeat("\U0001d54f", 256), "lines": "x\r\nBcc: evil@example.org\r\n\r\nbody"} {
		before := len(m.all())
		d.Update(new(alarms).fire(long, "service="+name).now())
		testkit.Eventually(t, "it is delivered", func() bool { return len(m.all()) > before })
		got, err := mail.ReadMessage(strings.NewReader(m.all()[before]))
		require.NoError(t, err)
		head, _, _ := strings.Cut(m.all()[before], "\r\n\r\n")
		require.Empty(t, got.Header.Get("Bcc"))
		require.Equal(t, "auto-generated", got.Header.Get("Auto-Submitted"))
		require.Equal(t, "=?utf-8?q?Zo=C3=AB?= <z@example.org>, b@example.org", got.Header.Get("Cc"))
		for line := range strings.SplitSeq(head, "\r\n") {
			require.LessOrEqual(t, len(line), 220, "%s: %s", name, line)
		}
		subject, err := new(mime.WordDecoder).DecodeHeader(got.Header.Get("Subject"))
		require.NoError(t, err)
		if name == "utf-8" {
			require.Equal(t, strings.Repeat("\U0001d54f", 199)+"…", subject)
		}
		require.LessOrEqual(t, len([]rune(subject)), 200)
	}
}

func mailTo(t *testing.T, m *mailbox, more string) string {
	return mustText(t, fmt.Sprintf(`
global: {smtp_smarthost: %q, smtp_from: slo@example.org, smtp_require_tls: false}
receivers: [{name: r0, email_configs: [{to: "team@example.org"%s}]}]
`, m.addr, more))
}

var smtpCodes = map[int]outcome{
	421: unreachable, 450: again, 451: again, 452: again, 500: refused, 530: blocked, 535: blocked, 550: refused,
	552: refused, 554: refused,
}

// TestSMTPCodes gives one group every kind of answer of a mail server, beside another group that is told at once.
func TestSMTPCodes(t *testing.T) {
	t.Parallel()
	for code, want := range smtpCodes {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			m := newMailbox(t)
			m.judge = func(mail string) int {
				if strings.Contains(mail, "Hostile") {
					return code
				}
				return 0
			}
			d, _ := run(t, Options{Settings: Settings{Text: mailTo(t, m, ""), Routing: routing(quick)}})
			var a alarms
			d.Update(a.fire("Hostile", "service=evil").now())
			testkit.Eventually(t, "it is refused three times", func() bool {
				m.mu.Lock()
				defer m.mu.Unlock()
				return m.calls >= 3
			})
			s := status(t, d, "r0/email[0]")
			require.Contains(t, s.Brief, fmt.Sprint(code))
			_, got := smtpOutcome(code)
			require.Equal(t, want, got)
			began := time.Now()
			d.Update(a.fire("Burn", "service=shop").now())
			testkit.Eventually(t, "the other is notified", func() bool { return len(m.all()) == 1 })
			require.Less(t, time.Since(began), 5*time.Second)
			require.Equal(t, breaker.Closed.String(), status(t, d, "r0/email[0]").Breaker)
		})
	}
}
